"""Which of ExecuTorch's Android libraries belongs to an exporter."""

from __future__ import annotations

from edgex.errors import TargetUnavailable

# Version of the exporter -> version on Maven Central. Not every release of the wheel is there: 1.5.0 is not.
AARS = {"1.5.1": "1.5.1"}

# Flavor -> (library, the backends that it registers). `-qnn` exists too, but no target here lowers to it.
FLAVORS = {
    "xnnpack": ("executorch-android", frozenset({"XnnpackBackend"})),
    "vulkan": ("executorch-android-vulkan", frozenset({"XnnpackBackend", "VulkanBackend"})),
}


def find_aar(exporter: str, where: str) -> str:
    """The version of the Android library that reads what an exporter wrote.

    Args:
        exporter: Version of the `executorch` package, with or without a local part such as `+cpu`.
        where: The artifact, for the error.

    Raises:
        TargetUnavailable: There is none.
    """
    version = exporter.partition("+")[0]
    if version not in AARS:
        known = ", ".join(sorted(AARS))
        raise TargetUnavailable(
            f"there is no ExecuTorch library for Android of the version that exported this model, {exporter}",
            where,
            f"export the model again with executorch {known}",
            why=f"known on Maven Central: {known}; another version may not read the file",
        )
    return AARS[version]
