"""Whole numbers beside floats, numbers on the left, sums of booleans: written out, with the same numbers and types."""

from __future__ import annotations

import pytest
import torch
from rewriting import Calls, capture_program, operators, run_program

from benchmarks.operators.proof import prove
from edgex.export.rewrites.numbers.promotions import write_promotions

COUNTS = torch.tensor([[1, -2, 3], [4, 5, -6]])
SHORT = COUNTS.to(torch.int32)
FLOATS = torch.tensor([[0.5, -1.5, 2.25], [3.0, -0.75, 7.5]])
TRUTHS = COUNTS > 2

TAKEN = {
    "what is left of one": (lambda x: 1.0 - x, COUNTS),
    "what is left, of a mask of 32 bits": (lambda x: 1.0 - x, SHORT),
    "what is left of a multiple": (lambda x: torch.rsub(x, 1.5, alpha=2), COUNTS),
    "from another type": (lambda x, y: torch.rsub(x, y, alpha=2), FLOATS, COUNTS),
    "floors of quotients": (lambda x: x // 2.0, COUNTS),
    "a float by whole numbers": (lambda x: 5.0 // x, COUNTS),
    "a whole number by whole numbers": (lambda x: 5 // x, SHORT),
    "a whole number by floats": (lambda x: 5 // x, FLOATS),
    "a float's remainder": (lambda x: 7.5 % x, COUNTS),
    "a whole number's remainder": (lambda x: 7 % x, COUNTS),
    "a remainder by floats": (lambda x: 5 % x, FLOATS),
    "remainders by a float": (lambda x: x % 1.5, COUNTS),
    "a bit of each place": (lambda x: 1 << x.abs(), COUNTS),
    "a sum of truths": (lambda x: x + x.flip(0), TRUTHS),
    "a product of truths": (lambda x: x * x.flip(0), TRUTHS),
    "an angle of whole numbers": (lambda x, y: torch.atan2(x, y), COUNTS, FLOATS),
    "an angle of whole numbers only": (lambda x, y: torch.atan2(x, y), COUNTS, COUNTS.flip(1)),
}
LEFT = {
    "floats": (lambda x: 1.0 - x, FLOATS),
    "whole numbers": (lambda x: 1 - x, COUNTS),
    "quotients of one type": (lambda x: x // 2, COUNTS),
    "remainders of one type": (lambda x: x % 1.5, FLOATS),
    "a sum of floats": (lambda x: x + x.flip(0), FLOATS),
    "a truth as a factor": (lambda x, y: x * y, TRUTHS, FLOATS),
    "an angle of floats": (lambda x: torch.atan2(x, x.flip(0)), FLOATS),
}


@pytest.mark.parametrize("name", TAKEN)
def test_the_numbers_and_types_stay(name):
    function, *args = TAKEN[name]
    before = capture_program(Calls(function), *args)
    after, rewrite = write_promotions(before)
    assert rewrite is not None and rewrite.count == 1, operators(before)
    for expected, found in zip(run_program(before, *args), run_program(after, *args), strict=True):
        assert found.dtype == expected.dtype and torch.equal(found, expected)
    assert write_promotions(after) == (after, None)


@pytest.mark.parametrize("name", LEFT)
def test_the_rest_is_left_alone(name):
    function, *args = LEFT[name]
    before = capture_program(Calls(function), *args)
    assert write_promotions(before) == (before, None)


class Everything(torch.nn.Module):
    """All of them in one forward."""

    def forward(self, counts, short, floats, truths):
        given = {id(COUNTS): counts, id(SHORT): short, id(FLOATS): floats, id(TRUTHS): truths}
        return [function(*(given.get(id(x), counts.flip(1)) for x in args)) for function, *args in TAKEN.values()]


@pytest.mark.parametrize("target", ["onnx-cpu", "xnnpack", "onednn"])
def test_all_of_them_run(target):
    # Whole numbers of the reshuffled stress are divided by as well: none of them is 0.
    proved = prove(Everything().eval(), (COUNTS, SHORT, FLOATS, TRUTHS), target, allow_inconclusive=True)
    assert proved.exit_code == 0, proved.reason
