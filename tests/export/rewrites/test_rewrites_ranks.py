"""Few numbers that are ranked by comparisons: medians, quantiles and sorted rows, with the numbers of before."""

from __future__ import annotations

import pytest
import torch
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from rewriting import Calls, capture_program, check_rewrite, operators, run_program
from torch import nn
from torch.nn import functional as F

from benchmarks.operators.proof import prove
from edgex.export.rewrites.activations.ranks import rank_by_comparisons
from edgex.export.rewrites.indexing.sorting import sort_by_topk

SEED = torch.Generator().manual_seed(0)
X = torch.randn(4, 100, 9, generator=SEED)
SHARES = torch.tensor([0.25, 0.5, 0.9])
SIGNAL = torch.randn(2, 3, 200, generator=SEED)

TAKEN = {
    "sorted": lambda x: x.sort(-1).values,
    "sorted along another dimension": lambda x: x.transpose(1, 2).contiguous().sort(1, descending=True).values,
    "a median": lambda x: x.sort(-1)[0][..., 4],
    "of the operator": lambda x: x.median(-1).values,
    "with its dimension": lambda x: x.median(-1, keepdim=True).values,
    "a quantile": lambda x: torch.quantile(x, 0.3, -1),
    "the second": lambda x: x.kthvalue(2, -1).values,
    "the largest three": lambda x: x.topk(3, -1).values,
    "the smallest two of two": lambda x: x[..., :2].topk(2, -1, largest=False).values,
    "all of them, and two of them": lambda x: (
        lambda values: values.cumsum(-1) - values[..., 1:2] + values.select(-1, -1).unsqueeze(-1)
    )(x.sort(-1).values),
    "the mean but extremes": lambda x: x.sort(-1).values[..., 2:-2].mean(-1),
}


@pytest.mark.parametrize("case", TAKEN)
def test_few_numbers_are_compared(case):
    program, _ = sort_by_topk(capture_program(Calls(TAKEN[case]), X))
    after, rewrite = rank_by_comparisons(program)
    assert rewrite is not None and rewrite.count >= 1
    check_rewrite(program, after, X)
    left = after.exported.graph_module
    left.graph.eliminate_dead_code()
    assert not any(node.target is torch.ops.aten.topk.default for node in left.graph.nodes)


@pytest.mark.parametrize("size", [3, 17, 32])
def test_windows_are_slices_of_what_they_are_of(size):
    function = Calls(lambda x: x.unfold(-1, size, 1).sort(-1)[0][..., size // 2])
    program, _ = sort_by_topk(capture_program(function, SIGNAL))
    after, rewrite = rank_by_comparisons(program)
    assert rewrite.count == 1
    check_rewrite(program, after, SIGNAL)
    assert operators(after).count("aten.narrow.default") == size


@pytest.mark.parametrize("interpolation", ["linear", "lower", "nearest"])
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", [-1, 1, None])
def test_several_quantiles_are_ranks_in_front(interpolation, keepdim, dim):
    def function(x):
        return torch.quantile(x, SHARES, dim, keepdim, interpolation=interpolation)

    before = capture_program(Calls(function), X[:2])
    after, rewrite = sort_by_topk(before)
    assert rewrite.count == 1
    check_rewrite(before, after, X[:2])
    assert not any("quantile" in name for name in operators(after))


def test_quantiles_that_only_a_run_knows_are_left_alone():
    program = capture_program(Calls(lambda x, shares: torch.quantile(x, shares, -1)), X, torch.tensor([0.2, 0.4]))
    assert sort_by_topk(program) == (program, None)


LEFT = {
    "with places": lambda x: x.topk(3, -1),
    "places alone": lambda x: x.topk(3, -1).indices,
    "integers": lambda x: x.long().topk(3, -1).values,
    "of half precision": lambda x: x.half().topk(3, -1).values,
    "many numbers": lambda x: x.reshape(-1, 36).topk(3, -1).values,
    "few rows": lambda x: x[0, :20].topk(3, -1).values,
}


@pytest.mark.parametrize("case", LEFT)
def test_others_are_left_alone(case):
    program = capture_program(Calls(LEFT[case]), X)
    assert rank_by_comparisons(program) == (program, None)


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(2, 32), st.data())
def test_any_count_and_any_ranks(count, data):
    """Infinite numbers and equal ones among them."""
    first = data.draw(st.integers(0, count - 1))
    last = data.draw(st.integers(first + 1, count))
    largest = data.draw(st.booleans())
    random = torch.Generator().manual_seed(data.draw(st.integers(0, 1000)))
    x = torch.randint(-5, 6, (256, count), generator=random).float()
    x[x == 5] = torch.inf
    x[x == -5] = -torch.inf
    program = capture_program(Calls(lambda x: x.topk(last, -1, largest=largest).values[..., first:last]), x)
    after, rewrite = rank_by_comparisons(program)
    assert rewrite.count == 1
    assert torch.equal(run_program(after, x)[0], run_program(program, x)[0])


class Filtered(nn.Module):
    """A signal without its outliers, and what part of the numbers in each window is smaller."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Conv1d(3, 8, 9, padding=4), nn.Conv1d(8, 4, 9, padding=4)

    def forward(self, x):
        y = self.first(x)
        windows = F.pad(y, (4, 4), mode="reflect").unfold(-1, 9, 1)
        return self.last(windows.sort(-1).values[..., 4]), torch.quantile(y.unflatten(-1, (-1, 5)), 0.25, -1)


@pytest.mark.parametrize("target", ["xnnpack", "onednn"])
def test_filters_are_exported(target):
    torch.manual_seed(0)
    proved = prove(Filtered().eval(), (torch.randn(1, 3, 400),), target)
    assert proved.exit_code == 0, proved.reason
    assert "rank_by_comparisons" in proved.rewrites
