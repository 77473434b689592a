"""Assignments to what a mask chooses are choices between whole tensors."""

from __future__ import annotations

import pytest
import torch
from rewriting import Calls, capture_program, operators, run_program

from edgex.export.rewrites.indexing.writes import return_writes
from edgex.export.rewrites.scattering.masked import write_masked

X, Y, ROW = (torch.randn(*shape, generator=torch.Generator().manual_seed(3)) for shape in ((4, 6), (4, 6), (6,)))
CUBE = torch.arange(24.0).reshape(2, 3, 4)


def _assign(x, mask, value):
    x = x.clone()
    x[mask] = value(mask)
    return x


CASES = {
    "another's": (lambda x, y: _assign(x, y < x, lambda m: y[m]), (X, Y)),
    "an expression": (lambda x, y: _assign(x, y < 0, lambda m: torch.relu(x[m]) * 2 - y[m]), (X, Y)),
    "a number": (lambda x: _assign(x, x < 0, lambda m: -1.5), (X,)),
    "a whole number": (lambda x: _assign(x, x > 3, lambda m: 7), (torch.arange(6).reshape(2, 3),)),
    "rows": (lambda x, row: _assign(x, x[:, 0] < 0, lambda m: x[m] + row), (X, ROW)),
    "the mask again": (lambda x, y: _assign(x, x > y, lambda m: y[x > y].exp()), (X, Y)),
    "masked_select": (lambda x, y: _assign(x, y < x, lambda m: torch.masked_select(y, m)), (X, Y)),
    "NaN elsewhere": (lambda x: _assign(x, x > 0, lambda m: x[m].log()), (X,)),
}


@pytest.mark.parametrize("name", CASES)
def test_an_assignment_is_a_choice(name):
    call, inputs = CASES[name]
    before, _ = return_writes(capture_program(Calls(call), *inputs))
    after, rewrite = write_masked(before)
    assert rewrite is not None and rewrite.count == 1
    left = operators(after)
    assert "aten.where.self" in left
    assert not {"aten.index_put.default", "aten.index.Tensor", "aten.masked_select.default"} & set(left)
    assert not any("assert" in name for name in left), left
    for got, expected in zip(run_program(after, *inputs), run_program(before, *inputs), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-6, atol=0)


def test_a_mask_behind_whole_dimensions():
    def call(x):
        x = x.clone()
        chosen = x[0] > 15
        x[:, x[0, :, 0] < 6] = -1.0
        x[:, chosen] = x[:, chosen] / 2
        return x

    before, _ = return_writes(capture_program(Calls(call), CUBE))
    after, rewrite = write_masked(before)
    assert rewrite is not None and rewrite.count == 2
    torch.testing.assert_close(run_program(after, CUBE), run_program(before, CUBE), rtol=0, atol=0)


@pytest.mark.parametrize(
    "call",
    [
        lambda x, y: _assign(x, x > 0, lambda m: y.flatten()[m.flatten()]),
        lambda x, y: _assign(x, x > 0, lambda m: x[m].cumsum(0)),
        lambda x, y: x.index_put((x > 0,), y[x > 0], accumulate=True),
    ],
    ids=["another's flat elements", "a sum over what is chosen", "added"],
)
def test_what_depends_on_more_than_the_element_is_left_alone(call):
    before, _ = return_writes(capture_program(Calls(call), X, Y))
    assert write_masked(before) == (before, None)
