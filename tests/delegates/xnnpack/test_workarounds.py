"""What XNNPACK's partitioner takes though it should not, and what was kept from it for no reason."""

from __future__ import annotations

import torch
from rewriting import capture_program

from benchmarks.operators.proof import prove
from edgex.delegates.xnnpack.delegate import XnnpackDelegate, XnnpackOptions
from edgex.export.rewrites import apply_rewrites, wanted_rewrites


class LayerNorm2d(torch.nn.Module):
    def forward(self, x):
        centred = x - x.mean(1, keepdim=True)
        return centred / torch.sqrt(centred.pow(2).mean(1, keepdim=True) + 1e-6)


class SevenDimensions(torch.nn.Module):
    def forward(self, x, y):
        return x.sigmoid() * y.sigmoid()


def left_out(module, *args, without=()):
    program, _ = apply_rewrites(capture_program(module, *args), wanted_rewrites(XnnpackDelegate()), without)
    plan = XnnpackDelegate().plan(program, XnnpackOptions())
    return {fallback.op: fallback.reason for fallback in plan.fallbacks}


def test_a_norm_over_channels_is_taken_whole():
    assert left_out(LayerNorm2d(), torch.randn(1, 4, 5, 6)) == {}


def test_more_than_six_dimensions_are_left_out():
    x = torch.randn(1, 2, 9, 1, 1, 3, 3), torch.randn(1, 2, 9, 2, 2, 1, 1)
    assert left_out(SevenDimensions(), *x).keys() == {"aten.view_copy.default"}  # its result's form
    found = left_out(SevenDimensions(), *x, without=("fold_dimensions",))
    assert found.keys() == {"aten.sigmoid.default", "aten.mul.Tensor"}
    assert all("6 dimensions at most, not 7" in reason for reason in found.values()), found


class CalledTwice(torch.nn.Module):
    """A layer of one dimension, over two inputs in one region and once more in another."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Conv1d(64, 64, 3, padding=1)

    def forward(self, x, y):
        first = self.layer(x) * torch.relu(self.layer(y))
        return self.layer(torch.cumsum(first, 1) / 64)


def test_a_kernel_of_one_dimension_that_several_convolutions_read():
    proved = prove(CalledTwice(), (torch.randn(1, 64, 16), torch.randn(1, 64, 16)), "xnnpack")
    assert proved.exit_code == 0, proved.reason


def test_a_little_that_is_added_keeps_a_root_from_zero():
    def of(function):
        class Root(torch.nn.Module):
            def forward(self, x):
                return torch.sqrt(function(x.sin()))

        plan = XnnpackDelegate().plan(capture_program(Root(), torch.randn(2, 5)), XnnpackOptions())
        return bool(plan.fallbacks)

    assert not of(lambda x: x + 1e-6)
    assert of(lambda x: x + 1.0)
    assert of(lambda x: x.clamp(min=-1e-6) + 1e-6)
    assert of(lambda x: x + torch.tensor([1e-4, 1.0, 1.0, 1.0, 1.0]))
