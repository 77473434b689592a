"""Outputs that depend on no input: a loss of training that is zero, a table of anchors, strides.

Nothing varies them, so no example shows more than one does: that one agrees is their whole proof.
"""

from __future__ import annotations

from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.editing.mutation import alias_classes, written_arguments


def find_constant_outputs(program: CapturedProgram) -> tuple[str, ...]:
    """Names of the outputs of which no operator reads an input or what the model keeps from call to call, in order.

    What shares its memory with something that is written to varies where that does.
    """
    signature = program.exported.graph_signature
    if len(signature.user_outputs) != len(program.outputs):
        return ()
    names = {node.name for node in _find_varying(program)}
    return tuple(
        spec.name
        for spec, name in zip(program.outputs, signature.user_outputs, strict=True)
        if isinstance(name, str) and name not in names
    )


def _find_varying(program: CapturedProgram) -> set[Node]:
    """The nodes that depend on an input, or on what the model keeps from call to call."""
    exported = program.exported
    signature, graph = exported.graph_signature, exported.graph
    carried = {*signature.buffers_to_mutate.values(), *(spec.name for spec in program.state)}
    varying = {
        node
        for node in graph.nodes
        if node.op == "placeholder"
        and (node.name in signature.user_inputs or signature.inputs_to_buffers.get(node.name) in carried)
    }
    writes = {node: tuple(written_arguments(node, exported.graph_module)) for node in graph.nodes}
    classes = alias_classes(exported) if any(writes.values()) else None
    written: set[Node] = set()  # of each set of nodes that share memory its representative
    before = -1
    while before != len(written):
        before = len(written)
        for node in graph.nodes:
            if not varying.isdisjoint(node.all_input_nodes) or (classes and classes.find(node) in written):
                varying.add(node)
                written.update(classes.find(argument) for argument in writes[node] if classes)
    return varying
