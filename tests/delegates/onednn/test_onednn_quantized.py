"""Static int8 on the target onednn: every quantized operator against eager and against PyTorch's quantized program."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from onednn_support import (
    STEP,
    Int8Conv,
    Int8Linear,
    Network,
    capture,
    load,
    lower,
    needs_onednn,
    random,
    rounded,
    sqnr_db,
    to_float,
    to_int8,
)
from torch import nn

from edgex.delegates.base import CapturedProgram, Quantizes
from edgex.delegates.onednn.delegate import OneDnnDelegate, OneDnnOptions
from edgex.delegates.recipes.recipes import RECIPE_NAMES, get_recipe
from edgex.errors import LoweringError

pytestmark = needs_onednn


IMAGE, TOKENS = random(2, 8, 6, 6), random(2, 5, 16)
conv = nn.Conv2d


def attention(x: torch.Tensor, projection: nn.Module, out: nn.Module) -> torch.Tensor:
    query, key, value = (part.reshape(2, 5, 2, 8).transpose(1, 2) for part in projection(x).chunk(3, -1))
    mixed = F.scaled_dot_product_attention(query, key, value)
    result: torch.Tensor = out(mixed.transpose(1, 2).flatten(2)) + x
    return result


def squeeze_excite(x: torch.Tensor, first: nn.Module, down: nn.Module, up: nn.Module, last: nn.Module) -> Any:
    x = F.hardswish(first(x))
    return last(x * F.hardsigmoid(up(F.relu(down(x.mean((2, 3), keepdim=True))))))


# Name -> (function of input and layers, input, layers).
CASES: dict[str, tuple] = {
    "conv_relu": (lambda x, a, b: b(F.relu(a(x))), IMAGE, conv(8, 16, 3, padding=1), conv(16, 8, 1, bias=False)),
    "conv_strided": (lambda x, a, b: b(a(x)), IMAGE, conv(8, 16, (1, 3), (2, 1), (0, 1)), conv(16, 8, 2, dilation=2)),
    "conv_groups": (lambda x, a, b: b(a(x)), IMAGE, conv(8, 16, 3, groups=2), conv(16, 16, 3, groups=16, padding=1)),
    "conv_sequence": (
        lambda x, a, b: b(F.relu(a(x))),
        random(2, 8, 11),
        *(nn.Conv1d(8, 8, 3, groups=8), nn.Conv1d(8, 8, 1)),
    ),
    "conv_relu6": (lambda x, a, b: b(F.relu6(a(x))), IMAGE, conv(8, 8, 3), conv(8, 8, 1)),
    "conv_hardswish": (lambda x, a, b: b(F.hardswish(a(x))), IMAGE, conv(8, 8, 3), conv(8, 8, 1)),
    "conv_silu": (lambda x, a, b: b(F.silu(a(x))), IMAGE, conv(8, 8, 3), conv(8, 8, 1)),
    "conv1d": (lambda x, a, b: b(F.relu(a(x))), random(2, 8, 11), nn.Conv1d(8, 8, 3), nn.Conv1d(8, 8, 1)),
    "conv_transpose": (
        lambda x, a, b: b(F.relu(a(x))),
        IMAGE,
        nn.ConvTranspose2d(8, 6, 3, 2, 1, output_padding=1),
        conv(6, 8, 1),
    ),
    "residual": (
        lambda x, a, b, c: c(F.relu(b(F.relu(a(x))) + x)),
        IMAGE,
        *(conv(8, 8, 3, padding=1), conv(8, 8, 1), conv(8, 8, 1)),
    ),
    "residual_first": (lambda x, a, b: b(x + a(x)), IMAGE, conv(8, 8, 1), conv(8, 8, 1)),
    "shortcut": (
        lambda x, a, b, c: c(F.relu(a(x) + b(x))),
        IMAGE,
        *(conv(8, 16, 3, 2, 1), conv(8, 16, 1, 2), conv(16, 8, 1)),
    ),
    # Where oneDNN loses zero points if it is asked to move and to dequantize: 7 x 7 places, steps of 64 channels.
    "shortcut_of_49": (
        lambda x, a, b, c: c(F.relu(a(x) + b(x))),
        random(1, 64, 7, 7),
        *(conv(64, 64, 3, 1, 1), conv(64, 64, 1), conv(64, 8, 1)),
    ),
    "piece_of_49": (
        lambda x, a, b, c: b(((y := x + a(x))[:, 32:] + 1).flatten(2)) + c(y).flatten(2)[..., :8],
        random(1, 64, 7, 7),
        *(conv(64, 64, 1), nn.Linear(49, 8), conv(64, 32, 1)),
    ),
    "sum_of_a_sum": (lambda x, a, b: b(a(x) + x + 1), IMAGE, conv(8, 8, 1), conv(8, 8, 1)),
    "broadcast_sum": (
        lambda x, a, b: b(x + a(x.mean((2, 3), keepdim=True))),
        IMAGE,
        *(conv(8, 8, 1), conv(8, 8, 1)),
    ),
    "multiply": (squeeze_excite, IMAGE, conv(8, 8, 1), conv(8, 4, 1), conv(4, 8, 1), conv(8, 8, 1)),
    "concatenate": (
        lambda x, a, b, c: c(torch.cat([F.relu(a(x)), b(x)], 1)),
        IMAGE,
        *(conv(8, 8, 1), conv(8, 8, 3, padding=1), conv(16, 8, 1)),
    ),
    "max_pool": (lambda x, a, b: b(F.max_pool2d(F.relu(a(x)), 2)), IMAGE, conv(8, 8, 1), conv(8, 8, 1)),
    "avg_pool": (lambda x, a, b: b(F.avg_pool2d(a(x), 2)), IMAGE, conv(8, 8, 1), conv(8, 8, 1)),
    "global_pool": (
        lambda x, a, b: b(F.adaptive_avg_pool2d(a(x), 1).flatten(1)),
        IMAGE,
        conv(8, 16, 3),
        nn.Linear(16, 10),
    ),
    "resize": (lambda x, a, b: b(F.interpolate(a(x), scale_factor=2)), IMAGE, conv(8, 8, 1), conv(8, 8, 1)),
    "views": (
        lambda x, a, b, c: c(b(a(x)[:, 2:6, ::2].permute(0, 2, 3, 1).flatten(1, 2))).transpose(1, 2),
        IMAGE,
        *(conv(8, 8, 1), nn.Linear(4, 8), nn.Linear(8, 4)),
    ),
    "shuffle": (
        lambda x, a, b: b(a(x).unflatten(1, (2, 4)).transpose(1, 2).flatten(1, 2)),
        IMAGE,
        *(conv(8, 8, 1), conv(8, 8, 1)),
    ),
    "linear": (lambda x, a, b: b(F.relu(a(x))), TOKENS, nn.Linear(16, 24), nn.Linear(24, 8, bias=False)),
    "linear_gelu": (lambda x, a, b: b(F.gelu(a(x))), TOKENS, nn.Linear(16, 24), nn.Linear(24, 8)),
    "linear_gelu_tanh": (
        lambda x, a, b: b(F.gelu(a(x), approximate="tanh")),
        TOKENS,
        *(nn.Linear(16, 24), nn.Linear(24, 8)),
    ),
    "norm_residual": (
        lambda x, n, a, b, m: m(b(F.gelu(a(n(x)))) + n(x)),
        TOKENS,
        *(nn.LayerNorm(16), nn.Linear(16, 24), nn.Linear(24, 16), nn.LayerNorm(16)),
    ),
    "softmax": (lambda x, a, b: b(a(x).softmax(-1)), TOKENS, nn.Linear(16, 16), nn.Linear(16, 8)),
    "attention": (attention, TOKENS, nn.Linear(16, 48), nn.Linear(16, 16)),
    "read_twice": (lambda x, a, b: (y := F.relu(a(x)), b(y)), IMAGE, conv(8, 8, 1), conv(8, 8, 1)),
}


class Together(nn.Module):
    """Cases as one network, so that they are quantized and lowered once."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self.cases = [Network(CASES[name][0], *CASES[name][2:]) for name in names]
        self.layers = nn.ModuleList(self.cases)

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        outputs = [case(x) for case, x in zip(self.cases, inputs, strict=True)]
        return tuple(item for output in outputs for item in (output if isinstance(output, tuple) else (output,)))


