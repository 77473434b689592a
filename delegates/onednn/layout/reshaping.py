"""Make a program indifferent to how attention lays out its result, and write its masks as what is added.

torch.export records what is done to the result of `scaled_dot_product_attention` as views that are possible only with
the strides that PyTorch's own kernel gives it. Kept whole, the operator promises no strides, and decomposing the
program around it fails. So its result is made contiguous (which costs nothing: in a region, a copy is a view), and
`view` becomes `reshape`, which says what is meant.

A boolean mask tells which scores count. Outside of the region, once for all layers that share it, it becomes 0 or -inf.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgex.delegates.graph.retracing import dense_attention

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Graph, Node


def free_of_strides(program: ExportedProgram) -> ExportedProgram:
    """The program with `reshape` for `view` where it has attention; weights are shared, the original is not changed."""
    added: dict[Node, Node] = {}
    return dense_attention(program, lambda graph, node: _add_mask(graph, node, added))


def _add_mask(graph: Graph, node: Node, added: dict[Node, Node]) -> None:
    """Replace a boolean mask of one attention; `added` holds those that were made."""
    import torch

    from edgex.delegates.graph.schema import arguments_of, named_arguments

    given = named_arguments(node)
    mask = given["attn_mask"]
    if mask is None or mask.meta["val"].dtype != torch.bool:
        return
    if mask not in added:
        fake, dtype = mask.meta["val"], given["query"].meta["val"].dtype
        with graph.inserting_after(mask):
            arguments = (mask, 0.0, float("-inf"))
            made = graph.call_function(torch.ops.aten.where.Scalar, arguments)
        made.meta = dict(mask.meta)
        with fake.fake_mode:
            made.meta["val"] = torch.where(fake, 0.0, float("-inf"))
        if dtype != torch.float32:
            with graph.inserting_after(made):
                cast = graph.call_function(torch.ops.aten._to_copy.default, (made,), {"dtype": dtype})
            cast.meta = dict(made.meta)
            with fake.fake_mode:
                cast.meta["val"] = made.meta["val"].to(dtype)
            made = cast
        added[mask] = made
    if "attn_mask" in node.kwargs:
        node.update_kwarg("attn_mask", added[mask])
    else:
        position = [argument.name for argument in arguments_of(node)].index("attn_mask")
        node.update_arg(position, added[mask])
