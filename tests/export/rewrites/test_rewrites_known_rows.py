"""Rows that are added to known places: side by side, with the sums of before."""

from __future__ import annotations

import pytest
import torch
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from rewriting import Calls, Untouched, capture_program, check_rewrite, operators
from torch import nn

from benchmarks.operators.proof import prove
from edgex.export.rewrites.scattering.known_rows import add_known_rows

RANDOM = torch.Generator().manual_seed(0)
PLACES = torch.cat([torch.arange(90).repeat_interleave(3), torch.randint(0, 120, (60,), generator=RANDOM)])
ROWS = torch.randn(330, 64, generator=RANDOM)
SCATTERED = {"aten.index_add.default", "aten.scatter_add.default"}


class Mesh(nn.Module):
    """Messages of edges that are a buffer."""

    def __init__(self, places, add):
        super().__init__()
        self.register_buffer("places", places)
        self.add = add

    def forward(self, rows):
        return self.add(self.places, rows)


TAKEN = {
    "sums of rows": lambda at, x: torch.zeros(130, 64).index_add(0, at, x),
    "onto numbers": lambda at, x: torch.ones(130, 64).index_add(0, at, x),
    "of a batch": lambda at, x: torch.zeros(2, 130, 64).index_add(1, at, torch.stack([x, x * 2])),
    "of the last dimension": lambda at, x: torch.zeros(64, 130).index_add(-1, at, x.t()),
    "of elements": lambda at, x: torch.zeros(130, 64).scatter_add(0, at[:, None].expand(-1, 64), x),
    "one of several buffers": lambda at, x: torch.zeros(130, 64).index_add(0, torch.stack([at, at.flip(0)])[1], x),
}
LEFT = {
    "few numbers": lambda at, x: torch.zeros(130, 2).index_add(0, at, x[:, :2]),
    "places of the input": lambda at, x: torch.zeros(330, 64).index_add(0, x[:, 0].abs().long(), x),
    "other places for each element": lambda at, x: torch.zeros(130, 64).scatter_add(
        0, (at[:, None] + torch.arange(64)) % 130, x
    ),
    "a place for each column": lambda at, x: torch.zeros(130, 330).scatter_add(0, at.expand(330, -1), x @ x.t()),
    "some of the columns": lambda at, x: torch.zeros(130, 64).scatter_add(0, at[:, None].expand(-1, 32), x),
    "all rows to one place": lambda at, x: torch.zeros(130, 64).index_add(0, at * 0, x),
    "integers": lambda at, x: torch.zeros(130, 64, dtype=torch.int64).index_add(0, at, x.long()),
    "a share of the rows": lambda at, x: torch.zeros(130, 64).index_add(0, at, x, alpha=2),
}


@pytest.mark.parametrize("name", TAKEN)
def test_the_sums_stay(name):
    before = capture_program(Mesh(PLACES, TAKEN[name]), ROWS, randomise=False)
    untouched = Untouched(before, ROWS)
    after, rewrite = add_known_rows(before)
    check_rewrite(before, after, ROWS, untouched=untouched)
    assert rewrite.count == 1
    assert not SCATTERED & set(operators(after))


@pytest.mark.parametrize("name", LEFT)
def test_the_rest_is_left_alone(name):
    before = capture_program(Mesh(PLACES, LEFT[name]), ROWS, randomise=False)
    assert add_known_rows(before) == (before, None)


@settings(max_examples=examples(20), deadline=None)
@given(st.lists(st.integers(0, 30), min_size=80, max_size=200))
def test_whatever_the_places(places):
    at = torch.tensor(places)
    rows = torch.randn(len(places), 512, generator=torch.Generator().manual_seed(len(places)))
    before = capture_program(Mesh(at, lambda at, x: torch.zeros(31, 512).index_add(0, at, x)), rows, randomise=False)
    after, _ = add_known_rows(before)
    check_rewrite(before, after, rows)


@pytest.mark.parametrize("target", ["xnnpack", "onnx-cpu"])
def test_no_scattered_sum_is_left(target):
    proof = prove(Mesh(PLACES, TAKEN["sums of rows"]), (ROWS,), target)
    assert proof.exit_code == 0, (proof.reason, proof.error)
    assert "add_known_rows" in proof.rewrites


def test_a_program_without_sums_is_the_same():
    before = capture_program(Calls(lambda x: x.relu()), ROWS)
    assert add_known_rows(before) == (before, None)
