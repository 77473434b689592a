"""Convolutions with weights that a run computes, as products of matrices: the same as torch's, all in XNNPACK."""

from __future__ import annotations

import pytest
import torch
from rewriting import Calls, capture_program, check_rewrite, operators
from torch import nn
from torch.nn import functional as F

from benchmarks.operators.proof import prove
from edgex.delegates.xnnpack.delegate import XnnpackDelegate, XnnpackOptions
from edgex.export.rewrites import apply_rewrites, wanted_rewrites
from edgex.export.rewrites.weights.computed import multiply_windows


def rand(*sizes, seed=0):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed))


IMAGE = rand(2, 6, 9, 8)
SEQUENCE = rand(2, 6, 15)

CASES = {
    "images": (lambda x, w, b: F.conv2d(x, w, b, 2, 1), IMAGE, rand(4, 6, 3, 3, seed=1), rand(4, seed=2)),
    "with holes, of groups": (
        lambda x, w, b: F.conv2d(x, w, b, (1, 2), (2, 0), (2, 1), 3), IMAGE, rand(9, 2, 3, 2, seed=1), rand(9, seed=2)
    ),
    "points": (lambda x, w: F.conv2d(x, w), IMAGE, rand(5, 6, 1, 1, seed=1)),
    "depthwise": (lambda x, w: F.conv2d(x, w, padding=1, groups=6), IMAGE, rand(6, 1, 3, 3, seed=1)),
    "sequences": (lambda x, w: F.conv1d(x, w, None, 2, 3, 2), SEQUENCE, rand(4, 6, 4, seed=1)),
    "transposed": (
        lambda x, w, b: F.conv_transpose2d(x, w, b, 2, 1, 1, 2), IMAGE, rand(6, 2, 3, 4, seed=1), rand(4, seed=2)
    ),
    "transposed, with more behind than a stride": (
        lambda x, w: F.conv_transpose2d(x, w, None, 1, 0, 1, 1, 2), IMAGE, rand(6, 2, 3, 3, seed=1)
    ),
    "of the same size": (lambda x, w: F.conv2d(x, w, padding="same"), IMAGE, rand(5, 6, 4, 3, seed=1)),
    "transposed sequences": (lambda x, w: F.conv_transpose1d(x, w, None, 3), SEQUENCE, rand(6, 4, 5, seed=1)),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_windows_are_multiplied(case):
    function, *args = CASES[case]
    before = capture_program(Calls(function), *args)
    after, rewrite = multiply_windows(before)
    check_rewrite(before, after, *args)
    assert rewrite.count == 1
    assert not any("conv" in operator for operator in operators(after))


def test_constant_weights_and_volumes_stay():
    constant = capture_program(nn.Conv2d(6, 4, 3), IMAGE)
    assert multiply_windows(constant) == (constant, None)
    scaled = capture_program(Scaled(), IMAGE)
    assert multiply_windows(scaled) == (scaled, None)
    args = rand(1, 2, 4, 4, 4), rand(3, 2, 2, 2, 2, seed=1)
    volume = capture_program(Calls(F.conv3d), *args)
    assert multiply_windows(volume) == (volume, None)


class Scaled(nn.Conv2d):
    """Its weights are computed of weights alone."""

    def __init__(self):
        super().__init__(6, 4, 3)

    def forward(self, x):
        return F.conv2d(x, self.weight * self.weight.abs().mean(), self.bias)


class Modulated(nn.Module):
    """As StyleGAN2 does: each sample's style scales the weights, whose outputs are brought to one length."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(rand(1, 8, 6, 3, 3))
        self.style = nn.Linear(5, 6)

    def forward(self, x, style):
        weight = self.weight * self.style(style).view(-1, 1, 6, 1, 1)
        weight = weight * torch.rsqrt(weight.square().sum((2, 3, 4), keepdim=True) + 1e-8)
        y = F.conv2d(x.reshape(1, 12, 9, 8), weight.view(16, 6, 3, 3), padding=1, groups=2)
        return y.view(2, 8, 9, 8)


def test_a_modulated_convolution_stays_in_xnnpack():
    args = IMAGE, rand(2, 5, seed=3)
    program, _ = apply_rewrites(capture_program(Modulated(), *args), wanted_rewrites(XnnpackDelegate()))
    plan = XnnpackDelegate().plan(program, XnnpackOptions())
    assert not any("conv" in left.op for left in plan.fallbacks), plan.fallbacks
    proved = prove(Modulated(), args, "xnnpack")
    assert proved.exit_code == 0, proved.reason
