"""Sines and cosines, which oneDNN does not have: the backend computes them between its own partitions."""

from __future__ import annotations

import math

import pytest
import torch
from onednn_support import Network, capture, check, load, lower, needs_onednn, random
from torch import nn

pytestmark = needs_onednn


class Snake(nn.Module):
    """What vocoders have between their convolutions."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(random(1, channels, 1).abs() + 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.sin(self.alpha * x) ** 2 / self.alpha


def turns(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x.sin(), x.cos()


@pytest.mark.parametrize("count", [1, 15, 40, 5000, 40000])
def test_numbers_of_every_size(count: int) -> None:
    """As close to the exact ones as PyTorch's are; beyond what a vector takes, the library's."""
    spans = [torch.linspace(-most, most, count) + at for most in (1e-4, 3, 100, 1e5, 9e8, 1e30) for at in (0, 0.1)]
    with load(lower(capture(Network(turns), spans[:1]))) as loaded:
        for x in spans:
            for exact, found in zip(turns(x.double()), loaded(x), strict=True):
                worst = (exact - found.double()).abs().max()
                assert worst < 3e-7, f"{worst:.1e} for numbers up to {x.abs().max():g}"


def test_small_numbers_keep_their_digits_and_zero_its_sign() -> None:
    x = torch.cat([torch.logspace(-30, 0, 60), -torch.logspace(-30, 0, 60), torch.tensor([0.0, -0.0])])
    with load(lower(capture(Network(torch.sin), [x]))) as loaded:
        (found,) = loaded(x)
    assert torch.allclose(found, x.sin(), rtol=3e-7, atol=0)
    assert (found.signbit() == x.signbit()).all()


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_gives_no_number_where_it_is(odd: float) -> None:
    x = random(7000)
    x[[3, 5000]] = odd
    with load(lower(capture(Network(turns), [x]))) as loaded:
        for wanted, found in zip(turns(x), loaded(x), strict=True):
            assert torch.equal(wanted.isnan(), found.isnan())
            assert (wanted - found).nan_to_num().abs().max() < 3e-7


def test_however_numbers_lie() -> None:
    def run(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.transpose(1, 2).sin(), y.expand(3, 5, 4).cos() + x.mT, (x[:, 1:3] * 2).sin(), x.relu().sin().softmax(1)

    check(Network(run), random(3, 4, 5), random(5, 1))


def test_a_vocoder_is_one_call() -> None:
    layers = (
        nn.Conv1d(8, 16, 7, padding=3),
        Snake(16),
        nn.ConvTranspose1d(16, 8, 4, 2, 1),
        Snake(8),
        nn.Conv1d(8, 1, 3),
    )
    lowered = check(Network(lambda x, *layers: nn.Sequential(*layers)(x), *layers), random(1, 8, 40))
    assert lowered.plan.delegate_calls == 1


def test_other_sizes() -> None:
    shapes = (({0: torch.export.Dim("batch", max=8), 1: torch.export.Dim("time", min=4, max=400)},),)
    network = Network(lambda x: x.sin() * x + x.cos())
    check(network, random(2, 100), shapes=shapes, more=[(random(1, 4),), (random(8, 399),)])


def test_of_integers_stays_outside() -> None:
    check(Network(lambda x: x.sin() * 2), torch.arange(12).reshape(3, 4), left=1)
