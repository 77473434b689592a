"""Reshapes around products: kept where the optimizer would multiply other things, left to it where nothing changes."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
import torch
from onnx_support import capture, check, lower
from torch import nn

Sizes = tuple[int, ...]


class Product(nn.Module):
    """`x` and what it is multiplied with, both reshaped, and the product reshaped in turn."""

    def __init__(
        self, weight: tuple[int, ...], left: tuple[int, ...], right: tuple[int, ...], to: tuple[int, ...]
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(weight, generator=torch.Generator().manual_seed(0)))
        self._left, self._right, self._to = left, right, to

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        computed = self.weight * x.flatten()[0]
        return torch.matmul(x.reshape(self._left), computed.reshape(self._right)).reshape(self._to)


@pytest.mark.parametrize(
    ("read", "weight", "left", "right", "to", "reshapes"),
    [
        # Rows of all places times a matrix for each stack: dropped, the stacks would be those of the places.
        ((4, 4, 4, 16), (4, 16, 4), (4, 16, 16), (4, 16, 4), (4, 4, 4, 4), True),
        ((4, 4, 4, 16), (1, 4, 16, 4), (4, 16, 16), (4, 16, 4), (4, 4, 4, 4), True),
        ((2, 2, 4, 4), (2, 4, 4), (4, 4, 4), (4, 4, 2), (2, 2, 4, 2), True),
        # Heads, and rows of a layer.
        ((2, 3, 5, 8), (2, 3, 8, 4), (6, 5, 8), (6, 8, 4), (2, 3, 5, 4), False),
        ((1, 3, 5, 8), (3, 8, 4), (3, 5, 8), (3, 8, 4), (1, 3, 5, 4), False),
        ((2, 3, 8), (8, 4), (6, 8), (8, 4), (2, 3, 4), False),
    ],
)
def test_products_keep_their_numbers(
    read: Sizes, weight: Sizes, left: Sizes, right: Sizes, to: Sizes, reshapes: bool, tmp_path: Path
) -> None:
    model = Product(weight, left, right, to).eval()
    x = torch.randn(read, generator=torch.Generator().manual_seed(1))
    folder = tmp_path / "a"
    check(folder, lower(capture(model, (x,))), model, (x,))
    kinds = [node.op_type for node in onnx.load(folder / "model.onnx").graph.node]
    # One is that of the number which makes the factor a computed one.
    assert (kinds.count("Reshape") > 1) == reshapes, kinds
