"""Writes through `.data` are in the program, as eager has them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from edgex.export.capture.program import capture

X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))


def _masked(layer, x):
    energies = layer(x)
    energies.data.masked_fill_(x > 0, -5.0)
    return energies.exp()


def _part(layer, x):
    y = layer(x)
    y[:, 1].data.mul_(2)
    y.data[0] = 3.0
    return y + 1


def _read(layer, x):
    return layer(x) @ layer.weight.data.clone() + x.data


class Layer(nn.Module):
    def __init__(self, forward):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self._forward = forward

    def forward(self, x):
        return self._forward(self.layer, x)


@pytest.mark.parametrize("forward", [_masked, _part, _read])
def test_eagers_numbers(forward):
    captured = capture(Layer(forward), (X,), source_root=Path(__file__).parent)
    for inputs in (X, X.flip(0)):
        torch.testing.assert_close(captured.program.exported.module()(inputs)[0], captured.eager.module(inputs))


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.ones(4))

    def forward(self, x):
        self.count.data.add_(1)
        return x * self.count


def test_a_buffer_is_state():
    program = capture(Counter(), (X,), source_root=Path(__file__).parent).program.exported.module()
    assert [torch.equal(program(X)[0], X * count) for count in (2, 3)] == [True, True]