def quantize(module: nn.Module, inputs: tuple[torch.Tensor, ...], shapes: Any = None) -> tuple[Any, CapturedProgram]:
    """The program as PT2E makes it, calibrated on its inputs; and what the pipeline would hand to the delegate."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    from edgex.delegates.recipes.quantizers import SymmetricInt8

    quantizer = OneDnnDelegate().quantizer("int8")
    assert isinstance(quantizer, SymmetricInt8)
    program = capture(module, inputs, shapes)
    prepared = prepare_pt2e(program.exported.module(), quantizer.make("minmax", lambda _node: True))
    with torch.no_grad():
        prepared(*inputs)
    converted = convert_pt2e(prepared)
    exported = torch.export.export(converted, inputs, dynamic_shapes=shapes["inputs"] if shapes else None)
    return converted, dataclasses.replace(program, exported=exported, recipe=get_recipe("int8"))


# The different partitions; the others have another activation, or another size.
ALWAYS = (
    *("conv_relu", "conv_groups", "residual", "multiply", "concatenate", "max_pool", "views", "norm_residual"),
    *("attention", "read_twice", "conv_sequence", "shortcut", "shortcut_of_49", "piece_of_49"),
)
REST = tuple(name for name in CASES if name not in ALWAYS)


def run_cases(names: Sequence[str], trace: Path) -> dict[str, tuple]:
    """For each case eager's outputs, those of PyTorch's quantized program, and oneDNN's; events go into a file."""
    torch.manual_seed(0)
    module = Together(names).eval()
    inputs = tuple(CASES[name][1].clone() for name in names)
    converted, program = quantize(module, inputs)
    lowered = lower(program)
    assert not lowered.plan.fallbacks, lowered.plan.fallbacks
    assert lowered.plan.delegate_calls == 1
    loaded = load(lowered, trace=True)
    with torch.no_grad():
        outputs = [list(module(*inputs)), list(converted(*inputs)), loaded(*inputs)]
    loaded.runner.write_trace(trace)
    loaded.runner.close()
    counts = [2 if name == "read_twice" else 1 for name in names]
    return {
        name: tuple([outputs[i].pop(0) for _ in range(count)] for i in range(3))
        for name, count in zip(names, counts, strict=True)
    }


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("quantized") / "trace.etdp"


