"""`bucketize` and `searchsorted` become comparisons that give PyTorch's own places: ties, NaN, disorder among them."""

from __future__ import annotations

import math

import pytest
import torch
from rewriting import capture_program, check_rewrite, check_vals, operators, run_program

from benchmarks.operators.proof import prove
from edgex.export.rewrites.indexing import searching
from edgex.export.rewrites.indexing.searching import search_by_comparisons
from edgex.export.rewrites.indexing.sorting import sort_by_topk

NUMBERS = torch.tensor([0.0, -0.0, 1.0, -1.0, 2.5, -3.7, math.inf, -math.inf, math.nan, 0.3, 1.0, 9.0])
LIMITS = torch.tensor([-1.0, 0.0, 0.0, 1.0, 1.0, 1.0, 2.5])
WHOLE = torch.tensor([0, 3, 3, 7])


def rand(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))


class Searches(torch.nn.Module):
    """Calls a function, with boundaries as a buffer where they are given."""

    def __init__(self, function, boundaries=None):
        super().__init__()
        self.function = function
        self.register_buffer("boundaries", boundaries)

    def forward(self, *args):
        return self.function(*args) if self.boundaries is None else self.function(self.boundaries, *args)


CASES = {
    "left": (lambda b, x: torch.bucketize(x, b), LIMITS, NUMBERS),
    "right": (lambda b, x: torch.bucketize(x, b, right=True), LIMITS, NUMBERS),
    "given, left": (torch.searchsorted, None, LIMITS, NUMBERS.reshape(3, 4)),
    "given, right": (lambda b, x: torch.searchsorted(b, x, right=True), None, LIMITS, NUMBERS.reshape(3, 4)),
    "32 bits": (lambda b, x: torch.bucketize(x, b, out_int32=True), LIMITS, NUMBERS),
    "side": (lambda b, x: torch.searchsorted(b, x, side="right"), None, LIMITS, NUMBERS),
    "in disorder": (torch.searchsorted, None, -LIMITS, NUMBERS),
    "constant disorder": (torch.searchsorted, -LIMITS, NUMBERS),
    "NaN as boundary": (torch.searchsorted, torch.tensor([1.0, math.nan, 2.0, math.nan, 3.0]), NUMBERS),
    "a row for each": (torch.searchsorted, None, rand(3, 9).sort().values, rand(3, 5)),
    "a constant row for each": (torch.searchsorted, rand(3, 9).sort().values, rand(3, 5)),
    "through an order": (lambda b, x: torch.searchsorted(b, x, sorter=b.argsort()), None, rand(3, 9), rand(3, 5)),
    "whole numbers": (lambda b, x: torch.bucketize(x, b), None, WHOLE, torch.arange(-3, 12)),
    "whole numbers in fractions": (lambda b, x: torch.bucketize(x, b), WHOLE + 0.5, torch.arange(-3, 12)),
    "a number": (lambda b: torch.bucketize(0.5, b), None, LIMITS),
    "a whole number": (lambda b: torch.searchsorted(b, 3, right=True), None, WHOLE),
    "no dimensions": (lambda b, x: torch.bucketize(x, b), LIMITS, torch.tensor(0.5)),
    "boundaries that forward makes": (lambda x: torch.bucketize(x, torch.linspace(-2, 2, 9)), None, NUMBERS),
    **{f"{n} boundaries": (torch.searchsorted, None, torch.arange(n) // 2, torch.arange(-1, 9)) for n in (1, 2, 7, 8)},
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_places_are_pytorchs(name):
    function, boundaries, *args = CASES[name]
    before = capture_program(Searches(function, boundaries), *args, randomise=False)
    after, rewrite = search_by_comparisons(before)
    assert rewrite is not None and (rewrite.name, rewrite.count) == ("search_by_comparisons", 1)
    assert not [name for name in operators(after) if "bucketize" in name or "searchsorted" in name]
    after.exported.validate()
    check_vals(after)
    for expected, found in zip(run_program(before, *args), run_program(after, *args), strict=True):
        assert found.dtype == expected.dtype and torch.equal(found, expected), (found, expected)


def test_a_large_table_is_searched_in_steps(monkeypatch):
    before = capture_program(Searches(torch.searchsorted, LIMITS), NUMBERS, randomise=False)
    counted, _ = search_by_comparisons(before)
    monkeypatch.setattr(searching, "LARGEST_TABLE", len(LIMITS) * len(NUMBERS) - 1)
    searched, _ = search_by_comparisons(before)
    assert "aten.sum.dim_IntList" in operators(counted) and "aten.sum.dim_IntList" not in operators(searched)
    sizes = {node.meta["val"].numel() for node in searched.exported.graph.nodes if node.op == "call_function"}
    assert max(sizes) == len(NUMBERS)
    assert torch.equal(run_program(searched, NUMBERS)[0], run_program(before, NUMBERS)[0])


@pytest.mark.parametrize("boundaries", [None, LIMITS])
def test_any_batch(boundaries):
    batch = torch.export.Dim("batch", min=1, max=50)
    shapes = ({},) if boundaries is None else ()
    given = (LIMITS,) if boundaries is None else ()
    function = Searches(torch.searchsorted, boundaries)
    before = capture_program(function, *given, NUMBERS, randomise=False, dynamic_shapes={"args": (*shapes, {0: batch})})
    after, rewrite = search_by_comparisons(before)
    assert rewrite is not None
    for x in (NUMBERS, NUMBERS[:1], NUMBERS.repeat(3)):
        assert torch.equal(run_program(after, *given, x)[0], run_program(before, *given, x)[0])


def test_a_dynamic_number_of_boundaries_and_none_stay():
    count = torch.export.Dim("count", min=2, max=50)
    shapes = {"args": ({0: count}, {})}
    for before in (
        capture_program(Searches(torch.searchsorted), LIMITS, NUMBERS, dynamic_shapes=shapes),
        capture_program(Searches(torch.searchsorted), torch.zeros(0), NUMBERS),
    ):
        assert search_by_comparisons(before) == (before, None)


class Binning(torch.nn.Module):
    """A histogram's bins, sampling by inverse transform as NeRF does it, ordinal classes."""

    def __init__(self):
        super().__init__()
        self.register_buffer("limits", torch.linspace(-2, 2, 9))
        self.values = torch.nn.Parameter(rand(10))

    def forward(self, x, weights, ages):
        binned = self.values[torch.bucketize(x, self.limits)]
        cdf = torch.cumsum(weights.softmax(-1), -1)
        places = torch.searchsorted(cdf, torch.sigmoid(x) * 0.9 + 0.05, right=True)
        picked = weights.gather(-1, places)
        return binned, picked, places, torch.bucketize(ages, torch.tensor([18, 30, 65]), out_int32=True)


@pytest.mark.parametrize("target", ["xnnpack", "onnx-cpu", "onednn"])
def test_targets_find_what_eager_finds(target):
    proved = prove(Binning(), (rand(3, 7), rand(3, 9), torch.tensor([3, 18, 64, 65, 90])), target)
    assert proved.exit_code == 0, proved.reason
    assert "search_by_comparisons" in proved.rewrites


def test_what_is_written_into_afterwards_is_sorted_too():
    """Nucleus sampling: the sorted probabilities are cut off in place."""

    class Nucleus(torch.nn.Module):
        def forward(self, x):
            values, places = torch.sort(torch.softmax(x, -1), dim=-1, descending=True)
            values[values.cumsum(-1) - values > 0.6] = 0.0
            values.div_(values.sum(-1, keepdim=True))
            return torch.zeros_like(x).scatter_(1, places, values)

    x = torch.randn(3, 9, generator=torch.Generator().manual_seed(0))
    before = capture_program(Nucleus(), x)
    after, rewrite = sort_by_topk(before)
    check_rewrite(before, after, x)
    assert rewrite.count == 1
