"""For which sizes an artifact with dynamic dimensions is compiled, and when."""

from __future__ import annotations

from typing import Any

from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.artifact.golden import read_example
from edgex.runtime.artifact.specs import Dim
from edgex.runtime.engines.onednn.plugin import NAME

# `kMostExecutables`, `kFewestExecutables` and `kMostConstantBytes` in native/backend.cpp.
MOST_KEPT, FEWEST_KEPT = 16, 2
MOST_CONSTANT_BYTES = 1 << 30


def describe_compiled_sizes(artifact: Artifact) -> dict[str, Any] | None:
    """Sizes of the dynamic dimensions: compiled while loading, and how many others stay compiled.

    Returns:
        `{"at_load": {dimension: size}, "kept": 16}`: a region keeps that many combinations of sizes, each compiled when
        it is seen first, and lets the one go that was used longest ago. Fewer where constants are large, which oneDNN
        3.2 prepares for each anew: as many as fit into 1 GiB, counted for a region with all of the program's, and 2
        at least. None for artifacts of other engines, and where all sizes are fixed.

    Raises:
        ArtifactError: The artifact's example cannot be read.
    """
    manifest = artifact.manifest
    if NAME not in manifest.requirements.plugins or all(spec.is_static for spec in manifest.method.inputs):
        return None
    example = read_example(artifact)
    sizes = {
        dim.name: int(example[spec.name].shape[axis])
        for spec in manifest.method.inputs
        for axis, dim in enumerate(spec.shape)
        if isinstance(dim, Dim)
    }
    fit = MOST_CONSTANT_BYTES // artifact.file(".pte").stat().st_size
    return {"at_load": sizes, "kept": max(FEWEST_KEPT, min(MOST_KEPT, fit))}
