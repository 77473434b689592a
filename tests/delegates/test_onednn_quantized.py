"""Static int8 on the target onednn: every quantized operator against eager and against PyTorch's quantized program."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from onednn_support import Network, capture, load, lower, needs_onednn, sqnr_db
from torch import nn

from edgex.delegates.base import CapturedProgram
from edgex.delegates.onednn.delegate import OneDnnDelegate
from edgex.delegates.recipes import get_recipe

pytestmark = needs_onednn


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


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
    "read_twice": (lambda x, a, b: (F.relu(a(x)), b(F.relu(a(x)))), IMAGE, conv(8, 8, 1), conv(8, 8, 1)),
}


class Together(nn.Module):
    """All cases as one network, so that they are quantized and lowered once."""

    def __init__(self) -> None:
        super().__init__()
        self.cases = [Network(function, *layers) for function, _, *layers in CASES.values()]
        self.layers = nn.ModuleList(self.cases)

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        outputs = [case(x) for case, x in zip(self.cases, inputs, strict=True)]
        return tuple(item for output in outputs for item in (output if isinstance(output, tuple) else (output,)))


def quantize(module: nn.Module, inputs: tuple[torch.Tensor, ...], shapes: Any = None) -> tuple[Any, CapturedProgram]:
    """The program as PT2E makes it, calibrated on its inputs; and what the pipeline would hand to the delegate."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    from edgex.delegates.quantizers import SymmetricInt8

    quantizer = OneDnnDelegate().quantizer("int8")
    assert isinstance(quantizer, SymmetricInt8)
    program = capture(module, inputs, shapes)
    prepared = prepare_pt2e(program.exported.module(), quantizer.make("minmax", lambda _node: True))
    with torch.no_grad():
        prepared(*inputs)
    converted = convert_pt2e(prepared)
    exported = torch.export.export(converted, inputs, dynamic_shapes=shapes["inputs"] if shapes else None)
    return converted, dataclasses.replace(program, exported=exported, recipe=get_recipe("int8"))


@pytest.fixture(scope="module")
def results() -> dict[str, tuple]:
    """For each case eager's outputs, those of PyTorch's quantized program, and oneDNN's."""
    torch.manual_seed(0)
    module = Together().eval()
    inputs = tuple(x.clone() for _, x, *_ in CASES.values())
    converted, program = quantize(module, inputs)
    lowered = lower(program)
    assert not lowered.plan.fallbacks, lowered.plan.fallbacks
    assert lowered.plan.delegate_calls == 1
    loaded = load(lowered)
    with torch.no_grad():
        outputs = [list(module(*inputs)), list(converted(*inputs)), loaded(*inputs)]
    loaded.runner.close()
    counts = [2 if name == "read_twice" else 1 for name in CASES]
    return {
        name: tuple([outputs[i].pop(0) for _ in range(count)] for i in range(3))
        for name, count in zip(CASES, counts, strict=True)
    }


@pytest.mark.parametrize("name", CASES)
def test_as_exact_as_pytorch(name: str, results: dict[str, tuple]) -> None:
    for eager, simulated, found in zip(*results[name], strict=True):
        assert found.shape == eager.shape
        expected = sqnr_db(eager, simulated)
        assert sqnr_db(eager, found) > max(20, expected - 3), (sqnr_db(eager, found), expected)
        # Where digits are kept that PyTorch rounds away, the two differ by PyTorch's error, not by more.
        assert sqnr_db(simulated, found) > expected - 3
