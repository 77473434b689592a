"""Means of large images in two steps: near equal pixels lose no digits, and quantized programs keep their operator."""

from __future__ import annotations

import pytest
import torch
from rewriting import Calls, Untouched, capture_program, check_rewrite, operators
from torch import nn
from torch.nn import functional as F

from benchmarks.operators.proof import prove
from edgex.export.rewrites.reductions.image_means import average_in_steps

IMAGE = torch.rand(2, 3, 48, 64, generator=torch.Generator().manual_seed(0)) + 1

TAKEN = {
    "mean": lambda x: x.mean((2, 3)),
    "mean that stays": lambda x: x.mean((-1, -2), keepdim=True),
    "sum": lambda x: x.sum((2, 3)),
    "sum that stays": lambda x: x.square().sum((-1, -2), keepdim=True).sqrt(),
    "pooling": lambda x: F.adaptive_avg_pool2d(x, 1),
    "pooling to a pair": lambda x: F.adaptive_avg_pool2d(x, (1, 1)) * 2,
    "channels last in memory": lambda x: x.contiguous(memory_format=torch.channels_last).mean((2, 3)),
}
LEFT = {
    "a small image": lambda x: x[..., :16].mean((2, 3)),
    "rows": lambda x: x.mean(3),
    "the sum of everything": lambda x: x.sum(),
    "a sum of another type": lambda x: x.sum((2, 3), dtype=torch.float64),
    "a pooling to several": lambda x: F.adaptive_avg_pool2d(x, (1, 2)),
    "no images": lambda x: x.flatten(0, 1).mean((1, 2)),
    "another type": lambda x: x.mean((2, 3), dtype=torch.float64),
    "a prime number of columns": lambda x: x[..., :61].mean((2, 3)),
}


@pytest.mark.parametrize("name", TAKEN)
def test_the_numbers_stay(name):
    before = capture_program(Calls(TAKEN[name]), IMAGE)
    untouched = Untouched(before, IMAGE)
    after, rewrite = average_in_steps(before)
    check_rewrite(before, after, IMAGE, untouched=untouched)
    assert rewrite.count == 1
    assert "aten.avg_pool2d.default" in operators(after)
    assert average_in_steps(after) == (after, None)


@pytest.mark.parametrize("name", LEFT)
def test_the_rest_is_left_alone(name):
    before = capture_program(Calls(LEFT[name]), IMAGE)
    assert average_in_steps(before) == (before, None)


class Excitation(nn.Module):
    """Gates by what is left of an image's mean, enlarged as layers enlarge it."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)

    def forward(self, x):
        y = self.conv(x).relu() + 3
        return y * ((y.mean((2, 3), keepdim=True) - 3) * 50)


@pytest.mark.parametrize("target", ["xnnpack", "onednn"])
def test_gates_of_constant_images_have_eagers_numbers(target):
    torch.manual_seed(0)
    image = torch.full((1, 3, 112, 96), 0.37) + torch.rand(1, 3, 1, 1) * 0.1
    proof = prove(Excitation().eval(), (image,), target)
    assert proof.exit_code == 0, (proof.reason, proof.error)
    assert "average_in_steps" in proof.rewrites


class ResponseNorm(nn.Module):
    """As ConvNeXt V2 has it: each channel by its norm over the image."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.out = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 3, 1)

    def forward(self, x):
        y = F.gelu(self.conv(x))
        norm = y.norm(p=2, dim=(2, 3), keepdim=True)
        return self.out(y * (norm / (norm.mean(1, keepdim=True) + 1e-6))), y[..., :8].sum((2, 3))


@pytest.mark.parametrize("target", ["xnnpack", "onednn"])
def test_sums_of_images_have_eagers_numbers(target):
    torch.manual_seed(0)
    proof = prove(ResponseNorm().eval(), (torch.full((1, 3, 112, 96), 0.37),), target)
    assert proof.exit_code == 0, (proof.reason, proof.error)
    assert "average_in_steps" in proof.rewrites
    assert proof.verification["min_sqnr_db"] > 95


@pytest.mark.parametrize("target", ["xnnpack", "onednn"])
def test_how_many_images_may_be_open(target):
    torch.manual_seed(0)
    batch = torch.export.Dim("batch", min=1, max=4)
    proof = prove(Excitation().eval(), (IMAGE,), target, dynamic_shapes=({0: batch},))
    assert proof.exit_code == 0, (proof.reason, proof.error)
    assert "average_in_steps" in proof.rewrites
