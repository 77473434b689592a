"""Writes through `.data` are in the program, as eager has them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from edgex.errors import CaptureError
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


def _maxnorm(self, x):
    self.layer.weight.data = torch.renorm(self.layer.weight.data, p=2, dim=0, maxnorm=0.5)
    return self.layer(x)


def _clamped(self, x):
    self.scale.data.clamp_(min=0)
    return self.layer(x) * self.scale


def _in_place(self, x):
    with torch.no_grad():
        self.scale.clamp_(min=0)
        self.layer.weight[0] = 1.0
        self.layer.bias.copy_(self.scale * 2)
    return self.layer(x)


def _from_another(self, x):
    self.layer.weight.data = torch.outer(self.scale, self.scale)
    self.layer.bias.data = self.scale.data.tanh()
    return self.layer(x)


def _buffer(self, x):
    self.table.data = self.scale.data.cumsum(0)
    return self.layer(x) + self.table


def _nothing_to_clamp(self, x):
    self.layer.bias.data.clamp_(-1e6, 1e6)
    return self.layer(x)


class Weights(nn.Module):
    def __init__(self, forward):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.tensor([-1.0, 2.0, 0.5, -0.25]))
        self.register_buffer("table", torch.zeros(4))
        self._forward = forward

    def forward(self, x):
        return self._forward(self, x)


@pytest.mark.parametrize("forward", [_maxnorm, _clamped, _in_place, _from_another, _buffer, _nothing_to_clamp])
def test_settled_weights_are_as_runs_leave_them(forward):
    torch.manual_seed(0)
    model = Weights(forward)
    captured = capture(model, (X,), source_root=Path(__file__).parent)
    program = captured.program
    assert not program.state and any("from weights alone" in notice for notice in captured.notices)
    for inputs in (X, X.flip(0), 3 * X):
        torch.testing.assert_close(program.exported.module()(inputs)[0], model(inputs))


def _moving(self, x):
    self.scale.data = 0.9 * self.scale.data + 0.1 * x.mean(0)
    return self.layer(x) * self.scale


def _of_inputs(self, x):
    self.scale.data = x[0]
    return self.layer(x) * self.scale


def _decay(self, x):
    self.scale.data.mul_(0.9)
    return self.layer(x) * self.scale


def _moving_buffer(self, x):
    self.table.data = self.table + x[0]
    return self.layer(x) * self.table


@pytest.mark.parametrize(
    ("forward", "name"), [(_moving, "scale"), (_of_inputs, "scale"), (_decay, "scale"), (_moving_buffer, "table")]
)
def test_weights_that_inputs_or_runs_change_are_refused(forward, name):
    with pytest.raises(CaptureError, match=name) as failure:
        capture(Weights(forward), (X,), source_root=Path(__file__).parent)
    assert "test_weight_writes.py" in (failure.value.where or "")


class Experts(nn.Module):
    """Each expert is brought to where its input is, as mixtures do that keep unused ones elsewhere."""

    def __init__(self, bring):
        super().__init__()
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)) for _ in range(2))
        self.bring = bring

    def forward(self, x):
        return torch.stack([self.bring(expert, x)(x) for expert in self.experts])


IDLE = {
    "to the device": lambda expert, x: expert.to(x.device),
    "to a name, by word": lambda expert, x: expert.to(device="cpu", non_blocking=True),
    "to a tensor's": lambda expert, x: expert.to(x),
    "to dtype and device": lambda expert, x: expert.to("cpu", torch.float32),
    "cpu": lambda expert, x: expert.cpu(),
    "float": lambda expert, x: expert.float(),
}


@pytest.mark.parametrize("name", IDLE)
def test_layers_brought_where_they_are(name):
    model = Experts(IDLE[name]).eval()
    captured = capture(model, (X,), source_root=Path(__file__).parent)
    (found,) = captured.program.exported.module()(X)
    assert torch.equal(found, model(X))
    assert not captured.notices, captured.notices


def test_layers_that_become_others_are_refused():
    with pytest.raises(CaptureError):
        capture(Experts(lambda expert, x: expert.double().float()).eval(), (X,), source_root=Path(__file__).parent)
