"""The linear layer that gives a language model's scores: the last one, behind which only views and bounds lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.export.graph_signature import OutputKind

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node

# What may lie between it and the output: a choice of the last token, and a scale or a soft cap.
_BETWEEN = ("select", "slice", "view", "reshape", "squeeze", "unsqueeze", "to", "_to_copy", "clone", "alias", "detach")
_BOUNDS = ("mul", "div", "tanh")


def find_head(exported: ExportedProgram) -> Node | None:
    """The layer, or None where the first output is not one linear layer's.

    Args:
        exported: A captured program that holds PyTorch's own operators.
    """
    specs = exported.graph_signature.output_specs
    results = exported.graph.output_node().args[0]
    assert isinstance(results, tuple)
    users = (value for value, spec in zip(results, specs, strict=True) if spec.kind is OutputKind.USER_OUTPUT)
    node = next(users, None)
    while isinstance(node, torch.fx.Node) and node.op == "call_function":
        if node.target is torch.ops.aten.linear.default:
            return node
        name = str(node.target).removeprefix("aten.").partition(".")[0]
        tensors = [value for value in node.all_input_nodes if isinstance(value.meta.get("val"), torch.Tensor)]
        if name not in (*_BETWEEN, *_BOUNDS) or (name in _BOUNDS and len(tensors) != 1):
            return None
        node = tensors[0] if tensors else None
    return None
