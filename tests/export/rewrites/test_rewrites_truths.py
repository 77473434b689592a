"""Choices between truths are logic, of which ONNX Runtime has kernels."""

from __future__ import annotations

import pytest
import torch
from rewriting import Calls, capture_program, operators, run_program

from edgex.export.rewrites.scattering.truths import choose_truths

_RANDOM = torch.Generator().manual_seed(5)
X, Y, ROW = (torch.randn(*shape, generator=_RANDOM) for shape in ((4, 6), (4, 6), (6,)))

CASES = {
    "where": lambda x, y, row: torch.where(row > 0, x > 0, y > 0),
    "where a number": lambda x, y, row: torch.where(x > y, row > 0, torch.tensor(True)),
    "filled with falsehood": lambda x, y, row: (x > 0).masked_fill(row > 0, False),
    "filled with truth": lambda x, y, row: (x > 0).masked_fill(y > 0, True),
    "filled with a tensor": lambda x, y, row: (x > 0).masked_fill(row > 0, (y > 0).any()),
}


@pytest.mark.parametrize("name", CASES)
def test_a_choice_between_truths_is_logic(name):
    before = capture_program(Calls(CASES[name]), X, Y, ROW)
    after, rewrite = choose_truths(before)
    assert rewrite is not None and rewrite.count == 1
    assert not any("where" in operator or "masked_fill" in operator for operator in operators(after))
    for got, expected in zip(run_program(after, X, Y, ROW), run_program(before, X, Y, ROW), strict=True):
        assert got.dtype == torch.bool and torch.equal(got, expected)


def test_a_choice_between_numbers_is_left_alone():
    program = capture_program(Calls(lambda x, y: torch.where(x > 0, x, y).masked_fill(y > 0, 2.0)), X, Y)
    assert choose_truths(program) == (program, None)
