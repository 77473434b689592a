"""Matrices in pieces are the matrices at once."""

import pytest
import torch

from edgex.delegates.recipes import pieces
from edgex.delegates.recipes.pieces import fill_in_pieces


@pytest.mark.parametrize(("rows", "columns"), [(1, 64), (7, 320), (100, 64), (3, 2048), (33, 32)])
def test_rows_are_all_there(rows, columns, monkeypatch):
    monkeypatch.setattr(pieces, "PIECE", 1000)
    weight = torch.rand(rows, columns)
    sizes = []

    def compute(part):
        sizes.append(weight[part].numel())
        return weight[part] * 2, weight[part].sum(1, keepdim=True).half()

    doubled, sums = fill_in_pieces(rows, columns, compute)
    assert torch.equal(doubled, weight * 2)
    assert torch.equal(sums, weight.sum(1, keepdim=True).half())
    assert max(sizes) <= max(1000, columns)
