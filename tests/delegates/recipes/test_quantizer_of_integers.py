"""Positions stay integers in a program that is quantized: a float index is none."""

from __future__ import annotations

import torch
from torch import nn

from edgex.delegates.recipes.observers import make_xnnpack_quantizer


class Positions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        at = torch.arange(3) * 1 + 1
        return self.linear(x)[:, at] * 2.0 + 1


def test_scalars_beside_integers_stay_integers() -> None:
    x = torch.randn(2, 5, 4)
    module = Positions().eval()
    traced = torch.export.export(module, (x,)).module()
    quantizer = make_xnnpack_quantizer("minmax", lambda _node: True, dynamic=False)
    changed = quantizer.transform_for_annotation(traced)
    torch.testing.assert_close(changed(x), module(x))
    taken = [
        node for node in changed.graph.nodes if node.target in (torch.ops.aten.add.Tensor, torch.ops.aten.mul.Tensor)
    ]
    scalars = {str(node.meta["val"].dtype): type(node.args[1]) for node in taken}
    assert scalars == {"torch.int64": int, "torch.float32": torch.fx.Node}
    assert all(node.users for node in changed.graph.nodes if node.op == "get_attr")
