"""Messages of ExecuTorch, at export and on the device. Plain data: to add one, add an `Entry`."""

from __future__ import annotations

from edgex.explain.entry import Entry

MESSAGES: tuple[Entry, ...] = (
    Entry(
        "missing-operator",
        "executorch",
        r"Missing operator: \[\d+\] (?P<name>\S+)|kernel '\S+' not found",
        "The program calls an operator for which the runtime has no kernel: it was left out by the backend, and the "
        "portable library lacks it. Such a program builds and then does not load (0x14).",
        "edgex export MODEL -t xnnpack --dry-run names the operator and its line; rewrite it, or use -t onnx-cpu",
        ("pytorch/executorch#21950", "pytorch/executorch#1287", "pytorch/executorch#6749"),
    ),
    Entry(
        "missing-out-variants",
        "executorch",
        r"Missing out variants: \{.*\}",
        "to_executorch() found operators that exist only in functional form: custom operators without an out variant, "
        "or quantize/dequantize operators that no backend took.",
        "register `name.out` for a custom operator; for quantized models lower with the partitioner of the backend "
        "that the quantizer was made for",
        ("pytorch/executorch#1577", "pytorch/executorch#1132", "pytorch/executorch#7775"),
    ),
    Entry(
        "not-core-aten",
        "executorch",
        r"Operator \S+ is not (?:in Core ATen opset|Aten Canonical)",
        "to_edge() met an operator outside Core ATen that has no decomposition, often one that only training uses.",
        "call model.eval() before the export; else write the computation with other operators",
        ("pytorch/executorch#3832", "pytorch/executorch#2389", "pytorch/pytorch#158113"),
    ),
    Entry(
        "static-tensor-resized",
        "executorch",
        r"Attempted to resize a static tensor",
        "An input has another size than the one that was exported; sizes that were not declared dynamic are fixed.",
        "give inputs of the exported size, or export with --dynamic NAME:AXIS=MIN..MAX",
        ("pytorch/executorch#1350",),
    ),
    Entry(
        "rank-changed",
        "executorch",
        r"Attempted to change the tensor rank which is immutable",
        "An input has another number of dimensions than the exported one; most often the batch dimension is missing.",
        "add the dimension: x[None]; `edgex inspect ARTIFACT` shows the shape",
    ),
    Entry(
        "scalar-type",
        "executorch",
        r"Input \d+ has unexpected scalar type",
        "An input has another dtype than the exported one; NumPy's default float64 is the usual reason.",
        "convert it: x.astype(np.float32)",
    ),
    Entry(
        "backend-not-registered",
        "executorch",
        r"Backend (?P<name>\w+) is not registered",
        "The program needs a backend that is not linked into this runtime, or whose library was not loaded (0x20).",
        "link the backend's library with whole-archive (xnnpack_backend), on iOS with -force_load; in Python use the "
        "executorch wheel, which holds XNNPACK; `edgex doctor` checks it",
        ("pytorch/executorch#3696", "pytorch/torchchat#662", "pytorch/executorch#7527"),
    ),
    Entry(
        "backend-init-failed",
        "executorch",
        r"Init failed for backend (?P<name>\w+)|XnnpackBackend init failed",
        "The backend could not read or compile its part of the program: it was made by another version, asks "
        "for what this processor lacks, or holds a quantization scheme that the backend does not take.",
        "export again with the versions that run it; for dynamic int8 use per-channel weights, and calibrate",
        ("pytorch/executorch#8830", "pytorch/executorch#11355"),
    ),
    Entry(
        "xnnpack-format-version",
        "executorch",
        r"XNNPACK Delegate Serialization Format version identifier",
        "The XNNPACK part of the program was written by another ExecuTorch version than the one that reads it.",
        "export again with the runtime's version; an older .pte is promised to run on the next minor version only",
    ),
    Entry(
        "method-not-found",
        "executorch",
        r"No method named '(?P<name>\w+)' in program",
        "The program has no method of this name; exported modules have `forward`.",
        "call forward, or export the method under that name",
    ),
    Entry(
        "too-many-inputs",
        "executorch",
        r"Input index \(\d+\) must be less than the number of inputs in method",
        "More inputs are given than the program has: inputs that the model does not use are removed by the export.",
        "`edgex inspect ARTIFACT` lists the inputs",
    ),
    Entry(
        "index-out-of-range",
        "executorch",
        r"Check failed \(indices_ptr\[i\] < weight_height\)",
        "An index lies outside the embedding's table: a token id beyond the vocabulary, or padding with -1.",
        "check the tokenizer's vocabulary against the model's, and the padding value",
    ),
    Entry(
        "pte-not-found",
        "executorch",
        r"mmap_data_loader\S* Failed to open|Failed to create MmapDataLoader",
        "The .pte file does not exist or may not be read (0x22). On Android, assets have no path.",
        "check the path and its permissions; on Android copy the asset to a file first",
    ),
    Entry(
        "magic-header",
        "executorch",
        r"(?i)program identifier .* != expected|Magic header does not match",
        "The file is no ExecuTorch program, is cut off, or has a format that this runtime does not read.",
        "compare its size with the original's; export again with the runtime's version",
        ("pytorch/executorch#2533",),
    ),
    Entry(
        "load-failed-20",
        "executorch",
        r"Load failed: ?(?P<name>\d+)",
        "Android's Module.load prints the code in decimal: 20 is 0x14 (an operator has no kernel), 32 is 0x20 (a "
        "backend is missing), 35 is 0x23 (not a valid program).",
        "edgex explain 0x14 (or 0x20, 0x23)",
        ("pytorch/executorch#4035",),
        quote="Load failed:20",
    ),
    Entry(
        "libexecutorch-not-found",
        "executorch",
        r"(?:dlopen failed: )?library \"libexecutorch\w*\.so\" not found|couldn't find .*libexecutorch",
        "The app does not hold ExecuTorch's native library for the phone's ABI.",
        "take the AAR org.pytorch:executorch-android of the exporter's version, and keep arm64-v8a in abiFilters",
        ("pytorch/executorch#6301",),
        quote='java.lang.UnsatisfiedLinkError: dlopen failed: library "libexecutorch.so" not found',
    ),
    Entry(
        "native-peer",
        "executorch",
        r"ClassNotFound\w*:? .*NativePeer",
        "The app holds ExecuTorch's native library without its Java classes, or the two are of different versions.",
        "take both from one AAR; do not mix a copied .so with a package from Maven",
        ("pytorch/executorch#8636",),
        quote='java.lang.ClassNotFoundException: Didn\'t find class "org.pytorch.executorch.NativePeer"',
    ),
    Entry(
        "backend-data",
        "executorch",
        r"Failed to load data for backend",
        "The .pte file is shorter than it says, most often because it was cut off while it was copied.",
        "copy it again and compare sizes; `edgex verify ARTIFACT` compares hashes",
        ("pytorch/executorch#3848",),
        quote="Failed to load data for backend XnnpackBackend",
    ),
)
