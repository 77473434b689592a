"""Which library for Android belongs to an artifact: ExecuTorch's, ONNX Runtime's and LiteRT's, pinned."""

from __future__ import annotations

from edgex.errors import TargetUnavailable

# Version of the exporter -> version on Maven Central. Not every release of the wheel is there: 1.5.0 is not.
EXECUTORCH_AARS = {"1.5.1": "1.5.1"}

# Flavor -> (library, the backends that it registers). `-qnn` exists too, but no target here lowers to it.
EXECUTORCH_FLAVORS = {
    "xnnpack": ("executorch-android", frozenset({"XnnpackBackend"})),
    "vulkan": ("executorch-android-vulkan", frozenset({"XnnpackBackend", "VulkanBackend"})),
}

# On Maven Central since the summer of 2026, and in the builds of public projects as of November 2026; no registry here
# has it. The last without telemetry, which came with 1.29.0: microsoft/onnxruntime PR 27379, and its docs/Privacy.md.
# `onnxruntime-android-qnn` is there in the same version, and brings `com.qualcomm.qti:qnn-runtime`.
ONNXRUNTIME_AAR = "1.28.0"

# On Google's Maven, in the builds of public projects as of November 2026; of the version of the converter that this
# package asks for. It has the interpreter, org.tensorflow.lite, for the CPU (ai.google.dev/edge/litert/android).
LITERT_AAR = "2.3.0"


def find_executorch_aar(exporter: str, where: str) -> str:
    """The version of ExecuTorch's Android library that reads what an exporter wrote.

    Args:
        exporter: Version of the `executorch` package, with or without a local part such as `+cpu`.
        where: The artifact, for the error.

    Raises:
        TargetUnavailable: There is none.
    """
    version = exporter.partition("+")[0]
    if version not in EXECUTORCH_AARS:
        known = ", ".join(sorted(EXECUTORCH_AARS))
        raise TargetUnavailable(
            f"there is no ExecuTorch library for Android of the version that exported this model, {exporter}",
            where,
            f"export the model again with executorch {known}",
            why=f"known on Maven Central: {known}; another version may not read the file",
        )
    return EXECUTORCH_AARS[version]
