"""What an Android app cannot take, said before anything is written."""

from __future__ import annotations

import math

from edgex.errors import LoweringError, UsageError
from edgex.export.android.options import AppOptions
from edgex.export.android.versions import FLAVORS
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.artifact.card import scores_labels
from edgex.runtime.artifact.manifest import Manifest
from edgex.runtime.artifact.specs import NUMPY_DTYPES, Dim
from edgex.runtime.engines.executorch.pte import PteSummary

# What ExecuTorch's Java classes can make and read.
JAVA_DTYPES = ("float32", "float64", "float16", "int8", "uint8", "int32", "int64")

_CASTS = {"bool": "uint8", "int16": "int32", "bfloat16": "float32", "complex64": "float32 pairs"}

# A Java buffer holds fewer bytes than this; 64 of them are the slack that kernels may read beyond the end.
_MAX_TENSOR_BYTES = 2**31 - 1 - 64


def check_engine(artifact: Artifact) -> None:
    """Only what ExecuTorch runs on a phone can be put into the app.

    Raises:
        UsageError: Another engine runs the artifact, or it needs a plug-in.
    """
    manifest = artifact.manifest
    if manifest.engine != "executorch":
        raise UsageError(
            f"{artifact.path.name} is not for Android: {manifest.engine} runs it",
            why="the app runs ExecuTorch programs (.pte)",
            fix="edgex export MODEL -t xnnpack",
        )
    if manifest.requirements.plugins:
        plugins = ", ".join(manifest.requirements.plugins)
        raise UsageError(
            f"{artifact.path.name} is not for Android: it needs the plug-in {plugins}",
            why="ExecuTorch's library for Android does not have it",
            fix="edgex export MODEL -t xnnpack",
        )


def check_methods(artifact: Artifact) -> None:
    """The app runs one method, `forward`.

    Raises:
        UsageError: The artifact has others, as those of language models do.
    """
    methods = [method.name for method in artifact.manifest.methods]
    if methods != ["forward"]:
        raise UsageError(
            f"{artifact.path.name} is not for the Android app: it has the methods {', '.join(methods)}",
            why="library and app run one method, forward",
            fix="edgex export MODEL -t xnnpack, without --llm",
        )


def check_backends(artifact: Artifact, program: PteSummary, options: AppOptions) -> None:
    """Every backend of the program must be in the chosen library.

    Raises:
        LoweringError: One is not.
    """
    library, present = FLAVORS[options.flavor]
    for backend in sorted(set(program.backends) - present):
        other = [flavor for flavor, (_, backends) in FLAVORS.items() if backend in backends]
        raise LoweringError(
            f"{library} lacks the backend {backend}, which the model needs",
            artifact.path.name,
            f"--flavor {other[0]}" if other else "edgex export MODEL -t xnnpack",
            why=f"it has {', '.join(sorted(present))}",
        )


def check_tensors(artifact: Artifact) -> None:
    """Every input and output must be of a type that ExecuTorch's Java classes have, and fit into a buffer.

    Raises:
        LoweringError: One is not.
    """
    method = artifact.manifest.method
    for kind, specs in (("input", method.inputs), ("output", method.outputs)):
        for spec in specs:
            if spec.dtype not in JAVA_DTYPES:
                raise LoweringError(
                    f"{kind} {spec.name!r} is {spec.dtype}, which an Android app cannot {_VERBS[kind]}",
                    artifact.path.name,
                    f"let the model {_VERBS[kind]} {_CASTS.get(spec.dtype, 'float32')} and convert within `forward`",
                    why=f"ExecuTorch's Java classes have {', '.join(JAVA_DTYPES)}",
                )
            varying = [axis for axis, dim in enumerate(spec.shape) if isinstance(dim, Dim)]
            largest = math.prod(dim.max if isinstance(dim, Dim) else dim for dim in spec.shape)
            if largest * NUMPY_DTYPES[spec.dtype].itemsize > _MAX_TENSOR_BYTES:
                raise LoweringError(
                    f"{kind} {spec.name!r} may be larger than 2 GiB, which a Java buffer cannot hold",
                    artifact.path.name,
                    f"export with smaller upper bounds: --dynamic {spec.name}:{varying[0]}=…"
                    if varying and kind == "input"
                    else "export with smaller upper bounds of the dynamic dimensions",
                )


_VERBS = {"input": "take", "output": "give"}


def check_labels(manifest: Manifest, labels: tuple[str, ...], where: str) -> None:
    """Labels need an output with one score for each.

    Raises:
        UsageError: There is none.
    """
    if not any(scores_labels(spec, len(labels)) for spec in manifest.method.outputs):
        outputs = "; ".join(str(spec) for spec in manifest.method.outputs)
        raise UsageError(
            f"{len(labels)} labels, but no float output has {len(labels)} values in its last dimension",
            where,
            "give the labels of this model with --labels, one a line",
            why=outputs,
        )
