"""Every operator of the target onednn against eager, in both precisions; and what it must leave, with the reason."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
import torch.nn.functional as F
from onednn_cases import CASES, FP32_CASES, IMAGE, TOKENS, attention_mask, attention_masked
from onednn_support import Network, capture, check, compare, load, lower, needs_onednn, random
from torch import nn

from edgex.delegates.onednn.delegate import OneDnnDelegate, OneDnnOptions

pytestmark = needs_onednn


class Together(nn.Module):
    """All cases as one network, so that they are lowered once; outputs are those of the cases in order."""

    def __init__(self, cases: dict[str, tuple]) -> None:
        super().__init__()
        self.cases = [Network(function, *(made[0] if made else ())) for function, _, *made in cases.values()]
        self.layers = nn.ModuleList(self.cases)
        self.counts = [len(inputs) for _, inputs, *_ in cases.values()]

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(output for outputs in self.run_each(inputs) for output in outputs)

    def run_each(self, inputs: Sequence[torch.Tensor]) -> list[tuple[torch.Tensor, ...]]:
        """The outputs case by case."""
        left, found = list(inputs), []
        for case, count in zip(self.cases, self.counts, strict=True):
            outputs = case(*left[:count])
            del left[:count]
            found.append(outputs if isinstance(outputs, tuple) else (outputs,))
        return found


@pytest.fixture(scope="module", params=["fp32", "bf16"])
def results(request: pytest.FixtureRequest) -> dict[str, tuple]:
    """For each case the precision, eager's outputs and oneDNN's."""
    precision = request.param
    cases = {**CASES, **FP32_CASES} if precision == "fp32" else CASES
    network = Together(cases).eval()
    inputs = [value.clone() for _, values, *_ in cases.values() for value in values]
    with torch.no_grad():
        wanted = network.run_each(inputs)
    lowered = lower(capture(network, inputs, precision=precision))
    assert not lowered.plan.fallbacks
    loaded = load(lowered)
    outputs = loaded(*inputs)
    loaded.runner.close()
    found = {}
    for name, expected in zip(cases, wanted, strict=True):
        found[name] = (precision, expected, outputs[: len(expected)])
        del outputs[: len(expected)]
    return found


@pytest.mark.parametrize("name", [*CASES, *FP32_CASES])
def test_against_eager(name: str, results: dict[str, tuple]) -> None:
    if name not in results:
        assert name in FP32_CASES
        return
    precision, wanted, found = results[name]
    compare(wanted, found, precision, label=name)


# Name -> (function, inputs, code, word in the reason, layers).
REFUSED: dict[str, tuple] = {
    "elu_scale": (lambda x: torch.ops.aten.elu(x, 1.0, 1.0, 1.05), (IMAGE,), "attribute", "input_scale=1.05"),
    "power": (lambda x: x.abs() ** 2.5, (IMAGE,), "attribute", "not 2.5"),
    "softplus": (lambda x: F.softplus(x, threshold=2), (IMAGE,), "not_in_delegate", "aten"),
    "avg_pool_ceil": (lambda x: F.avg_pool2d(x, 2, ceil_mode=True), (random(1, 2, 7, 7),), "attribute", "ceil_mode"),
    "avg_pool_divisor": (lambda x: F.avg_pool2d(x, 2, divisor_override=3), (IMAGE,), "attribute", "divisor_override=3"),
    "max_pool_indices": (lambda x: F.max_pool2d(x, 2, return_indices=True), (IMAGE,), "attribute", "indices"),
    "align_corners": (
        lambda x: F.interpolate(x, size=(9, 9), mode="bilinear", align_corners=True),
        (IMAGE,),
        "attribute",
        "align_corners",
    ),
    "nearest_down": (lambda x: F.interpolate(x, size=(4, 4)), (IMAGE,), "attribute", "multiple"),
    "integers": (lambda x: x + 1, (torch.arange(4),), "dtype", "int64"),
    "layer_norm_two": (lambda x: F.layer_norm(x, (5, 8)), (TOKENS,), "attribute", "last dimension"),
    "cumsum": (lambda x: x.cumsum(1), (TOKENS,), "not_in_delegate", "cumsum"),
    "view_alone": (lambda x: x.permute(2, 0, 1), (TOKENS,), "attribute", "another way"),
    "rounding_mode": (lambda x: torch.div(x, 2.0, rounding_mode="floor"), (TOKENS,), "attribute", "rounding_mode"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_left_has_its_reason(name: str) -> None:
    function, inputs, code, word = REFUSED[name]
    plan = OneDnnDelegate().plan(capture(Network(function), inputs), OneDnnOptions())
    assert any(item.code == code and word in item.reason for item in plan.fallbacks), plan.fallbacks


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_boolean_mask_is_made_additive_inside(precision: str) -> None:
    mask = torch.isfinite(attention_mask())
    # The choice between two numbers stays in the region, whatever the number of layers.
    check(Network(lambda x, m: attention_masked(x, m, m, m)), TOKENS, mask, precision=precision, left=0)


def test_attention_is_an_output_itself() -> None:
    heads = random(1, 2, 4, 8)
    check(Network(lambda x: F.scaled_dot_product_attention(x, x, x)), heads)


def test_attention_beside_a_write_in_place() -> None:
    heads = random(1, 2, 4, 8)
    check(Network(lambda x: F.scaled_dot_product_attention(x, x, (x + 1).mul_(2)) * 2), heads)


def test_a_mask_of_open_length() -> None:
    length = torch.export.Dim("length", min=2, max=16)

    def run(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        query = x.unflatten(-1, (2, 4)).transpose(1, 2)
        return F.scaled_dot_product_attention(query, query, query, attn_mask=mask).transpose(1, 2).flatten(2)

    def example(size: int) -> tuple[torch.Tensor, torch.Tensor]:
        mask = torch.zeros(1, 1, 1, size)
        mask[..., size // 2 :] = float("-inf")
        return random(1, size, 8), mask

    shapes = {"inputs": ({1: length}, {3: length})}
    lowered = check(Network(run), *example(5), shapes=shapes, left=1, more=[example(2), example(9)])
    assert lowered.plan.delegate_calls == 1


def joined(x: torch.Tensor, one: nn.Module, other: nn.Module, last: nn.Module) -> tuple[torch.Tensor, ...]:
    a, b = one(x), other(x)
    whole = torch.cat([a, b, a], 1)
    return last(whole), whole[:, 1:].relu(), torch.cat([a, other(x)[:, :1].expand_as(a)], 2).permute(0, 2, 3, 1) * 2


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("side", [7, 40])
@pytest.mark.parametrize(("first", "second"), [(4, 8), (1, 2), (5, 17), (33, 3)])
def test_joined_images(first: int, second: int, side: int, precision: str) -> None:
    """Rows of channels of any length, by one thread and by several, and joined along another dimension."""
    torch.manual_seed(first)
    network = Network(joined, nn.Conv2d(3, first, 3), nn.Conv2d(3, second, 3), nn.Conv2d(2 * first + second, 4, 1))
    x = random(2, 3, side, side)
    with torch.no_grad():
        wanted = network(x)
    with load(lower(capture(network, [x], precision=precision))) as loaded:
        compare(wanted, loaded(x), precision)


def test_norms_of_more_dimensions_than_onednn_normalises() -> None:
    """It says that it has no kernel only when the program is loaded."""

    def windows(x: torch.Tensor, norm: nn.Module, layer: nn.Module) -> tuple[torch.Tensor, ...]:
        return norm(x.transpose(1, 4)) + x.transpose(1, 4), norm(x).relu(), layer(norm(x.mT.softmax(2).mT))

    check(Network(windows, nn.LayerNorm(8), nn.Linear(8, 3)), random(1, 2, 3, 2, 3, 4, 8))
