"""Images one pixel wide lie along their width: the numbers stay, and what stands between convolutions goes along."""

from __future__ import annotations

import pytest
import torch
from rewriting import capture_program, operators, run_program
from torch import nn
from torch.nn import functional as F

from benchmarks.operators.proof import prove
from edgex.export.rewrites.images.narrow import lay_flat


class Between(nn.Module):
    """Two convolutions over a signal of 40 steps, and something between them."""

    def __init__(self, between, channels=8, **first):
        super().__init__()
        self.between = between
        self.first = nn.Conv2d(4, 8, (5, 1), **({"padding": (2, 0)} | first))
        self.second = nn.Conv2d(channels, 6, (3, 1), padding=(2, 0), dilation=(2, 1), groups=2)
        self.slope = nn.Parameter(torch.rand(8))
        self.factor = nn.Parameter(torch.rand(8, 1, 1))
        self.norm = nn.BatchNorm2d(8)
        self.norm.running_mean.uniform_(-1, 1)

    def forward(self, x):
        return self.second(self.between(self, self.first(x)))


X = torch.randn(2, 4, 40, 1, generator=torch.Generator().manual_seed(0))

TAKEN = {
    "an activation": Between(lambda m, y: F.relu(y)),
    "a slope for each channel": Between(lambda m, y: F.prelu(y, m.slope)),
    "norms": Between(lambda m, y: F.instance_norm(m.norm(y))),
    "groups": Between(lambda m, y: F.group_norm(y, 2)),
    "numbers, and one a channel": Between(lambda m, y: (y * m.factor + 1.5) * torch.sigmoid(y)),
    "the signal before": Between(lambda m, y: torch.cat([y, F.relu(y)], 1), channels=16),
    "padding at both ends": Between(lambda m, y: F.pad(y, (0, 0, 3, 1), value=0.5)),
    "a pool": Between(lambda m, y: F.max_pool2d(y, (2, 1), (2, 1))),
    "averages": Between(lambda m, y: F.avg_pool2d(y, (3, 1), (1, 1), (1, 0))),
    "padding by its name": Between(lambda m, y: y.tanh(), padding="same"),
    "steps": Between(lambda m, y: y.abs(), stride=(2, 1)),
}
# How many operators of the region are left outside: a view each way.
SPLIT = {
    "another order": Between(lambda m, y: y.flip(2)),
    "a reflected border": Between(lambda m, y: F.pad(y, (0, 0, 2, 2), mode="reflect")),
    "a mean over time": Between(lambda m, y: y - y.mean(2, keepdim=True)),
    "a window for each step": Between(lambda m, y: y * torch.hann_window(40)[:, None]),
    "an average of the whole": Between(lambda m, y: y * F.adaptive_avg_pool2d(y, 1)),
}
LEFT = {
    "wide images": (nn.Conv2d(4, 6, (5, 1)), torch.randn(1, 4, 40, 2)),
    "short ones": (nn.Conv2d(4, 6, (5, 1)), torch.randn(1, 4, 8, 1)),
    "wide kernels": (nn.Conv2d(4, 6, 3, padding=1), X),
    "one pixel": (nn.Conv2d(4, 6, 1), X),
    "padding at the sides": (nn.Conv2d(4, 6, (3, 1), padding=(1, 1)), X),
}


@pytest.mark.parametrize("name", [*TAKEN, *SPLIT])
def test_the_numbers_stay(name):
    module = {**TAKEN, **SPLIT}[name].eval()
    before = capture_program(module, X)
    after, rewrite = lay_flat(before)
    assert rewrite is not None and rewrite.count == 2
    (expected,), (found,) = run_program(before, X), run_program(after, X)
    assert found.shape == expected.shape
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    assert lay_flat(after) == (after, None)


@pytest.mark.parametrize("name", TAKEN)
def test_there_and_back_once(name):
    after, _ = lay_flat(capture_program(TAKEN[name].eval(), X))
    assert operators(after).count("aten.reshape.default") == 2, operators(after)


@pytest.mark.parametrize("name", LEFT)
def test_the_rest_is_left_alone(name):
    module, x = LEFT[name]
    before = capture_program(module.eval(), x)
    assert lay_flat(before) == (before, None)


def test_a_constant_image_is_left_alone():
    class Constant(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(4, 6, (5, 1))
            self.register_buffer("image", X.clone())

        def forward(self, scale):
            return self.conv(self.image) * scale

    before = capture_program(Constant().eval(), torch.ones(1))
    assert lay_flat(before) == (before, None)


def test_a_weight_that_two_share_stays_one():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(4, 4, (3, 1), padding=(1, 0))

        def forward(self, x):
            return self.conv(F.relu(self.conv(x)))

    after, rewrite = lay_flat(capture_program(Twice().eval(), X))
    assert rewrite is not None and sum(tensor.dim() == 4 for tensor in after.exported.state_dict.values()) == 1


@pytest.mark.parametrize("target", ["onnx-cpu", "onednn"])
def test_targets_that_gain_by_it_take_it(target):
    proved = prove(TAKEN["a slope for each channel"].eval(), (X,), target)
    assert proved.exit_code == 0, proved.reason
    assert "lay_flat" in proved.rewrites