@pytest.fixture(scope="module")
def results(trace: Path) -> dict[str, tuple]:
    return run_cases(ALWAYS, trace)


def check_accuracy(eager: torch.Tensor, simulated: torch.Tensor, found: torch.Tensor) -> None:
    """Within 3 dB of PyTorch's quantized program."""
    assert found.shape == eager.shape
    expected = sqnr_db(eager, simulated)
    assert sqnr_db(eager, found) > max(20, expected - 3), (sqnr_db(eager, found), expected)
    # Where digits are kept that PyTorch rounds away, the two differ by PyTorch's error, not by more.
    assert sqnr_db(simulated, found) > expected - 3


@pytest.mark.parametrize("name", ALWAYS)
def test_as_exact_as_pytorch(name: str, results: dict[str, tuple]) -> None:
    for eager, simulated, found in zip(*results[name], strict=True):
        check_accuracy(eager, simulated, found)


@pytest.mark.slow
def test_the_other_operators_as_exact_as_pytorch(tmp_path: Path) -> None:
    for name, outputs in run_cases(REST, tmp_path / "trace.etdp").items():
        for eager, simulated, found in zip(*outputs, strict=True):
            try:
                check_accuracy(eager, simulated, found)
            except AssertionError as error:
                raise AssertionError(name) from error


def test_integers_stay_between_operators(results: dict[str, tuple], trace: Path) -> None:
    """Partitions with int8 kernels, from integers to integers; no quantize or dequantize apart that is not needed."""
    assert results
    content = trace.read_bytes()
    for partition in (
        b"dequantize+convolution+relu+quantize",
        b"dequantize+convolution+clip+hardswish",
        b"dequantize+convolution+clip+add+relu+quantize",
        b"dequantize+linear+clip+gelu+quantize",
        b"dequantize+linear+clip",
        b"dequantize+cat+quantize",
    ):
        assert b"\0" + partition + b"\0" in content, partition
    assert b"\0convolution" not in content and b"\0linear" not in content


