"""Sparse tensors are refused by name, before anything is captured."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from edgex.errors import CaptureError
from edgex.export.capture.program import capture

EDGES = torch.eye(4).to_sparse()
X = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))


class Graph(nn.Module):
    def __init__(self, adjacency: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("adjacency", adjacency)

    def forward(self, x):
        return torch.sparse.mm(self.adjacency, x)


class Product(nn.Module):
    def forward(self, adjacency, x):
        return torch.sparse.mm(adjacency, x)


@pytest.mark.parametrize("adjacency", [EDGES, EDGES.to_sparse_csr()], ids=["coo", "csr"])
def test_a_sparse_buffer_is_named(adjacency):
    with pytest.raises(CaptureError, match=r"weight adjacency: torch.sparse_\w+, and an exported program") as caught:
        capture(Graph(adjacency), (X,), source_root=Path(__file__).parent)
    assert "to_dense()" in caught.value.fix


def test_so_is_a_sparse_input():
    with pytest.raises(CaptureError, match=r"an example input: torch.sparse_coo"):
        capture(Product(), (EDGES, X), source_root=Path(__file__).parent)


class Attribute(nn.Module):
    def __init__(self):
        super().__init__()
        self.edges = EDGES

    def forward(self, x):
        return torch.sparse.mm(self.edges, x)  # at fault


class MadeInForward(nn.Module):
    def forward(self, x):
        places = torch.tensor([[0, 1, 3], [2, 2, 0]])
        return torch.sparse_coo_tensor(places, x[:, 0][:3], (4, 4)) @ x  # at fault


@pytest.mark.parametrize("model", [Attribute(), MadeInForward()])
def test_one_that_forward_meets_is_refused_with_its_line(model):
    with pytest.raises(CaptureError, match="forward computes with a sparse tensor") as caught:
        capture(model, (X,), source_root=Path(__file__).parent)
    assert "# at fault" in caught.value.where
    assert "index_add" in caught.value.fix
