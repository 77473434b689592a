"""Bags of embeddings as products and sums: padding, every mode, bags of one size and of many."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from rewriting import Calls, capture_program, check_rewrite, operators

from benchmarks.operators.proof import prove
from edgex.export.rewrites.scattering.sums import scatter_by_sums

TABLE = torch.randn(9, 4, generator=torch.Generator().manual_seed(0))
ROWS = torch.tensor([[1, 0, 3, 8], [0, 0, 0, 0], [5, 1, 0, 1]])
FLAT, STARTS = torch.tensor([1, 0, 3, 8, 0, 2, 2]), torch.tensor([0, 4, 5, 5])

CASES = {
    **{
        f"{mode} of rows{'' if padding is None else f', but for {padding}'}": (
            lambda w, i, m=mode, p=padding: F.embedding_bag(i, w, mode=m, padding_idx=p),
            *(TABLE, ROWS),
        )
        for mode in ("sum", "mean", "max")
        for padding in (None, 0, -9)
    },
    **{
        f"{mode} by starts{', but for padding' if padding is not None else ''}": (
            lambda w, i, o, m=mode, p=padding: F.embedding_bag(i, w, o, mode=m, padding_idx=p),
            *(TABLE, FLAT, STARTS),
        )
        for mode in ("sum", "mean")
        for padding in (None, 2)
    },
    "the end, too": (
        lambda w, i, o: F.embedding_bag(i, w, o, mode="mean", include_last_offset=True, padding_idx=0),
        *(TABLE, FLAT, torch.tensor([0, 4, 5, 7])),
    ),
    "weights of their own": (
        lambda w, i, s: F.embedding_bag(i, w, per_sample_weights=s, mode="sum", padding_idx=1),
        *(TABLE, ROWS, torch.rand(3, 4)),
    ),
    "bags of one": (lambda w, i: F.embedding_bag(i, w, mode="sum"), TABLE, ROWS.reshape(12, 1)),
    "32-bit starts": (lambda w, i, o: F.embedding_bag(i, w, o, mode="sum"), TABLE, FLAT.int(), STARTS.int()),
}


@pytest.mark.parametrize("case", CASES)
def test_bags_become_sums(case):
    function, *args = CASES[case]
    before = capture_program(Calls(function), *args)
    after, rewrite = scatter_by_sums(before)
    assert rewrite.count == 1
    check_rewrite(before, after, *args)
    assert not any("embedding_bag" in name for name in operators(after))


@pytest.mark.parametrize("target", ["xnnpack", "onednn", "onnx-cpu"])
def test_towers_of_bags_are_exported(target):
    class Towers(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.history = torch.nn.EmbeddingBag(50, 8, mode="mean", padding_idx=0)
            self.tags = torch.nn.EmbeddingBag(30, 8, mode="sum")
            self.best = torch.nn.EmbeddingBag(50, 8, mode="max")

        def forward(self, history, tags, starts):
            bags = self.history(history), self.tags(tags, starts), self.best(history)
            return torch.tanh(torch.cat(bags, -1))

    proved = prove(
        Towers().eval(), (torch.randint(0, 50, (4, 6)), torch.randint(0, 30, (9,)), torch.tensor([0, 3, 3, 8])), target
    )
    assert proved.exit_code == 0, proved.reason
    assert "scatter_by_sums" in proved.rewrites


class Degrees(torch.nn.Module):
    """A mean over the edges of each node, as graph networks write it."""

    def __init__(self, minlength, weights):
        super().__init__()
        self.minlength, self.weights = minlength, weights

    def forward(self, x, places):
        total = torch.zeros(12, x.shape[1]).index_add(0, places, x)
        count = torch.bincount(places, x[:, 0] if self.weights else None, minlength=self.minlength)
        return total / (count.abs() + 1).view(-1, 1), count


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("target", ["xnnpack", "onednn"])
def test_counts_that_the_program_has_places_for_are_sums(target, weights):
    x, places = torch.randn(40, 4, generator=torch.Generator().manual_seed(0)), torch.arange(40) % 12
    proved = prove(Degrees(12, weights), (x, places), target)
    assert proved.exit_code == 0, proved.reason
    assert "scatter_by_sums" in proved.rewrites
