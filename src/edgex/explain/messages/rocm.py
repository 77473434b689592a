"""Messages of ROCm and MIGraphX. Plain data: to add one, add an `Entry`."""

from __future__ import annotations

from edgex.explain.entry import Entry

MESSAGES: tuple[Entry, ...] = (
    Entry(
        "kfd-permission",
        "rocm",
        r"Unable to open /dev/kfd read-write: (?:Permission denied|Operation not permitted)",
        "The user may not open the GPU's device node.",
        "sudo usermod -aG render,video $USER, then log in again; in a container --device=/dev/kfd --device=/dev/dri "
        "--group-add render",
        ("ROCm/ROCm-docker#116", "ROCm/rocminfo#34", "ROCm/legacy-rocm-build#1211"),
        quote="Unable to open /dev/kfd read-write: Permission denied",
    ),
    Entry(
        "kfd-memory",
        "rocm",
        r"Unable to open /dev/kfd read-write: (?:Cannot allocate memory|Invalid argument)",
        "The kernel driver does not support this GPU, or driver and libraries are of different versions.",
        "sudo dmesg | grep kfd names the GPU that is refused; install the driver of the ROCm version in use",
        ("ROCm/rocminfo#41", "ROCm/legacy-rocm-build#4043"),
        quote="Unable to open /dev/kfd read-write: Cannot allocate memory",
    ),
    Entry(
        "no-binary-for-gpu",
        "rocm",
        r"hipErrorNoBinaryForGpu",
        "The libraries hold no code for this GPU's architecture.",
        "see ROCm's list of supported GPUs; HSA_OVERRIDE_GFX_VERSION=10.3.0 lets some RDNA2 cards pass "
        "as gfx1030, without support",
        ("ROCm/legacy-rocm-build#1530", "ROCm/tensorflow-upstream#1800"),
        quote="hipErrorNoBinaryForGpu: Unable to find code object for all current devices!",
    ),
    Entry(
        "migraphx-unknown-operator",
        "migraphx",
        r"parse_graph: Unknown operator: (?P<name>\w+)",
        "MIGraphX's ONNX parser does not know the operator.",
        "edgex export MODEL -t onnx-rocm --dry-run lists such operators with their lines before anything runs",
        ("ROCm/AMDMIGraphX#2758", "ROCm/AMDMIGraphX#721", "microsoft/onnxruntime#31713"),
        quote="onnx_parser.cpp:419: parse_graph: Unknown operator: Gelu",
    ),
    Entry(
        "migraphx-call-failed",
        "migraphx",
        r"Status Message: Failed to call function|migraphx_parse_onnx_buffer: Error",
        "MIGraphX took a part of the graph and failed to compile it at the first run; there is no fallback then.",
        "the line before names the cause; a Loop or If in the model is the usual one: rewrite it, or use -t onnx-cpu",
        ("microsoft/onnxruntime#29778", "ROCm/AMDMIGraphX#5078"),
        quote="Status Message: Failed to call function",
    ),
    Entry(
        "migraphx-stash-type",
        "migraphx",
        r"LAYERNORM does not support stash_type",
        "A warning: MIGraphX ignores the precision in which the layer norm should accumulate.",
        "compare fp16 results with the CPU's: edgex verify ARTIFACT on the machine with the GPU",
        ("ROCm/AMDMIGraphX#4313",),
        quote="WARNING: LAYERNORM does not support stash_type, it will be ignored.",
    ),
    Entry(
        "rocm-provider-gone",
        "onnxruntime",
        r"(?:no longer|not).*\bROCMExecutionProvider\b|Unknown Provider Type: ROCMExecutionProvider",
        "The ROCm execution provider was removed from ONNX Runtime; ROCm 7.0 was its last build.",
        "use MIGraphXExecutionProvider: docs/reference/targets/onnx-rocm.md",
        ("microsoft/onnxruntime#25181",),
    ),
)
