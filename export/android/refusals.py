"""What an Android app cannot take, said before anything is written."""

from __future__ import annotations

import math

from edgex.errors import LoweringError, UsageError
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.artifact.card import scores_labels
from edgex.runtime.artifact.manifest import Manifest, Method
from edgex.runtime.artifact.specs import NUMPY_DTYPES, Dim

# What the app's tensors can be: the engines' Java classes make and read these.
JAVA_DTYPES = ("float32", "float64", "float16", "int8", "uint8", "int32", "int64")

_CASTS = {"bool": "uint8", "int16": "int32", "bfloat16": "float32", "complex64": "float32 pairs"}

# A Java buffer holds fewer bytes than this; 64 of them are the slack that kernels may read beyond the end.
_MAX_TENSOR_BYTES = 2**31 - 1 - 64


def check_methods(artifact: Artifact) -> None:
    """The app runs one program: one method, or those of a language model where they share it.

    Raises:
        UsageError: The artifact has others.
    """
    methods, llm = artifact.manifest.methods, artifact.manifest.llm
    if llm is not None and len({method.entry for method in methods}) == 1:
        return
    if [method.name for method in methods] != ["forward"]:
        raise UsageError(
            f"{artifact.path.name} is not for the Android app: it has the methods {', '.join(m.name for m in methods)}",
            why="library and app run one program, forward or a language model of --llm",
            fix=f"edgex export MODEL -t {artifact.manifest.target}, without methods()",
        )


def check_tensors(artifact: Artifact) -> None:
    """Every input and output must be of a type that the app's tensors have, and fit into a buffer.

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
                    why=f"its tensors are {', '.join(JAVA_DTYPES)}",
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


def check_labels(manifest: Manifest, labels: tuple[str, ...], where: str) -> str:
    """Labels need one output with one score for each.

    Returns:
        The output's name.

    Raises:
        UsageError: There is none, or several could be meant.
    """
    found = _find_scores(manifest.method, len(labels))
    if len(found) > 1:
        raise UsageError(
            f"{len(labels)} labels, and each of the outputs {', '.join(found)} has {len(labels)} values a row",
            where,
            "let the model give one of them, or leave the labels out",
            why="nothing says which of them the labels name",
        )
    if not found:
        outputs = "; ".join(str(spec) for spec in manifest.method.outputs)
        raise UsageError(
            f"{len(labels)} labels, but no float output has {len(labels)} values in its last dimension",
            where,
            "give the labels of this model with --labels, one a line",
            why=f"of one row, or of a batch of them: {outputs}",
        )
    return found[0]


def _find_scores(method: Method, count: int) -> list[str]:
    """Outputs with a score for each of `count` labels: one row, or one for each item of the inputs' batch.

    A list of boxes whose last dimension happens to be as large has more rows than the batch has items.
    """
    batches = {spec.shape[0] for spec in method.inputs if spec.shape} | {1}
    return [
        spec.name
        for spec in method.outputs
        if scores_labels(spec, count) and (len(spec.shape) == 1 or spec.shape[0] in batches)
    ]
