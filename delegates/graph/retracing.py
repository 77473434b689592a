"""What torch's passes trip over when they trace a program anew: unknown sizes, and strides that come out otherwise."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Graph, Node

T = TypeVar("T")


def retry_stale_symbols(retrace: Callable[[], T]) -> T:
    """Run a torch pass that retraces a program, once more where it trips over the pass before it.

    A graph with `nonzero` remembers the symbol for the unknown size in its fake tensors. The next pass over the
    same program takes it for one of its own and fails; that clears the memory, and the pass after it succeeds.
    """
    from torch.fx.experimental.symbolic_shapes import PendingUnbackedSymbolNotFound

    try:
        return retrace()
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, PendingUnbackedSymbolNotFound):
            cause = cause.__cause__
        if cause is None:
            raise
    return retrace()


def dense_attention(
    program: ExportedProgram, prepare: Callable[[Graph, Node], None] = lambda _graph, _node: None
) -> ExportedProgram:
    """The program with `reshape` for `view` and a dense copy behind attention, where it has attention.

    How attention lays out what it gives depends on the kernel that a pass chooses. The next pass may choose another,
    whose strides a `view` of the first one's does not take.

    Args:
        program: It is not changed, its weights are shared.
        prepare: Is given the graph of the copy and each attention in it.
    """
    import torch
    from torch.export import ExportedProgram

    aten = torch.ops.aten
    attention = aten.scaled_dot_product_attention.default
    if not program.graph.find_nodes(op="call_function", target=attention):
        return program
    graph = copy.deepcopy(program.graph)
    signature = copy.deepcopy(program.graph_signature)
    for original, node in zip(program.graph.nodes, graph.nodes, strict=True):
        node.name = original.name
        if node.op == "placeholder":
            node.target = original.target
        elif node.target is aten.view.default:
            node.target = aten.reshape.default
    for node in graph.find_nodes(op="call_function", target=attention):
        prepare(graph, node)
        with graph.inserting_after(node):
            dense = graph.call_function(aten.clone.default, (node,), {"memory_format": torch.contiguous_format})
        dense.meta = dict(node.meta)
        with node.meta["val"].fake_mode:
            dense.meta["val"] = node.meta["val"].clone(memory_format=torch.contiguous_format)
        node.replace_all_uses_with(dense, delete_user_cb=lambda user, kept=dense: user is not kept)
        signature.replace_all_uses(node.name, dense.name)  # where attention itself is an output
    return ExportedProgram(
        root=program.graph_module,
        graph=graph,
        graph_signature=signature,
        state_dict=program.state_dict,
        range_constraints=dict(program.range_constraints),
        module_call_graph=program.module_call_graph,
        example_inputs=program.example_inputs,
        constants=program.constants,
        verifiers=program.verifiers,  # the default one refuses writes in place, which are functionalized later
    )
