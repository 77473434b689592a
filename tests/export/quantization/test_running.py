"""Weights in few bits are converted once for all runs of a reference, where that fits into memory."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.fx import Interpreter

from edgex.delegates.base import CapturedProgram
from edgex.delegates.recipes.recipes import get_recipe
from edgex.export.capture.stage import capture_source
from edgex.export.quantization.linear.layers import quantize_linear
from edgex.export.quantization.running import GraphRunner, compute_float_weights
from edgex.export.rewrites.editing.editor import constant_tensors
from edgex.export.source.source import wrap_model

_WEIGHT_BYTES = 4 * (64 * 128 + 128 * 64)


class _Counting(nn.Module):
    """Two linear layers, and a buffer that every run adds to."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.first, self.second = nn.Linear(64, 128), nn.Linear(128, 64)
        self.total = nn.Buffer(torch.zeros(64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x.sum(0))
        return self.second(self.first(x).relu()) + self.total


@pytest.fixture(scope="module")
def program() -> CapturedProgram:
    source = wrap_model(_Counting().eval(), (torch.randn(3, 64),), {})
    captured = capture_source(source, {}, lambda *_: None).capture.program
    return quantize_linear(captured, get_recipe("8da4w", 32), frozenset()).program


def test_converted_weights_are_the_program_s_own(program):
    seen = {}

    class Watcher(Interpreter):
        def run_node(self, n):
            seen[n] = super().run_node(n)
            return seen[n]

    x = torch.randn(5, 64)
    watched = GraphRunner(program, interpreter=Watcher)
    expected = [watched.run([x])[0], watched.run([x])[0]]
    runner = GraphRunner(program)
    assert [torch.equal(runner.run([x])[0], one) for one in expected] == [True, True], "state goes on, weights stay"

    found = compute_float_weights(program.exported.graph_module, constant_tensors(program))
    assert [tuple(value.shape) for value in found.values()] == [(128, 64), (64, 128)]
    assert all(torch.equal(value, seen[node]) for node, value in found.items())


@pytest.mark.parametrize(("share", "kept"), [(4, 2), (3, 1), (1, 0)])
def test_weights_beyond_a_quarter_of_memory_are_converted_at_every_run(program, share, kept):
    module, constants = program.exported.graph_module, constant_tensors(program)
    assert len(compute_float_weights(module, constants, available_bytes=share * _WEIGHT_BYTES)) == kept


def test_what_is_released_is_computed_again(program):
    runner, x = GraphRunner(program), torch.randn(2, 64)
    first = runner.run([x])[0]
    runner.release()
    runner.reset()
    assert torch.equal(runner.run([x])[0], first)


def test_a_program_in_float_has_none(program):
    source = wrap_model(_Counting().eval(), (torch.randn(3, 64),), {})
    captured = capture_source(source, {}, lambda *_: None).capture.program
    assert compute_float_weights(captured.exported.graph_module, constant_tensors(captured)) == {}
