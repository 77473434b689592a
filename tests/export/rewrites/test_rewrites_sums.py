"""Layers that sum over many inputs go by parts: the same numbers, and nothing else is split."""

from __future__ import annotations

import pytest
import torch
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from rewriting import Calls, capture_program, check_rewrite, operators
from torch import nn

from benchmarks.operators.proof import prove
from edgex.export.rewrites.weights.sums import split_sums


def rand(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


LAYERS = {
    "image": (nn.Conv2d(800, 8, 3, padding=1), rand(1, 800, 5, 6), 2),
    "its bias left out": (nn.Conv2d(515, 8, 3, stride=2, bias=False), rand(2, 515, 9, 9), 2),
    "with holes": (nn.Conv2d(1040, 4, 3, padding=2, dilation=2), rand(1, 1040, 5, 5), 3),
    "same padding": (nn.Conv2d(193, 4, 5, padding="same"), rand(1, 193, 5, 5), 2),
    "sequence": (nn.Conv1d(1200, 8, 4, padding=1), rand(1, 1200, 20), 2),
    "rows": (nn.Linear(6400, 8), rand(2, 9, 6400), 2),
}


@pytest.mark.parametrize("case", LAYERS)
def test_layers_go_by_parts(case):
    layer, x, parts = LAYERS[case]
    before = capture_program(nn.Sequential(nn.ReLU(), layer), x)
    after, rewrite = split_sums(before)
    check_rewrite(before, after, x)
    assert rewrite.count == 1
    layers = [name for name in operators(after) if "conv" in name or "linear" in name]
    assert len(layers) == parts


@given(st.integers(513, 2100), st.integers(1, 3))
@settings(max_examples=examples(10), deadline=None)
def test_any_number_of_inputs(inputs, taps):
    x = rand(1, inputs, 4, 8)
    before = capture_program(nn.Conv2d(inputs, 3, (3, taps), padding=1), x)
    after, rewrite = split_sums(before)
    assert (rewrite is None) == (inputs * 3 * taps <= 4608)
    if rewrite is not None:
        check_rewrite(before, after, x)


LEFT = {
    "as many as fit": (nn.Conv2d(512, 4, 3), rand(1, 512, 6, 6)),
    "few places": (nn.Conv2d(800, 4, 3), rand(1, 800, 3, 3)),
    "few rows": (nn.Linear(25088, 4), rand(1, 25088)),
    "a window that no part makes smaller": (nn.Conv2d(3, 4, 48), rand(1, 3, 50, 50)),
    "groups": (nn.Conv2d(1600, 4, 3, groups=2), rand(1, 1600, 5, 5)),
}


@pytest.mark.parametrize("case", LEFT)
def test_the_rest_is_left(case):
    layer, x = LEFT[case]
    program = capture_program(layer, x)
    assert split_sums(program) == (program, None)


def test_computed_weights_are_left():
    program = capture_program(Calls(nn.functional.linear), rand(20, 7000), rand(3, 7000))
    assert split_sums(program) == (program, None)


def test_xnnpack_proves_it():
    proved = prove(
        nn.Sequential(nn.ReLU(), nn.Conv2d(800, 8, 3, padding=1), nn.ReLU()).eval(), (rand(1, 800, 5, 6),), "xnnpack"
    )
    assert proved.exit_code == 0, proved.reason
    assert "split_sums" in proved.rewrites
