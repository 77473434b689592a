"""Convolutions of small groups of channels: those that the backend computes by planes, without oneDNN."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from onednn_support import Network, check, needs_onednn, random, seeded
from torch import nn

pytestmark = needs_onednn


def image(inputs: int = 16, outputs: int = 16, groups: int = 4, taps: Any = 3, **options: Any) -> nn.Module:
    return seeded(nn.Conv2d(inputs, outputs, taps, groups=groups, **options))


def bottleneck(x: torch.Tensor, down: nn.Module, middle: nn.Module, up: nn.Module) -> torch.Tensor:
    return torch.relu(up(middle(down(x).relu()).relu()) + x)


def mixed(x: torch.Tensor, one: nn.Module, other: nn.Module) -> torch.Tensor:
    y = one(x)
    return other(torch.sigmoid(y) * y) + x.mean()


def of_rows(x: torch.Tensor, product: nn.Module, layer: nn.Module) -> torch.Tensor:
    return layer(product(x).unflatten(1, (8, 3)).transpose(2, 3)).relu()


def shuffled(x: torch.Tensor, one: nn.Module, other: nn.Module) -> torch.Tensor:
    y = one(x).unflatten(1, (4, 4)).transpose(1, 2).flatten(1, 2)
    return other(y.relu())


Case = tuple[Callable[..., Any], torch.Tensor, tuple[nn.Module, ...]]
CASES: dict[str, Case] = {
    "groups of four": (lambda x, c: c(x).relu(), random(2, 16, 15, 13), (image(padding=1),)),
    "one input each": (lambda x, c: c(x), random(1, 6, 20, 9), (image(6, 18, 6, padding=1),)),
    "one output each": (lambda x, c: c(x), random(1, 24, 12, 9), (image(24, 3, 3, padding=1, bias=False),)),
    "pairs": (lambda x, c: c(x).relu(), random(2, 64, 9, 9), (image(64, 64, 32, padding=1),)),
    "groups of eight": (lambda x, c: c(x).relu(), random(1, 32, 14, 14), (image(32, 32, 4, padding=1),)),
    "strides and holes": (
        *(lambda x, c: c(x), random(1, 12, 30, 33)),
        (image(12, 8, 4, (3, 5), stride=(2, 3), dilation=(3, 2), padding=4),),
    ),
    "long rows": (lambda x, c: c(x), random(1, 6, 3, 1000), (image(6, 9, 3, (1, 25), padding=(0, 12)),)),
    "one column": (lambda x, c: c(x), random(1, 8, 22, 1), (image(8, 8, 4, (5, 1)),)),
    "many rows": (lambda x, c: c(x), random(1, 8, 300, 5), (image(8, 8, 2, padding=1),)),
    "single taps": (lambda x, c: c(x).relu(), random(2, 20, 7, 7), (image(20, 10, 5, 1),)),
    "sequence": (lambda x, c: c(x), random(2, 24, 100), (seeded(nn.Conv1d(24, 24, 9, padding=4, groups=8)),)),
    "bottleneck": (
        *(bottleneck, random(2, 32, 14, 14)),
        (seeded(nn.Conv2d(32, 16, 1)), image(padding=1), seeded(nn.Conv2d(16, 32, 1))),
    ),
    "swish between": (mixed, random(1, 16, 11, 8), (image(padding=1), image(16, 8, 8, stride=2))),
    "of rows": (of_rows, random(2, 24, 40), (seeded(nn.Linear(40, 50)), image(8, 8, 4, (5, 1), padding=(2, 0)))),
    "shuffled": (shuffled, random(1, 16, 10, 10), (image(16, 16, 4, 1), image(padding=1))),
}


@pytest.mark.parametrize("name", CASES)
def test_numbers_of_eager(name: str) -> None:
    function, x, layers = CASES[name]
    check(Network(function, *layers), x)


def test_other_sizes() -> None:
    shapes = (({0: torch.export.Dim("batch", max=8), 2: torch.export.Dim("time", min=40, max=400)},),)
    more = [(random(1, 24, 40),), (random(7, 24, 333),)]
    layer = seeded(nn.Conv1d(24, 24, 5, padding=2, groups=6))
    check(Network(lambda x, c: c(x).relu() + x, layer), random(2, 24, 100), shapes=shapes, more=more)


@settings(max_examples=examples(12), deadline=None)
@given(
    sizes=st.tuples(st.integers(1, 6), st.integers(1, 6), st.integers(2, 9)),
    image_size=st.tuples(st.integers(5, 40), st.integers(5, 40)),
    taps=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    stride=st.integers(1, 3),
    padding=st.integers(0, 3),
    batch=st.integers(1, 3),
)
def test_any_sizes(sizes, image_size, taps, stride, padding, batch) -> None:
    inputs, outputs, groups = sizes
    layer = image(inputs * groups, outputs * groups, groups, taps, stride=stride, padding=padding)
    check(Network(lambda x, c: c(x) * 0.5, layer), random(batch, inputs * groups, *image_size))


def test_no_kernel_of_onednn_without_avx512() -> None:
    """The numbers are right there, too, and the log has no convolution of groups."""
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2", "DNNL_VERBOSE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-n", "0", "-p", "no:cacheprovider", __file__]
    done = subprocess.run(
        [*command, "-k", "numbers_of_eager"], env=environment, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:]
    # torch's own oneDNN, which eager runs, has another log.
    ran = [line for line in done.stdout.splitlines() if "onednn_verbose,exec,cpu,convolution," in line]
    assert any(",mb2_ic32oc16" in line for line in ran), "the log has none of the others either"
    assert not [line for line in ran if line.split(",")[-2].startswith("g")]
