"""Convolutions of each channel by itself: those that the backend computes without oneDNN."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from onednn_support import Network, check, needs_onednn, random, seeded
from torch import nn

pytestmark = needs_onednn


def sequence(channels: int = 24, taps: int = 31, **options: Any) -> nn.Module:
    return seeded(nn.Conv1d(channels, channels, taps, groups=channels, **options))


def image(channels: int = 24, taps: int = 3, **options: Any) -> nn.Module:
    """With holes, unless told otherwise: oneDNN has a kernel for the others."""
    return seeded(nn.Conv2d(channels, channels, taps, **{"dilation": 2, "groups": channels, **options}))


def mixed(x: torch.Tensor, one: nn.Module, other: nn.Module) -> torch.Tensor:
    return other(torch.sigmoid(one(x)) * one(x)) + x


def of_a_product(x: torch.Tensor, product: nn.Module, layer: nn.Module) -> torch.Tensor:
    return layer(product(x)).relu()


def residual_of_a_product(x: torch.Tensor, product: nn.Module, layer: nn.Module) -> torch.Tensor:
    return torch.relu(layer(x.relu()) + product(x))


def activated_between(x: torch.Tensor, first: nn.Module, layer: nn.Module, last: nn.Module) -> torch.Tensor:
    y = first(x)
    return last(layer(torch.tanh(y) * y.abs()) * 0.5)


def read_twice(x: torch.Tensor, layer: nn.Module, norm: nn.Module) -> tuple[torch.Tensor, ...]:
    y = layer(x)
    return norm(y.transpose(1, 2)), y.mean(2), y


def joined(x: torch.Tensor, one: nn.Module, other: nn.Module) -> torch.Tensor:
    return other(torch.cat([one(x), x.relu()], 1))


def scaled(x: torch.Tensor, layer: nn.Module, down: nn.Module, up: nn.Module) -> torch.Tensor:
    y = layer(x)
    return y * torch.sigmoid(up(down(y.mean((2, 3), keepdim=True)).relu()))


Case = tuple[Callable[..., Any], torch.Tensor, tuple[nn.Module, ...]]
CASES: dict[str, Case] = {
    "sequence": (lambda x, c: c(x), random(2, 24, 100), (sequence(padding=15),)),
    "sequence with holes": (lambda x, c: c(x).relu(), random(1, 24, 300), (sequence(taps=3, dilation=64, padding=64),)),
    "image with holes": (lambda x, c: c(x), random(1, 24, 20, 14), (image(taps=7, dilation=3, padding=9),)),
    "strides": (lambda x, c: c(x).relu(), random(2, 24, 15, 15), (image(stride=2, padding=2),)),
    "many taps": (lambda x, c: c(x), random(1, 24, 20, 14), (image(taps=13, dilation=1, padding=6),)),
    "without holes": (lambda x, c: c(x).relu(), random(1, 24, 20, 14), (image(dilation=1, padding=1),)),
    "seven channels": (lambda x, c: c(x).relu(), random(1, 7, 33, 9), (image(7, 5, padding=4, bias=False),)),
    "hundreds of channels": (lambda x, c: c(x), random(1, 300, 7, 7), (image(300, padding=2),)),
    "swish and a sum": (mixed, random(1, 24, 50), (sequence(padding=15), sequence(taps=5, padding=2))),
    "of a product": (of_a_product, random(2, 24, 40), (seeded(nn.Linear(40, 40)), sequence(taps=5))),
    "and a product": (
        *(residual_of_a_product, random(2, 24, 40)),
        (seeded(nn.Linear(40, 40)), sequence(taps=5, padding=2)),
    ),
    "activated between": (
        *(activated_between, random(1, 8, 40, 20)),
        (seeded(nn.Conv2d(8, 24, 3)), image(padding=2), seeded(nn.Conv2d(24, 8, 1))),
    ),
    "read twice": (read_twice, random(2, 24, 60), (sequence(taps=9), nn.LayerNorm(24))),
    "joined": (joined, random(1, 12, 30, 18), (image(12, padding=2), image(24))),
    "scaled": (
        *(scaled, random(2, 24, 16, 16)),
        (image(padding=2), seeded(nn.Conv2d(24, 6, 1)), seeded(nn.Conv2d(6, 24, 1))),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_numbers_of_eager(name: str) -> None:
    function, x, layers = CASES[name]
    check(Network(function, *layers), x)


def test_other_sizes() -> None:
    shapes = (({0: torch.export.Dim("batch", max=8), 2: torch.export.Dim("time", min=40, max=400)},),)
    more = [(random(1, 24, 40),), (random(7, 24, 333),)]
    check(Network(lambda x, c: c(x).relu() + x, sequence(padding=15)), random(2, 24, 100), shapes=shapes, more=more)


def test_computed_weights() -> None:
    def run(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return torch.conv1d(x, weight, groups=24)

    check(Network(run), random(2, 24, 50), random(24, 1, 5, seed=1))


def test_no_kernel_of_onednn_without_avx512() -> None:
    """The numbers are right there, too, and the log has no convolution of one channel a group."""
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2", "DNNL_VERBOSE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-n", "0", "-p", "no:cacheprovider", __file__]
    chosen = "(numbers_of_eager or other_sizes) and not without"
    done = subprocess.run(
        [*command, "-k", chosen], env=environment, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:]
    # torch's own oneDNN, which eager runs, has another log.
    ran = [line for line in done.stdout.splitlines() if "onednn_verbose,exec,cpu,convolution," in line]
    assert any(",mb1_ic24oc8" in line for line in ran), "the log has none of the others either"
    assert not [line for line in ran if line.split(",")[-2].startswith("g")]
