"""Bytes of weights that every generated token reads."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.engines.state_file import STATE_FILE
from edgex.runtime.engines.trace.operators import WeightRow
from edgex.runtime.engines.trace.source_map import MappedOperator, read_source_map, read_weights

# Keeps a table twice where the last layer reads it too: packed in the delegate's region, and plain for the rows.
_PACKS_WEIGHTS = "executorch"


def count_read_bytes(artifact: Artifact) -> int:
    """Bytes of the native files that a generated token reads: not the state's initial values, nor tables of embeddings.

    Of a table a token reads one row. One that the last layer reads too counts once, whether the file holds it once
    (ONNX Runtime, in float32) or twice. What is no weight in the program's file, some tens of kilobytes, counts.

    Args:
        artifact: Of a language model. Without `debug/`, tables count.
    """
    llm = artifact.manifest.llm
    artifact = artifact if llm is None else artifact.select(llm.decode)
    method, engine = artifact.manifest.method, artifact.manifest.engine
    total = sum(file.bytes for file in artifact.manifest.native_files if file.path != STATE_FILE)
    # What is no input of the native method is a buffer of the program, with its values in the same file: once for all
    # buffers that begin alike, and a cache begins with zeros. Others of one size would make the count too large.
    total -= sum({prod(spec.shape) * spec.numpy_dtype.itemsize for spec in method.state if spec.input is None})
    weights = read_weights(artifact)
    if llm is not None and llm.encode is not None:
        total = min(total, sum(row.bytes for row in weights))  # no token reads the encoder's
    shapes = {spec.name: [dim if isinstance(dim, int) else 1 for dim in spec.shape] for spec in method.inputs}
    operators = read_source_map(artifact, shapes).operators.values()
    lookups = [operator for operator in operators if "embedding" in operator.op]
    read_whole = {name for operator in operators if "embedding" not in operator.op for name in operator.inputs}
    for table, name in _tables(lookups, weights).items():
        if engine == _PACKS_WEIGHTS or name not in read_whole:
            total -= table.bytes
    return max(total, 0)


def _tables(lookups: Iterable[MappedOperator], weights: Iterable[WeightRow]) -> dict[WeightRow, str]:
    """The weights that operators look rows up in, each with its name in the program."""
    found = {}
    for operator in lookups:
        name = operator.inputs[0] if operator.inputs else ""
        for row in weights:
            # ONNX keeps a weight's name; of a torch program's placeholder, `p_model_embed_weight`, it is the end.
            if name == row.name or name.partition("_")[2] == row.name.replace(".", "_"):
                found[row] = name
    return found
