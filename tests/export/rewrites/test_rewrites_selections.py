"""Choices between two values that become minima and maxima, with the numbers of before, and those that must stay."""

from __future__ import annotations

import math

import pytest
import torch
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from rewriting import Calls, capture_program, check_rewrite, operators, run_program
from torch import nn
from torch.nn import functional as F

from benchmarks.operators.proof import prove
from edgex.export.rewrites.activations.selections import select_by_comparisons, select_by_masks

SEED = torch.Generator().manual_seed(0)
X = torch.randn(4, 8, 32, generator=SEED)
Y = torch.randn(4, 8, 32, generator=SEED)
W = torch.randn(32, 32, generator=SEED)
ROWS = torch.rand(4, 8, 1, generator=SEED) > 0.5


def mixed(x):
    """Rows times a matrix: whatever the input, its NaNs are spread."""
    return x @ W.to(x.device)


COMPARED = {
    "two values": (lambda x, y: torch.where(x > y, mixed(x), mixed(y).tanh()), (X, Y)),
    "a number": (lambda x, y: torch.where(x > y, mixed(x), 0.25), (X, Y)),
    "a number first": (lambda x: torch.where(x <= 0.5, -3.0, mixed(x)), (X,)),
    "masked": (lambda x: mixed(x).masked_fill(x < 0.2, 7.0), (X,)),
    "masked by infinity": (lambda x: mixed(x).masked_fill(x < 0.2, math.inf), (X,)),
    "that may be infinite": (lambda x: torch.where(x > 0, mixed(x), (mixed(x) * 99).exp() - 1), (X,)),
    "between": (lambda x: torch.where((x > -1) & ~(x > 1), mixed(x), -mixed(x)), (X,)),
    "broadcast": (lambda x: torch.where(x > 0, mixed(x).mean(0), mixed(x).amax(-1, keepdim=True)), (X,)),
    "a constant": (lambda x: torch.where(mixed(x) > 0, W[0], 2 * W[1]), (X,)),
}
MASKED = {
    "rows": (lambda x, rows: torch.where(rows, mixed(x), mixed(x).sigmoid()), (X, ROWS)),
    "rows of zeros": (lambda x, rows: mixed(x).masked_fill(rows, 0.0), (X, ROWS)),
    "rows that are kept": (lambda x, rows: torch.where(~rows, mixed(x), torch.zeros(())), (X, ROWS)),
    "lengths": (lambda x: mixed(x).masked_fill(torch.arange(8)[:, None] >= (x[:1, :1, :1] > 9) + 3, 0.0), (X,)),
}


def bounds_of(program):
    return sum(operators(program).count(f"aten.{name}.default") for name in ("maximum", "minimum", "clamp"))


@pytest.mark.parametrize("case", COMPARED)
def test_choices_by_comparisons_are_minima_and_maxima(case):
    function, args = COMPARED[case]
    before = capture_program(Calls(function), *args)
    after, rewrite = select_by_comparisons(before)
    assert rewrite.count == 1
    check_rewrite(before, after, *args)
    assert bounds_of(after) > bounds_of(before)
    assert not any("where" in name or "masked_fill" in name for name in operators(after))


@pytest.mark.parametrize("case", MASKED)
def test_choices_by_small_masks_are_minima_and_maxima(case):
    function, args = MASKED[case]
    before = capture_program(Calls(function), *args)
    after, rewrite = select_by_masks(before)
    assert rewrite.count == 1
    check_rewrite(before, after, *args)
    assert bounds_of(after) > bounds_of(before)


