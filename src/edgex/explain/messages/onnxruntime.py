"""Messages of ONNX Runtime and its providers. Plain data: to add one, add an `Entry`."""

from __future__ import annotations

from edgex.explain.entry import Entry

MESSAGES: tuple[Entry, ...] = (
    Entry(
        "ir-version",
        "onnxruntime",
        r"Unsupported model IR version: (?P<name>\d+), max supported IR version: \d+",
        "The file's IR version is newer than this ONNX Runtime: the onnx package that wrote it is ahead.",
        "pip install --upgrade onnxruntime; or write the file with edgex, which stays at IR 10",
        ("microsoft/onnxruntime#20559", "microsoft/onnxruntime#23602"),
    ),
    Entry(
        "opset-too-new",
        "onnxruntime",
        r"Opset (?P<name>\d+) is under development and support for this is limited",
        "The file's opset is newer than this ONNX Runtime.",
        "pip install --upgrade onnxruntime; or export with a lower one: --option opset=20",
        ("microsoft/onnxruntime#5905",),
    ),
    Entry(
        "not-implemented",
        "onnxruntime",
        r"Could not find an implementation for (?:the node )?(?P<name>\w+)\(\d+\)",
        "The provider has no kernel for this operator with this dtype (float64 and bfloat16 are the usual ones) or in "
        "this old operator version.",
        "export in fp32 or fp16; edgex names the operator and its line before it writes a file",
        ("microsoft/onnxruntime#9685", "microsoft/onnxruntime#11453", "microsoft/onnxruntime#26311"),
    ),
    Entry(
        "invalid-graph",
        "onnxruntime",
        r"INVALID_GRAPH",
        "The graph breaks a rule of ONNX: an operator with a wrong number of inputs, an unknown operator, a dtype that "
        "the operator does not allow. The rest of the line tells which.",
        "export the model again; onnx.checker.check_model(path, full_check=True) lists more",
        general=True,
    ),
    Entry(
        "type-error",
        "onnxruntime",
        r"Type Error: Type '?\(?tensor\((?P<name>\w+)\)",
        "ONNX does not define the operator for this dtype, for example a bfloat16 Conv before opset 22.",
        "export in fp32 or fp16",
        ("microsoft/onnxruntime#25740", "microsoft/onnxruntime#15167", "microsoft/onnxruntime#1760"),
    ),
    Entry(
        "no-op-registered",
        "onnxruntime",
        r"No Op registered for (?P<name>\w+) with domain_version of \d+",
        "The operator does not exist in the opset that the file declares.",
        "export with a newer opset: --option opset=20",
    ),
    Entry(
        "custom-op-not-registered",
        "onnxruntime",
        r"Fatal error: (?P<name>\S+) is not a registered function/op",
        "The file calls a custom operator whose library is not loaded.",
        "SessionOptions.register_custom_ops_library(path); or rewrite the operator before the export",
    ),
    Entry(
        "protobuf",
        "onnxruntime",
        r"INVALID_PROTOBUF|[Pp]rotobuf parsing failed",
        "The file is no ONNX model, or is cut off; a Git LFS pointer is the usual one.",
        "compare its size with the original's; git lfs pull",
    ),
    Entry(
        "no-such-file", "onnxruntime", r"NO_SUCHFILE", "The model file does not exist at this path.", "check the path"
    ),
    Entry(
        "external-data",
        "onnxruntime",
        r"External data path (?:does not exist|validation failed)",
        "The weights of the model lie in a file beside it (model.onnx.data), which was not copied along.",
        "copy both files; an edgex artifact is one folder",
    ),
    Entry(
        "invalid-dimensions",
        "onnxruntime",
        r"Got invalid dimensions for input: (?P<name>\S+)|Invalid rank for input: \S+",
        "An input has another shape than the model was exported with.",
        "give that shape, or export with --dynamic NAME:AXIS=MIN..MAX",
    ),
    Entry(
        "input-type",
        "onnxruntime",
        r"Unexpected input data type\. ?Actual: ",
        "An input has another dtype than the model's; NumPy's default float64 is the usual reason.",
        "convert it: x.astype(np.float32)",
        ("microsoft/onnxruntime#7340",),
    ),
    Entry(
        "input-missing",
        "onnxruntime",
        r"Required inputs \(.+\) are missing from input feed|Invalid input name: \S+",
        "The names that are given are not those of the model.",
        "`edgex inspect ARTIFACT` or session.get_inputs() lists them",
    ),
    Entry(
        "node-failed",
        "onnxruntime",
        r"Non-zero status code returned while running (?P<name>\w+) node",
        "An operator refused its inputs while the model ran: a reshape that does not fit, an index out of range.",
        "compare the inputs with those of the export; sizes that the example fixed stay fixed",
        general=True,
    ),
    Entry(
        "indices-out-of-bounds",
        "onnxruntime",
        r"Status Message: indices element out of data bounds, idx=-?\d+ must be within the inclusive range",
        "An index lies outside the table that a Gather reads: a token id beyond the vocabulary, or a padding value.",
        "check the tokenizer's vocabulary against the model's, and the padding value",
    ),
    Entry(
        "shape-inference",
        "onnxruntime",
        r"\[ShapeInferenceError\]",
        "The shapes in the file contradict each other, often after it was edited or quantized.",
        "export again; before quantize_dynamic remove the graph's value_info",
    ),
    Entry(
        "provider-not-available",
        "onnxruntime",
        r"Specified provider '(?P<name>\w+)' is not in available provider names",
        "This build of ONNX Runtime does not hold the provider; it goes on with the CPU silently. Two installed "
        "builds (onnxruntime beside onnxruntime-migraphx or -gpu) overwrite each other.",
        "one environment a build: pip uninstall all of them, then install one; `edgex doctor` finds clashes",
        ("microsoft/onnxruntime#26996", "microsoft/onnxruntime#23736", "microsoft/onnxruntime#7748"),
    ),
    Entry(
        "ep-error-fallback",
        "onnxruntime",
        r"EP Error .*|Falling back to \['CPUExecutionProvider'\] and retrying",
        "The provider failed to start and ONNX Runtime made a CPU session instead.",
        "edgex opens sessions with enable_fallback=0, which makes this an error; `edgex targets` shows what fails",
        ("microsoft/onnxruntime#27006", "microsoft/onnxruntime#17394", "microsoft/onnxruntime#23372"),
    ),
    Entry(
        "cpu-fallback-disabled",
        "onnxruntime",
        r"fallback to CPU EP has been explicitly disabled",
        "The provider did not take every operator, and the CPU is not allowed the rest (disable_cpu_ep_fallback).",
        "edgex export MODEL -t onnx-rocm --dry-run names the operators; edgex run ARTIFACT --allow-fallback mixes, "
        "and says how much ran where",
        ("microsoft/onnxruntime#16016", "microsoft/onnxruntime#29669"),
    ),
    Entry(
        "provider-library-missing",
        "onnxruntime",
        r"Failed to load library \S+ with error: .*cannot open shared object file",
        "The provider's library, or one that it needs (libmigraphx_c.so.3, libamdhip64.so.7), is not on this machine.",
        "install ROCm and MIGraphX of the version that the build names; `ldd LIBRARY` lists what is not found",
        ("microsoft/onnxruntime#7485",),
    ),
    Entry(
        "not-a-provider",
        "onnxruntime",
        r"Failed to get symbol CreateEpFactories",
        "The library is no plug-in provider; the classic libonnxruntime_providers_migraphx.so is none: it belongs "
        "to its own build of ONNX Runtime.",
        "give the plug-in's library in EDGEX_MIGRAPHX_LIBRARY, or install the classic build and give none",
    ),
    Entry(
        "provider-registered-twice",
        "onnxruntime",
        r"EP library is already registered under (?P<name>\S+)",
        "A provider library is registered a second time in one process.",
        "register it once a process, or call unregister_execution_provider_library first",
    ),
    Entry(
        "assignment-not-recorded",
        "onnxruntime",
        r"'session\.record_ep_graph_assignment_info' must be set",
        "Which provider runs which node is kept only when the session was asked to.",
        "options.add_session_config_entry('session.record_ep_graph_assignment_info', '1') before the session is made",
    ),
)
