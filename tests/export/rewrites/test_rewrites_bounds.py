"""Clamps with one bound: what is infinite at the open end stays so on ONNX Runtime, whose `Clip` has 3.4e38 there."""

from __future__ import annotations

import pytest
import torch
from rewriting import Calls, capture_program, operators, run_program

from benchmarks.operators.proof import prove
from edgex.export.rewrites.weights.bounds import open_bounds

X = torch.tensor([[-200.0, -1.0, 0.5], [2.0, 99.0, 300.0]])

TAKEN = {
    "the most of what grows": lambda x: x.exp().clamp(max=24.0),
    "the least of what grows": lambda x: (-x.exp()).clamp(max=-1.0) * -1.0,
    "the least": lambda x: (x * 1e37).clamp(min=-2.0),
    "the least by name": lambda x: (x * 1e37).clamp_min(-2),
    "the most by name": lambda x: (x * 1e37).clamp_max(2),
}
LEFT = {
    "both bounds": lambda x: x.exp().clamp(0.5, 24.0),
    "what a layer gives, which takes a Clip in": lambda x: (x @ x.mT).clamp(max=0.75),
    "whole numbers": lambda x: x.to(torch.int64).clamp(max=3),
}


@pytest.mark.parametrize("name", TAKEN)
def test_the_numbers_stay(name):
    before = capture_program(Calls(TAKEN[name]), X)
    after, rewrite = open_bounds(before)
    assert rewrite is not None and rewrite.count == 1, operators(before)
    assert not [name for name in operators(after) if "clamp" in name], operators(after)
    for x in (X, torch.tensor([[float("nan"), float("inf"), -float("inf")]]).expand(2, 3).clone()):
        (expected,), (found,) = run_program(before, x), run_program(after, x)
        torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("name", LEFT)
def test_the_rest_is_left_alone(name):
    before = capture_program(Calls(LEFT[name]), X)
    assert open_bounds(before) == (before, None)


def test_infinity_stays_on_onnx_runtime():
    class Open(torch.nn.Module):
        def forward(self, x):
            large = torch.where(x.abs() > 1, x * 1e30 * 1e30, x)
            return large.clamp(max=24.0), large.clamp_min(-5.0)

    proved = prove(Open().eval(), (torch.randn(4, 6, generator=torch.Generator().manual_seed(0)),), "onnx-cpu")
    assert proved.exit_code == 0, proved.reason
    assert "open_bounds" in proved.rewrites
