"""Partitions of small tensors, which the backend computes by itself: odd sizes, all strides, NaN and infinity."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from onednn_support import HAS_AVX512, Network, capture, check, load, lower, needs_onednn, random, sqnr_db
from torch import nn

pytestmark = needs_onednn

# What a vector of 16 leaves over, and what a tile of 6 rows does.
SIZES = (1, 2, 7, 16, 17, 33)


def linear(inputs: int, outputs: int, *, bias: bool = True) -> nn.Linear:
    made = nn.Linear(inputs, outputs, bias=bias)
    with torch.no_grad():
        for seed, parameter in enumerate(made.parameters()):
            parameter.copy_(random(*parameter.shape, seed=seed))
    return made


def test_layers_of_all_sizes() -> None:
    sizes = list(itertools.product((1, 5, 6, 13), SIZES, SIZES))[::3]
    layers = [linear(inputs, outputs, bias=number % 2 == 0) for number, (_, inputs, outputs) in enumerate(sizes)]
    x = random(13, 33)

    def run(x: torch.Tensor, *layers: nn.Module) -> list[torch.Tensor]:
        return [layer(x[:rows, :inputs]) for (rows, inputs, _), layer in zip(sizes, layers, strict=True)]

    check(Network(run, *layers), x)


def test_products_of_all_sizes_and_strides() -> None:
    def run(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        made = []
        for rows, depth, columns in itertools.product((1, 2, 7), (1, 9, 16), (1, 16, 19)):
            left, right = x[..., :rows, :depth], y[..., :depth, :columns]
            made += [left @ right, left @ right.mT.contiguous().mT, left.mT.contiguous().mT @ right, left @ right[0, 0]]
            made += [(left @ right).permute(0, 2, 1, 3).flatten(2) * 2, left[:, :1] @ right, right[0, 0].mT @ left.mT]
        return made

    check(Network(run), random(2, 3, 7, 16), random(2, 3, 16, 19, seed=1))


def test_heads_read_where_they_lie() -> None:
    def run(x: torch.Tensor, layer: nn.Module, out: nn.Module) -> torch.Tensor:
        query, key, value = layer(x).unflatten(-1, (3, 4, 6)).permute(2, 0, 3, 1, 4)
        scores = (query @ key.mT * 0.3).sigmoid()
        return out((scores @ value).transpose(1, 2).flatten(2)) + x

    check(Network(run, linear(24, 72), linear(24, 24)), random(2, 5, 24))


ROWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "norm_of_permuted": lambda x: F.layer_norm(x.transpose(0, 1), x.shape[-1:]),
    "norm_of_columns": lambda x: F.layer_norm(x.transpose(1, 2), x.shape[1:2]),
    "mean": lambda x: x.mean(-1),
    "mean_of_two": lambda x: x.mean((1, 2)),
    "mean_of_columns": lambda x: x.mean(1, keepdim=True),
    "sum_of_all": lambda x: x.sum(),
    "rms": lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6),
}


@pytest.mark.parametrize("size", [2, 7, 16, 40, 67])
def test_rows_of_all_sizes(size: int) -> None:
    weight, bias = random(size, seed=3), random(size, seed=4)

    def run(x: torch.Tensor) -> list[torch.Tensor]:
        return [*(function(x) for function in ROWS.values()), F.layer_norm(x, (size,), weight, bias, 1e-3)]

    check(Network(run), random(3, 5, size) + 0.5)


def test_a_norm_far_from_zero() -> None:
    """The mean is taken off before squares are summed."""
    x = random(4, 24) + 1e4
    with load(lower(capture(Network(ROWS["norm"]), [x]))) as loaded:
        assert sqnr_db(ROWS["norm"](x.double()), loaded(x)[0]) > 60


FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    **{"sigmoid": torch.sigmoid, "tanh": torch.tanh, "gelu": F.gelu, "silu": F.silu, "exp": torch.exp},
    **{"tanh_gelu": lambda x: F.gelu(x, approximate="tanh"), "leaky": lambda x: F.leaky_relu(x, 0.3)},
    **{"hardswish": F.hardswish, "relu": F.relu, "clamp": lambda x: x.clamp(-0.5, 0.7), "abs": torch.abs},
    "root": lambda x: x.abs().sqrt(),
}


@pytest.mark.parametrize("count", [1, 15, 37])
def test_functions_over_their_whole_range(count: int) -> None:
    """Relative to each result, or where it is below 1 to 1; beyond what a float32 holds, the same infinities."""
    network = Network(lambda x: tuple(function(x) for function in FUNCTIONS.values()))
    inputs = [
        torch.linspace(-scale, scale, count) + offset for scale in (1e-4, 0.6, 4, 95, 1e30) for offset in (0, 1e-3)
    ]
    with load(lower(capture(network, inputs[:1]))) as loaded:
        for x in inputs:
            for name, wanted, found in zip(FUNCTIONS, network(x), loaded(x), strict=True):
                assert torch.equal(wanted.isinf(), found.isinf()), f"{name} of {x}: {found}"
                error = (wanted - found).abs() / wanted.abs().clamp(min=1)
                assert error[wanted.isfinite()].max() < 5e-6, f"{name} of {x}: {found} instead of {wanted}"


def test_tanh_near_zero_keeps_its_digits() -> None:
    x = torch.logspace(-12, 0, 40)
    with load(lower(capture(Network(torch.tanh), [x]))) as loaded:
        assert torch.allclose(loaded(x)[0], x.tanh(), rtol=1e-6, atol=0)


def test_special_values_stay_in_their_row() -> None:
    layer = linear(8, 19)

    def run(x: torch.Tensor, layer: nn.Module) -> tuple[torch.Tensor, ...]:
        return layer(x), F.layer_norm(x, (8,)), x.mean(-1), x @ x.mT

    network = Network(run, layer)
    with load(lower(capture(network, [random(7, 8)]))) as loaded:
        for content in (float("nan"), float("inf"), float("-inf")):
            x = random(7, 8)
            x[3, 5] = content
            for wanted, found in zip(network(x), loaded(x), strict=True):
                assert torch.equal(wanted.isnan(), found.isnan()), f"{content}: {found} instead of {wanted}"
                assert torch.equal(wanted.isinf(), found.isinf()), f"{content}: {found} instead of {wanted}"


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_one_program_small_and_large(precision: str) -> None:
    """Sizes decide when they are compiled: the same program runs here, and with oneDNN's kernels."""

    def run(x: torch.Tensor, up: nn.Module, down: nn.Module, norm: nn.Module) -> torch.Tensor:
        return x + down(F.gelu(up(norm(x)))) * x.mean(-1, keepdim=True).sigmoid()

    shapes = {"inputs": ({0: torch.export.Dim("rows", min=2, max=4000)},)}
    more = [(random(rows, 24, seed=rows),) for rows in (2, 3000, 5)]
    network = Network(run, linear(24, 40), linear(40, 24), nn.LayerNorm(24))
    check(network, random(9, 24), precision=precision, shapes=shapes, more=more)