def by_hand(module: nn.Module, *inputs: torch.Tensor, shapes: Any = None) -> CapturedProgram:
    return dataclasses.replace(capture(module, inputs, shapes), recipe=get_recipe("int8"))


def check_by_hand(module: nn.Module, inputs: torch.Tensor, least_db: float, runs: int = 1) -> None:
    """Every output of a program whose conversions are written by hand, in each of some runs, beside eager's."""
    with torch.no_grad():
        wanted = module(inputs)
    loaded = load(lower(by_hand(module, inputs)))
    found = [loaded(inputs) for _ in range(runs)]
    loaded.runner.close()
    for outputs in found:
        for one, other in zip(wanted, outputs, strict=True):
            assert sqnr_db(one, other) > least_db, (module, sqnr_db(one, other))


def test_integers_cross_between_regions_and_copies_keep_them() -> None:
    """What another region reads, and what lies in no strides; zero points at both ends of the range."""
    first, second = Int8Linear(8, 8), Int8Linear(8, 6)

    def network(x: torch.Tensor, a: nn.Module, b: nn.Module) -> tuple[torch.Tensor, ...]:
        integers = to_int8(a(rounded(x)))
        order = to_float(integers).cumsum(1)  # stays outside, so that there are regions on both sides of it
        later = b(to_float(integers) * 1.0 + rounded(order * 0.1))
        turned = rounded(a(rounded(x, 127)), -128).transpose(1, 2).reshape(2, 8, 5).transpose(1, 2)
        return b(rounded(later[..., :1] * x, -128)), b(to_float(to_int8(turned, -128), -128)), b(to_float(integers))

    inputs = random(2, 5, 8)
    module = Network(network, first, second)
    with torch.no_grad():
        wanted = module(inputs)
    program = by_hand(module, inputs)
    lowered = lower(program)
    assert lowered.plan.delegate_calls > 1
    loaded = load(lowered)
    found = loaded(inputs)
    loaded.runner.close()
    for one, other in zip(wanted, found, strict=True):
        assert sqnr_db(one, other) > 30, sqnr_db(one, other)


def test_zero_points_are_kept_where_numbers_move(channels: int = 64) -> None:
    """oneDNN forgets them in a conversion that transposes 49 times 64: tokens as an image, and an image as tokens."""
    conv = Int8Conv(channels)

    def image(x: torch.Tensor, a: nn.Module) -> tuple[torch.Tensor, ...]:
        y = to_int8(rounded(x).view(1, channels, 7, 7))
        return torch.sigmoid(to_float(y)), a(to_float(y))

    def tokens(x: torch.Tensor, a: nn.Module) -> tuple[torch.Tensor, ...]:
        y = to_int8(rounded(rounded(x).transpose(1, 2)).view(1, channels, 7, 7))
        return to_float(y) * 1.5, a(to_float(y))

    check_by_hand(Network(image, conv), random(1, channels, 49), 25)
    check_by_hand(Network(tokens, conv), random(1, 49, channels), 25)


@pytest.mark.parametrize("zero", [-128, 0, 127])
@pytest.mark.parametrize("shape", [(1, 3, 31, 37), (2, 5, 20, 20), (1, 2, 9, 9), (3, 64, 23, 23), (1, 7, 1, 300)])
def test_images_are_quantized_by_channels(shape: tuple[int, ...], zero: int) -> None:
    """Every count of channels that is left, places in several blocks, numbers beyond the range or between steps."""
    channels = shape[1]
    inputs = random(*shape)
    # Halves of a step, which go to the even number, and what saturates.
    inputs.view(-1)[::7] = (inputs.view(-1)[::7] / STEP).round() * STEP + STEP / 2
    inputs.view(-1)[::11] *= 1e4
    module = Network(lambda x, a: a(rounded(x, zero)), Int8Conv(channels))
    with torch.no_grad():
        wanted = module(inputs)
    loaded = load(lower(by_hand(module, inputs)))
    (found,) = loaded(inputs)
    loaded.runner.close()
    # Of halves, one rounding of the quotient or another decides; all others are the same.
    assert sqnr_db(wanted, found) > 30, sqnr_db(wanted, found)
    assert (wanted - found).abs().median() < 1e-4


