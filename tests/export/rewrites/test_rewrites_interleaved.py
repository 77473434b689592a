"""Joins of single numbers that become transposed rows: the same numbers in the same order."""

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
from edgex.export.rewrites.matrices.interleaved import interleave_by_transposing

X = torch.randn(3, 40, 50, generator=torch.Generator().manual_seed(0))

TAKEN = {
    "pairs": lambda x: torch.stack([x, -x], -1),
    "pairs of rows": lambda x: torch.stack([x[..., 0::2], x[..., 1::2]], -1).flatten(-2),
    "five": lambda x: torch.stack([x, -x, x + 1, x * 2, x * 3], 3),
    "joined": lambda x: torch.cat([x.unsqueeze(-1), -x.unsqueeze(-1), x.unsqueeze(-1) * 2], -1),
    "of four numbers each": lambda x: torch.cat([x[..., :4], x[..., 4:8], x[..., 8:12]] * 3, -1),
    "in front of few": lambda x: torch.stack([x[..., :5], x[..., 5:10]] * 4, 2),
}


@pytest.mark.parametrize("case", TAKEN)
def test_joined_numbers_are_transposed_rows(case):
    before = capture_program(Calls(TAKEN[case]), X)
    after, rewrite = interleave_by_transposing(before)
    assert rewrite.count == 1
    check_rewrite(before, after, X)
    assert "aten.permute.default" in operators(after) and "aten.stack.default" not in operators(after)


LEFT = {
    "rows": lambda x: torch.cat([x, -x], -1),
    "of several sizes": lambda x: torch.cat([x[..., :1], x[..., :2], x[..., 1:2]], -1),
    "in front": lambda x: torch.stack([x, -x]),
    "few": lambda x: torch.stack([x[0], -x[0]], -1),
    "one": lambda x: torch.stack([x], -1),
    "integers": lambda x: torch.stack([x.long(), x.long() + 1], -1),
}


@pytest.mark.parametrize("case", LEFT)
def test_others_are_left_alone(case):
    program = capture_program(Calls(LEFT[case]), X)
    assert interleave_by_transposing(program) == (program, None)


def test_any_length_is_left_alone():
    length = torch.export.Dim("length", min=16, max=4096)
    program = capture_program(Calls(TAKEN["pairs"]), X, dynamic_shapes=(({1: length},),))
    assert interleave_by_transposing(program) == (program, None)


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(st.integers(1, 8), min_size=1, max_size=3), st.integers(2, 6), st.booleans(), st.data())
def test_any_dimension_of_any_shape(sizes, count, stacked, data):
    shape = (600, *sizes)
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    join = torch.stack if stacked else torch.cat
    program = capture_program(Calls(lambda x: join([x * (1 + part) for part in range(count)], dim)), x)
    after, _ = interleave_by_transposing(program)
    assert torch.equal(run_program(after, x)[0], run_program(program, x)[0])


class Sliding(nn.Module):
    """Scores of each place with its neighbours, as Longformer has them, and rotated pairs."""

    def __init__(self):
        super().__init__()
        self.query, self.key = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x):
        windows = F.pad(self.key(x), (0, 0, 4, 4)).unfold(1, 9, 1)
        query = self.query(x)
        turned = torch.stack([-query[..., 1::2], query[..., 0::2]], -1).flatten(-2)
        return torch.einsum("bte,btew->btw", turned, windows)


@pytest.mark.parametrize("target", ["xnnpack", "onednn"])
def test_sliding_windows_are_exported(target):
    torch.manual_seed(0)
    proved = prove(Sliding().eval(), (torch.randn(1, 200, 16),), target)
    assert proved.exit_code == 0, proved.reason
    assert "interleave_by_transposing" in proved.rewrites
