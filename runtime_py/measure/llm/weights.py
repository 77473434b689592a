"""Bytes of weights that every generated token reads."""

from __future__ import annotations

from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.engines.trace.source_map import read_source_map, read_weights


def count_read_bytes(artifact: Artifact) -> int:
    """Bytes of the native files but for tables of which a token reads one row.

    A table that the last layer reads too counts, unless the file holds it twice.

    Args:
        artifact: Of a language model. Without `debug/`, all bytes count.
    """
    llm = artifact.manifest.llm
    artifact = artifact if llm is None else artifact.select(llm.decode)
    method = artifact.manifest.method
    shapes = {spec.name: [dim if isinstance(dim, int) else 1 for dim in spec.shape] for spec in method.inputs}
    operators = read_source_map(artifact, shapes).operators.values()
    modules = {operator.module for operator in operators if "embedding" in operator.op}
    weights = read_weights(artifact)
    tables = [row for row in weights if row.module_path in modules and len(row.shape) == 2]
    total = artifact.manifest.model_bytes
    if llm is not None and llm.encode is not None:
        total = min(total, sum(row.bytes for row in weights))  # no token reads the encoder's
    vocabulary = method.outputs[0].shape[-1]
    for table in tables:
        others = [row for row in weights if row is not table and vocabulary in row.shape and len(row.shape) == 2]
        is_last_layer_too = vocabulary in table.shape and not others
        held_twice = artifact.manifest.model_bytes >= sum(row.bytes for row in weights) + table.bytes // 2
        if not is_last_layer_too or held_twice:
            total -= min(table.bytes, total)
    return total
