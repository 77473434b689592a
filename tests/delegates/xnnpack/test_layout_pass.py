"""The memory order of images that are quantized at every run."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from benchmarks.operators.proof import verified_here
from edgex.export.pipeline import export_to_targets
from edgex.export.settings import ExportSettings
from edgex.export.source.source import wrap_model


class Layers(nn.Module):
    """Layers to be put together by a function of them and an image."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        self.first, self.last = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 4, 3)
        self.other, self.linear = nn.Conv2d(16, 16, 1), nn.Linear(16, 16)
        self.volume = nn.Conv3d(3, 16, 3, padding=1)

    def forward(self, x):
        return self.function(self, x)


def of_pixels(layers, x):
    return layers.last(layers.linear(layers.first(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2))


def of_tokens(layers, x):
    y = layers.linear(layers.first(x).flatten(2).transpose(1, 2))
    return layers.last(y.transpose(1, 2).reshape(1, 16, 16, 16))


def of_rows(layers, x):
    return layers.last(layers.first(x).softmax(-1))


def of_both_orders(layers, x):
    y = layers.first(x).softmax(-1)
    return layers.last(y), layers.linear(y)


def of_branches(layers, x):
    y = torch.relu(layers.first(x))
    z = layers.linear(y.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
    return layers.last(layers.other(z) + z * 2 + y), layers.linear(z.mean((2, 3)))


def of_volumes(layers, x):
    return layers.linear(layers.volume(x.reshape(1, 3, 4, 4, 16)).flatten(2).transpose(1, 2))


@pytest.mark.parametrize("function", [of_pixels, of_tokens, of_rows, of_both_orders, of_branches, of_volumes])
def test_images_that_are_quantized_at_every_run_are_brought_into_order_themselves(function, tmp_path: Path):
    """ExecuTorch 1.5 reordered the input of the whole program: SQNR -2 dB, or a program that it could not lower."""
    torch.manual_seed(0)
    source = wrap_model(Layers(function).eval(), (torch.randn(1, 3, 16, 16),), {}, None, "layers")
    settings = ExportSettings(("xnnpack",), tmp_path, quantize="int8-dynamic")
    with verified_here():
        report = export_to_targets(lambda: source, settings, name="layers", stop_at_failure=True)
    assert report.artifacts[0].verification["min_sqnr_db"] > 25, report.artifacts[0].verification["min_sqnr_db"]
