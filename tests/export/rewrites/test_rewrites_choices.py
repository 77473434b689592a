"""A number in the places of a mask is a bound: the same numbers, infinite ones too."""

from __future__ import annotations

import math

import pytest
import torch
from rewriting import capture_program, check_rewrite, operators, run_program

from benchmarks.operators.proof import prove
from edgex.export.rewrites.activations.choices import bound_by_masks

X = torch.randn(2, 3, 8, 16, generator=torch.Generator().manual_seed(0))
CAUSAL = torch.ones(8, 16).tril() == 0


class Masked(torch.nn.Module):
    def __init__(self, run, mask=CAUSAL):
        super().__init__()
        self.register_buffer("mask", mask)
        self.run = run

    def forward(self, x):
        return self.run(x * 2, self.mask)


CASES = {
    "by a number": (lambda x, mask: x.masked_fill(mask, -5e3), 2),
    "by a whole number": (lambda x, mask: x.masked_fill(mask, -10000), 2),
    "by the least": (lambda x, mask: x.masked_fill(mask, -3.4e38).softmax(-1), 2),
    "by the least, of minus infinity": (lambda x, mask: (x / (x > 0)).masked_fill(mask, -3.4e38).softmax(-1), 2),
    "by minus infinity": (lambda x, mask: x.masked_fill(mask, -math.inf).exp(), 1),
    "chosen": (lambda x, mask: torch.where(mask, x, -2000.0), 2),
    "not chosen": (lambda x, mask: torch.where(mask, -1e4, x), 2),
    "computed": (lambda x, mask: x.masked_fill((x.sum((0, 1, 2)) > 0), -1e9).exp(), 2),
}


@pytest.mark.parametrize("case", CASES)
def test_a_mask_is_a_bound(case):
    run, bounds = CASES[case]
    before = capture_program(Masked(run), X, randomise=False)
    after, rewrite = bound_by_masks(before)
    check_rewrite(before, after, X)
    assert rewrite.count == 1
    assert sum(name in ("aten.maximum.default", "aten.minimum.default") for name in operators(after)) == bounds


def test_infinite_numbers_are_as_before():
    x = torch.tensor([[math.inf, -math.inf, 1.0, -1.0]] * 2)
    mask = torch.tensor([[True, True, False, False], [False, False, True, True]])
    before = capture_program(Masked(lambda x, mask: x.masked_fill(mask, -3e3), mask), x, randomise=False)
    after, _ = bound_by_masks(before)
    assert torch.equal(run_program(before, x)[0], run_program(after, x)[0])


LEFT = {
    "two tensors": lambda x, mask: torch.where(mask, x, x.exp()),
    "not a number": lambda x, mask: x.masked_fill(mask, math.nan),
    "a row without any": lambda x, mask: (x / 0 * 0).masked_fill(mask, 0.0),
    "a mask of its size": lambda x, _: x.masked_fill(x < 0, -1e9),
    "a larger mask": lambda x, mask: x[0, 0, 0].masked_fill(mask, -1e9),
    "whole numbers": lambda x, mask: x.long().masked_fill(mask, -10000),
}


@pytest.mark.parametrize("case", LEFT)
def test_the_rest_is_left(case):
    program = capture_program(Masked(LEFT[case]), X, randomise=False)
    assert bound_by_masks(program) == (program, None)


def test_xnnpack_proves_it():
    proved = prove(Masked(lambda x, mask: x.masked_fill(mask, -1e4).softmax(-1)).eval(), (X,), "xnnpack")
    assert proved.exit_code == 0, proved.reason
    assert "bound_by_masks" in proved.rewrites
