"""Make a program indifferent to how attention lays out its result.

torch.export records what is done to the result of `scaled_dot_product_attention` as views that are possible only with
the strides that PyTorch's own kernel gives it. Kept whole, the operator promises no strides, and decomposing the
program around it fails. So its result is made contiguous (which costs nothing: in a region, a copy is a view), and
`view` becomes `reshape`, which says what is meant.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.export import ExportedProgram


def free_of_strides(program: ExportedProgram) -> ExportedProgram:
    """The program with `reshape` for `view` where it has attention; weights are shared, the original is not changed."""
    import torch
    from torch.export import ExportedProgram

    aten = torch.ops.aten
    attention = aten.scaled_dot_product_attention.default
    if not program.graph.find_nodes(op="call_function", target=attention):
        return program
    graph = copy.deepcopy(program.graph)
    for original, node in zip(program.graph.nodes, graph.nodes, strict=True):
        node.name = original.name
        if node.op == "placeholder":
            node.target = original.target
        elif node.target is aten.view.default:
            node.target = aten.reshape.default
    for node in graph.find_nodes(op="call_function", target=attention):
        with graph.inserting_after(node):
            dense = graph.call_function(aten.clone.default, (node,), {"memory_format": torch.contiguous_format})
        dense.meta = dict(node.meta)
        with node.meta["val"].fake_mode:
            dense.meta["val"] = node.meta["val"].clone(memory_format=torch.contiguous_format)
        node.replace_all_uses_with(dense, delete_user_cb=lambda user, kept=dense: user is not kept)
    return ExportedProgram(
        root=program.graph_module,
        graph=graph,
        graph_signature=copy.deepcopy(program.graph_signature),
        state_dict=program.state_dict,
        range_constraints=dict(program.range_constraints),
        module_call_graph=program.module_call_graph,
        example_inputs=program.example_inputs,
        constants=program.constants,
    )