def test_sizes_that_differ_and_weights_of_a_byte(tmp_path: Path) -> None:
    module = Network(lambda x, a, b: b(rounded(F.relu(a(rounded(x))))), Int8Linear(8, 4096), Int8Linear(4096, 8))
    shapes = {"inputs": ({0: torch.export.Dim("batch", min=1, max=9), 1: torch.export.Dim("length", min=2, max=64)},)}
    lowered = lower(by_hand(module, random(2, 5, 8), shapes=shapes))
    lowered.write(tmp_path)
    # A scale and a zero point for each of 4104 channels beside them.
    channels = 4096 + 8
    assert 2 * 8 * 4096 < (tmp_path / "model.pte").stat().st_size < 2 * 8 * 4096 + 12 * channels + 8192
    loaded = load(lowered)
    for batch, length in ((2, 5), (1, 64), (9, 2), (2, 5)):
        x = random(batch, length, 8, seed=length)
        with torch.no_grad():
            assert sqnr_db(module(x), loaded(x)[0]) > 30
    loaded.runner.close()


def test_other_integers_are_refused() -> None:
    """Not computed wrongly: oneDNN's quantize uses all of int8, and its products signed weights without zero points."""
    layer, quantize = Int8Linear(16, 8, zero_point=3), torch.ops.quantized_decomposed.quantize_per_tensor
    with pytest.raises(LoweringError) as caught:
        lower(by_hand(Network(lambda x, a: a(x), layer), TOKENS))
    assert "zero points" in str(caught.value.why)
    narrow = Network(lambda x: (quantize(x, 1, 0, -127, 127, torch.int8) * 1, quantize(x, 1, 0, 0, 9, torch.uint8) * 1))
    fallbacks = OneDnnDelegate().plan(by_hand(narrow, TOKENS), OneDnnOptions()).fallbacks
    assert [item.count for item in fallbacks if "quantize_per_tensor" in item.op and item.fatal] == [2]


def test_recipes() -> None:
    delegate = OneDnnDelegate()
    assert isinstance(delegate, Quantizes)
    for name in RECIPE_NAMES:
        assert (delegate.quantizer(name) is not None) == (name in delegate.recipes)
        if name not in delegate.recipes:
            assert name in delegate.recipe_refusal(name) and "int8 " in delegate.recipe_refusal(name)


def test_bf16_and_int8_do_not_go_together() -> None:
    program = capture(nn.Linear(8, 8), (random(1, 8),), precision="bf16")
    with pytest.raises(LoweringError, match="does not run int8 with bf16"):
        OneDnnDelegate().lower(dataclasses.replace(program, recipe=get_recipe("int8")), OneDnnOptions(True))


@pytest.mark.parametrize("lies", ["rows", "channels"])
def test_bytes_of_every_other_column(lies: str) -> None:
    """Of 7 columns 4 are read: oneDNN takes their rows to overlap, and describes no such memory."""
    linear = Int8Linear(16, 8)

    def network(x: torch.Tensor, a: nn.Module) -> tuple[torch.Tensor, ...]:
        y = rounded(x if lies == "rows" else x.permute(0, 2, 3, 1))
        y = rounded(rounded(y[:, :, ::2]).flatten(1, 2))
        return y * 1.5, a(y)

    inputs = random(1, 7, 7, 16) if lies == "rows" else random(1, 16, 7, 7)
    check_by_hand(Network(network, linear), inputs, 25)


def test_a_layer_of_a_quantized_table() -> None:
    """Positions: oneDNN gives wrong numbers where all that a product reads is declared constant."""
    linear, table = Int8Linear(3, 4), to_int8(random(1, 49, 3) * 3)

    def network(x: torch.Tensor, a: nn.Module) -> tuple[torch.Tensor, ...]:
        return (a(to_float(table)).softmax(-1) @ x,)

    check_by_hand(Network(network, linear), random(1, 4, 8), 25, runs=2)
