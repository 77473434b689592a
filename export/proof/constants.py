"""Outputs that depend on no input: a loss of training that is zero, a table of anchors, strides.

Nothing varies them, so no example shows more than one does: that one agrees is their whole proof.
"""

from __future__ import annotations

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.editing.mutation import without_writes


def find_constant_outputs(program: CapturedProgram) -> tuple[str, ...]:
    """Names of the outputs of which no operator reads an input or what the model keeps from call to call, in order."""
    exported = without_writes(program).exported
    signature, graph = exported.graph_signature, exported.graph
    carried = set(signature.buffers_to_mutate.values())
    varying = {
        node
        for node in graph.nodes
        if node.op == "placeholder"
        and (node.name in signature.user_inputs or signature.inputs_to_buffers.get(node.name) in carried)
    }
    for node in graph.nodes:
        if not varying.isdisjoint(node.all_input_nodes):
            varying.add(node)
    varying_names = {node.name for node in varying}
    returned = signature.user_outputs
    if len(returned) != len(program.outputs):
        return ()
    return tuple(
        spec.name
        for spec, name in zip(program.outputs, returned, strict=True)
        if isinstance(name, str) and name not in varying_names
    )
