"""What a condition chooses: places by counting through all elements, elements by an index."""

from __future__ import annotations

import pytest
import torch
from rewriting import Calls, capture_program, operators, run_program

from edgex.export.rewrites.scattering.chosen import count_through, index_by_masks

X = torch.randn(4, 6, generator=torch.Generator().manual_seed(3))
CUBE = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(4))


def _routed(x):
    rows, columns = torch.where(x > 0)
    return torch.zeros_like(x).index_add(0, rows, x[rows] * columns[:, None])


PLACES = {
    "where": (_routed, X),
    "rows": (lambda x: x[torch.nonzero(x[:, 0] > 0).squeeze(1)], X),
    "nonzero": (lambda x: torch.nonzero(x > 0), X),
    "nonzero as a tuple": (lambda x: torch.nonzero(x > 0, as_tuple=True), CUBE),
    "argwhere of numbers": (lambda x: torch.argwhere(torch.relu(x)).sum(0), CUBE),
}


@pytest.mark.parametrize("name", PLACES)
def test_places_are_counted(name):
    call, x = PLACES[name]
    before = capture_program(Calls(call), x)
    after, rewrite = count_through(before)
    assert rewrite is not None and rewrite.count == 1
    assert count_through(after) == (after, None)
    for inputs in (x, -x, torch.zeros_like(x)):
        for got, expected in zip(run_program(after, inputs), run_program(before, inputs), strict=True):
            assert torch.equal(got, expected)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch.masked_select(x, x > 0),
        lambda x: torch.masked_select(x, x[0] > 0) * 2,
    ],
)
def test_elements_are_indexed(call):
    before = capture_program(Calls(call), X)
    after, rewrite = index_by_masks(before)
    assert rewrite is not None and rewrite.count == 1
    assert "aten.masked_select.default" not in operators(after)
    for inputs in (X, -X):
        assert torch.equal(*run_program(after, inputs), *run_program(before, inputs))
