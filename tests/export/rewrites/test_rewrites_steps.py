"""Comparisons that are used as numbers: steps, with the numbers of before."""

from __future__ import annotations

import pytest
import torch
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from rewriting import Calls, capture_program, check_rewrite, operators
from torch import nn

from benchmarks.operators.proof import prove
from edgex.export.rewrites.activations.steps import step_truths

SEED = torch.Generator().manual_seed(0)
X = torch.randint(-3, 4, (4, 8, 32), generator=SEED).float()
Y = torch.randint(-3, 4, (8, 1), generator=SEED).float()

TAKEN = {
    "above a number": (lambda x: (x > 0.5).float(), (X,)),
    "at least a number": (lambda x: (x >= 1).to(torch.float32), (X,)),
    "below a tensor": (lambda x, y: (x < y).float(), (X, Y)),
    "at most a tensor": (lambda x, y: (x <= y).float(), (X, Y)),
    "the same": (lambda x, y: (x == y).float(), (X, Y)),
    "others": (lambda x, y: (x != y).float(), (X, Y)),
    "as another tensor": (lambda x, y: (x == y).type_as(x), (X, Y)),
    "to another tensor": (lambda x, y: (x == y).to(x), (X, Y)),
    "copied": (lambda x, y: torch.ops.aten._to_copy.default(x >= y, dtype=torch.float32), (X, Y)),
    "a factor": (lambda x: x * (x > 1), (X,)),
    "a factor in front": (lambda x, y: (y <= x) * x, (X, Y)),
    "between": (lambda x: ((x > -1) & (x <= 2)).float(), (X,)),
    "outside": (lambda x, y: (x < y).logical_or(x > 2).float(), (X, Y)),
    "not": (lambda x: (~(x > 1)) * x, (X,)),
    "signs": (lambda x: torch.where(x > 0, 1.0, -1.0), (X,)),
    "counts": (lambda x, y: (x > y).sum(), (X, Y)),
    "counts of rows": (lambda x: (x > 1).sum(-1, keepdim=True), (X,)),
}


@pytest.mark.parametrize("case", TAKEN)
def test_truths_as_numbers_are_steps(case):
    function, args = TAKEN[case]
    before = capture_program(Calls(function), *args)
    after, rewrite = step_truths(before)
    assert rewrite.count == 1
    check_rewrite(before, after, *args)
    if "aten._assert_tensor_metadata.default" not in operators(
        before
    ):  # which asks for the truths' dtype, and goes later
        names = ("gt", "ge", "lt", "le", "eq", "ne")
        assert not {f"aten.{name}.{kind}" for name in names for kind in ("Tensor", "Scalar")} & set(operators(after))


@settings(max_examples=examples(60), deadline=None)
@given(
    st.sampled_from(["gt", "ge", "lt", "le", "eq", "ne"]),
    st.lists(
        st.tuples(*[st.floats(width=32, allow_nan=False) | st.sampled_from([0.0, -0.0, torch.inf, -torch.inf])] * 2),
        min_size=1, max_size=64,
    ),
)  # fmt: skip
def test_any_two_numbers_compare_as_before(how, pairs):
    """Also numbers next to each other, next to 0, and infinite ones."""
    x, y = torch.tensor(pairs).repeat(1 + 256 // len(pairs), 1).unbind(1)
    y = torch.where(torch.arange(len(y)) % 3 == 0, torch.nextafter(x, y), y)
    before = capture_program(Calls(lambda x, y: getattr(torch, how)(x, y).float()), x, y)
    after, _ = step_truths(before)
    largest = torch.finfo(torch.float32).max
    told_apart = ~((x - y).abs().isnan() | ((x.abs() == largest) & y.isinf()) | ((y.abs() == largest) & x.isinf()))
    infinite_twice = (x == y) & x.isinf()
    got, expected = after.exported.module()(x, y), before.exported.module()(x, y)
    assert torch.equal(got[told_apart | infinite_twice], expected[told_apart | infinite_twice])


LEFT = {
    "truths": (lambda x: x > 0.5, (X,)),
    "integers": (lambda x: (x > 0).float(), (X.long(),)),
    "NaN": (lambda x: (x != x).float(), (X,)),
    "infinity": (lambda x: (x == torch.inf).float(), (X,)),
    "next to nothing": (lambda x: (x > 0).float(), (X[0, 0],)),
    "another type": (lambda x: (x > 0).double(), (X,)),
    "of half precision": (lambda x: (x > 0).float(), (X.half(),)),
    "a mask of something else": (lambda x: ((x > 0) & (x.long() > 0)).float(), (X,)),
    "other numbers": (lambda x: torch.where(x > 0, 0.1, 0.3), (X,)),
    "two masks": (lambda x: ((x > 0) * (x < 2)).sum(), (X,)),
}


@pytest.mark.parametrize("case", LEFT)
def test_others_are_left_alone(case):
    function, args = LEFT[case]
    program = capture_program(Calls(function), *args)
    assert step_truths(program) == (program, None)


class Shares(nn.Module):
    """What part of each signal is above its bounds."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(3, 8, 9, padding=4)
        self.bounds = nn.Parameter(torch.randn(8, 1))

    def forward(self, x):
        return (self.conv(x) > self.bounds).float().mean(-1)


@pytest.mark.parametrize("target", ["xnnpack", "onednn"])
def test_shares_are_exported(target):
    torch.manual_seed(0)
    proved = prove(Shares().eval(), (torch.randn(2, 3, 200),), target)
    assert proved.exit_code == 0, proved.reason
    assert "step_truths" in proved.rewrites


@pytest.mark.parametrize("target", ["xnnpack", "onednn"])
def test_any_length_is_exported(target):
    torch.manual_seed(0)
    dynamic = ({2: torch.export.Dim("length", min=16, max=512)},)
    proved = prove(Shares().eval(), (torch.randn(2, 3, 200),), target, dynamic_shapes=dynamic)
    assert proved.exit_code == 0, proved.reason
    assert "step_truths" in proved.rewrites