LEFT = {
    "of a logarithm": lambda x: torch.where(x > 0, x.log(), 0.0),
    "of a quotient": lambda x: torch.where(x.abs() > 0.1, mixed(x) / x, mixed(x)),
    "of the input": lambda x: torch.where(x > 0, x, mixed(x)),
    "of the input, scaled": lambda x: torch.where(x > 0, (x - 3) * 2, mixed(x)),
    "behind infinity": lambda x: torch.where(x > 0, mixed(x).exp() - mixed(-x).exp(), mixed(x)),
    "of rows that may be empty": lambda x: torch.where(
        x > 0, mixed(x).masked_fill(x.long() > 0, -math.inf).softmax(-1), mixed(x)
    ),
    "by NaN": lambda x: torch.where(mixed(x).isnan(), 0.0, mixed(x)),
    "NaN": lambda x: torch.where(x > 0, mixed(x), math.nan),
    "integers": lambda x: torch.where(x > 0, mixed(x).long(), 0),
    "by integers": lambda x: torch.where(x.long() > 0, mixed(x), 0.0),
    "next to nothing": lambda x: torch.where(x[0, 0] > 0, mixed(x)[0, 0], 0.0),
    "of half precision": lambda x: torch.where(x > 0, mixed(x).half(), 1.0),
    "a mask of its size": lambda x: torch.where(x.long() > 0, mixed(x), mixed(-x)),
}


@pytest.mark.parametrize("case", LEFT)
@pytest.mark.parametrize("select", [select_by_comparisons, select_by_masks])
def test_others_are_left_alone(select, case):
    program = capture_program(Calls(LEFT[case]), X)
    assert select(program) == (program, None)


def test_a_nan_that_is_not_chosen_by_rows_is_left_to_the_choice():
    """Rows of padding may hold anything."""
    program = capture_program(Calls(lambda x, rows: torch.where(rows, x * 2, 0.0)), X, ROWS)
    assert select_by_masks(program) == (program, None)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(
        st.tuples(*[st.floats(width=32, allow_nan=False) | st.sampled_from([0.0, -0.0, torch.inf, -torch.inf])] * 2),
        min_size=1, max_size=64,
    ),
)  # fmt: skip
def test_any_two_numbers_are_chosen_from(pairs):
    """Also infinite ones, whether they are chosen or not."""
    x, y = torch.tensor(pairs).repeat(1 + 256 // len(pairs), 1).unbind(1)
    by = torch.linspace(-1, 1, len(x))
    # A product of one: what comes in may be NaN, and what a convolution gives may not.
    one = torch.ones(1, 1, 1)
    function = Calls(
        lambda x, y, by: torch.where(by > 0, *(F.conv1d(z.reshape(1, 1, -1), one).reshape(-1) for z in (x, y)))
    )
    before = capture_program(function, x, y, by)
    after, rewrite = select_by_comparisons(before)
    assert rewrite.count == 1
    got, expected = run_program(after, x, y, by)[0], run_program(before, x, y, by)[0]
    sound = ~expected.isnan()
    assert torch.equal(got[sound], expected[sound])


class Piecewise(nn.Module):
    """Two functions of a signal, and rows that are left out."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(32, 24), nn.Linear(32, 24)

    def forward(self, x, kept):
        low, high = self.first(x), self.second(x)
        y = torch.where(low > high, low.tanh(), high.exp() - 1)
        return y.masked_fill(~kept, 0.0)


@pytest.mark.parametrize("target", ["xnnpack", "onednn"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_choices_are_exported(target, dynamic):
    torch.manual_seed(0)
    args = torch.randn(2, 40, 32), torch.rand(2, 40, 1) > 0.3
    rows = torch.export.Dim("rows", min=16, max=512)
    shapes = ({1: rows}, {1: rows}) if dynamic else None
    proved = prove(Piecewise().eval(), args, target, dynamic_shapes=shapes)
    assert proved.exit_code == 0, proved.reason
    assert "select_by_comparisons" in proved.rewrites
    assert ("select_by_masks" in proved.rewrites) == (target == "xnnpack" and not dynamic)


def test_truths_of_truths_are_looked_at_once():
    """Suppression, one box after another: 2 ** 60 ways lead from the last mask to the first."""

    def suppress(x):
        kept = x > 0
        for shift in range(60):
            kept = torch.logical_and(kept, torch.logical_or(kept, x > shift))
        return torch.where(kept, x.relu(), torch.zeros(()))

    before = capture_program(Calls(suppress), X)
    assert select_by_comparisons(before) == (before, None)
