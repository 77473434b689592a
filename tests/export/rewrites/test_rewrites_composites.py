"""Operators that PyTorch has in terms of others are these, with the same values."""

from __future__ import annotations

import pytest
import torch
from rewriting import Calls, capture_program, operators, run_program

from edgex.export.rewrites.composites import expand_composites

IMAGE = torch.randn(2, 4, 6, 8, generator=torch.Generator().manual_seed(0))

FORMS = {
    "expand_as": lambda x: x * x.mean((2, 3), keepdim=True).expand_as(x),
    "broadcast_to": lambda x: torch.broadcast_to(x[:, :1], x.shape) - x,
    "movedim": lambda x: x.movedim(1, -1) + 1,
    "swapaxes": lambda x: x.swapaxes(2, 3) * 2,
    "hstack": lambda x: torch.hstack([x, x.neg()]),
    "divide": lambda x: torch.divide(x, 3, rounding_mode="floor"),
    "subtract": lambda x: torch.subtract(x, x.flip(3), alpha=2),
    "clip": lambda x: torch.clip(x, min=-0.5),
    "reshape_as": lambda x: x.transpose(2, 3).reshape_as(x),
    "hsplit": lambda x: x.hsplit(2)[1],
    "inner": lambda x: torch.inner(x, x[0, 0]),
}


@pytest.mark.parametrize("name", sorted(FORMS))
def test_the_parts_compute_the_same(name):
    before = capture_program(Calls(FORMS[name]), IMAGE)
    assert name in _names(before)
    after, rewrite = expand_composites(before)
    assert rewrite is not None
    assert rewrite.count == 1
    assert name not in _names(after)
    for got, expected in zip(run_program(after, IMAGE), run_program(before, IMAGE), strict=True):
        assert torch.equal(got, expected)


def _names(program):
    """Of its operators, without their overloads: `aten.clip.default` is `clip`."""
    return [target.split(".")[1] for target in operators(program) if target.startswith("aten.")]


def test_a_program_without_any_is_left_alone():
    program = capture_program(Calls(lambda x: x.permute(0, 2, 3, 1) * 2), IMAGE)
    assert expand_composites(program) == (program, None)
