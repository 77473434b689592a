"""Convolutions of one channel with long windows, over blocks of elements."""

from __future__ import annotations

import pytest
import torch
from rewriting import capture_program, check_rewrite, operators
from torch import nn

from edgex.export.rewrites.weights.blocks import block_signals


def signal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


CASES = {
    "rows of an image": (nn.Conv2d(1, 8, (1, 125), padding=(0, 63)), signal(1, 1, 5, 300)),
    "a signal": (nn.Conv1d(1, 16, 64, bias=False), signal(2, 1, 256)),
    "of the same size": (nn.Conv1d(1, 2, 17, padding="same"), signal(1, 1, 40)),
    "of the same size, uneven": (nn.Conv2d(1, 4, (1, 32), padding="same"), signal(2, 1, 3, 50)),
    "as few results as pay": (nn.Conv1d(1, 3, 16), signal(1, 1, 31)),
    "one behind another": (nn.Sequential(nn.Conv1d(1, 1, 20), nn.ReLU(), nn.Conv1d(1, 4, 33)), signal(1, 1, 100)),
}
KEPT = {
    "strides": (nn.Conv1d(1, 8, 80, 4), signal(1, 1, 400)),
    "dilation": (nn.Conv1d(1, 8, 32, dilation=2), signal(1, 1, 400)),
    "windows of two rows": (nn.Conv2d(1, 8, (2, 32)), signal(1, 1, 5, 300)),
    "rows around": (nn.Conv2d(1, 8, (1, 32), padding=(1, 0)), signal(1, 1, 5, 300)),
    "short windows": (nn.Conv1d(1, 8, 15), signal(1, 1, 400)),
    "many outputs": (nn.Conv1d(1, 17, 32), signal(1, 1, 400)),
    "two channels": (nn.Conv1d(2, 8, 32), signal(1, 2, 400)),
    "few results": (nn.Conv1d(1, 8, 32), signal(1, 1, 46)),
}


@pytest.mark.parametrize("name", CASES)
def test_the_window_has_eight_channels_and_the_numbers_stay(name: str) -> None:
    module, x = CASES[name]
    before = capture_program(module, x)
    after, rewrite = block_signals(before)
    assert rewrite is not None
    check_rewrite(before, after, x, min_sqnr_db=120)
    weights = [node.args[1].meta["val"].shape for node in after.exported.graph.nodes if "aten.conv" in str(node.target)]
    assert weights and all(shape[1] == 8 for shape in weights)


@pytest.mark.parametrize("name", KEPT)
def test_what_is_fast_stays(name: str) -> None:
    before = capture_program(*KEPT[name])
    after, rewrite = block_signals(before)
    assert after is before
    assert rewrite is None


def test_weights_that_a_call_computes_stay() -> None:
    class Filter(nn.Module):
        def forward(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
            return torch.conv1d(x, weight)

    before = capture_program(Filter(), signal(1, 1, 400), signal(8, 1, 32))
    after, _ = block_signals(before)
    assert operators(after) == operators(before)