@pytest.mark.parametrize("size", [1, 3, 8, 16, 21])
def test_repeated_rows_of_two_tensors(size: int) -> None:
    """The outer products of selective state spaces, with rows as short as their states."""

    def run(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        wide, tall = y[:, None, :, :], x[:, :, :, None]
        state = y[0, 0]
        return wide * tall, tall - wide, tall / (wide.abs() + 1), torch.exp(state[None, :, None] * x[0, :, :1, None])

    check(Network(run), random(2, 6, 5), random(2, 5, size, seed=1))


def gated(x: torch.Tensor, layer: nn.Module) -> torch.Tensor:
    """An operand that is read again after another one."""
    made = layer(x)
    return made * made.sigmoid() + x[..., :1]


LAYERS: dict[str, Callable[..., torch.Tensor]] = {
    "alone": lambda x, layer: layer(x),
    "activated": lambda x, layer: F.gelu(layer(x)),
    "gated": gated,
    "added": lambda x, layer: F.relu(layer(x) + x.mean(-1, keepdim=True)) * 0.5 - layer(x),
    "permuted": lambda x, layer: layer(x.mT.contiguous().mT).mT * 2,
    "of_one_row": lambda x, layer: layer(x[:, :1].clamp(-1, 1)),
    "stacked": lambda x, layer: layer(x.unflatten(1, (-1, 2)).transpose(1, 2)).tanh(),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_of_many_rows(name: str) -> None:
    """Without AVX-512 they run here whatever their size; the widths are whole panels, whole registers and neither."""
    widths = (64, 80, 130)
    layers = [linear(inputs, outputs) for inputs, outputs in itertools.product((96, 200), widths)]

    def run(x: torch.Tensor, *layers: nn.Module) -> list[torch.Tensor]:
        return [LAYERS[name](x[..., : layer.in_features], layer) for layer in layers]

    check(Network(run, *layers), random(2, 50, 200))


def test_equal_weights_of_other_shapes() -> None:
    """The plan has their bytes once, and each layer reads them in its own order."""
    up, down = linear(96, 160), linear(160, 96)
    assert torch.equal(up.weight.flatten(), down.weight.flatten())
    check(Network(lambda x, up, down: down(F.relu(up(x))) + x, up, down), random(70, 96))


def test_layers_of_any_number_of_rows() -> None:
    shapes = {"inputs": ({0: torch.export.Dim("rows", min=2, max=900)},)}
    more = [(random(rows, 96, seed=rows),) for rows in (2, 600, 7)]
    run = LAYERS["activated"]
    check(Network(lambda x, layer: run(x, layer), linear(96, 200)), random(30, 96), shapes=shapes, more=more)


@pytest.mark.parametrize("size", [3, 36, 700])
def test_many_sums_of_rows(size: int) -> None:
    def run(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        mean = x.mean(-1, keepdim=True)
        spread = (x - mean).square().mean(-1, keepdim=True)
        return (x - mean) / (spread + 1e-6).sqrt(), x.sum((-2, -1)), x.sum(-1).exp()

    check(Network(run), random(3, 300, size) * 0.3)


@pytest.mark.skipif(not HAS_AVX512, reason="nothing of this instruction set runs here: the tests ran without AVX-512")
def test_without_avx512() -> None:
    """What runs here on processors for which oneDNN has fewer kernels."""
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2"}
    tests = "(many_rows or other_shapes or any_number or small_and_large) and not bf16"
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", __file__, "-k", tests]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
