"""Every operator of the target onednn against eager, in both precisions; and what it must leave, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
import torch.nn.functional as F
from onednn_support import Network, capture, check, compare, load, lower, needs_onednn
from torch import nn

from edgex.delegates.onednn.delegate import OneDnnDelegate, OneDnnOptions

pytestmark = needs_onednn


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def layers(*made: nn.Module) -> tuple[nn.Module, ...]:
    generator = torch.Generator().manual_seed(1)
    for layer in made:
        for value in layer.state_dict().values():
            if value.is_floating_point():
                value.copy_(torch.rand(value.shape, generator=generator) + 0.1)
    return made


IMAGE, WIDE = random(2, 4, 6, 6), random(2, 4, 6, 6, seed=1)
TOKENS, OTHER = random(2, 5, 8), random(2, 5, 8, seed=2)

# Name -> (function of inputs and layers, inputs, layers). One case may hold several forms of one operator.
CASES: dict[str, tuple] = {
    "relu": (lambda x: F.relu(x), (IMAGE,)),
    "sigmoid": (lambda x: x.sigmoid(), (IMAGE,)),
    "tanh": (lambda x: x.tanh(), (IMAGE,)),
    "gelu": (lambda x: F.gelu(x), (IMAGE,)),
    "gelu_tanh": (lambda x: F.gelu(x, approximate="tanh"), (IMAGE,)),
    "elu": (lambda x: (F.elu(x), F.elu(x, 0.7)), (IMAGE,)),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.2), (IMAGE,)),
    "hardswish": (lambda x: F.hardswish(x * 3), (IMAGE,)),
    "hardsigmoid": (lambda x: F.hardsigmoid(x * 3), (IMAGE,)),
    "mish": (lambda x: F.mish(x), (IMAGE,)),
    "silu": (lambda x: F.silu(x), (IMAGE,)),
    "softplus": (lambda x: (F.softplus(x), F.softplus(x, beta=2)), (IMAGE,)),
    "abs": (lambda x: x.abs(), (IMAGE,)),
    "exp": (lambda x: x.exp(), (IMAGE,)),
    "log": (lambda x: x.log(), (IMAGE.abs() + 2,)),
    "sqrt": (lambda x: x.sqrt(), (IMAGE.abs() + 0.1,)),
    "square": (lambda x: x**2, (IMAGE,)),
    "cube": (lambda x: x**3, (IMAGE,)),
    "views_of_size_one": (
        lambda x: (x.transpose(1, 2) * 2, x.permute(0, 3, 1, 2).abs() + 1, x.transpose(1, 2) @ x.mT),
        (random(2, 1, 3, 4),),
    ),
    "neg": (lambda x: -x, (IMAGE,)),
    "clamp": (lambda x: (x.clamp(-0.5, 0.5), x.clamp(min=0.1), x.clamp(max=0.2)), (IMAGE,)),
    "relu6": (lambda x: (F.relu6(x * 5), F.hardtanh(x)), (IMAGE,)),
    "add": (lambda x, y: (x + y, x + 2.5, torch.add(x, y, alpha=2)), (IMAGE, WIDE)),
    "sub": (lambda x, y: (x - y, 2.5 - x, torch.sub(x, y, alpha=0.5)), (IMAGE, WIDE)),
    "mul": (lambda x, y: (x * y, x * 3), (IMAGE, WIDE)),
    "div": (lambda x, y: (x / y, x / 2), (IMAGE, WIDE.abs() + 1)),
    "maximum": (lambda x, y: torch.maximum(x, y), (IMAGE, WIDE)),
    "minimum": (lambda x, y: torch.minimum(x, y), (IMAGE, WIDE)),
    "broadcast": (
        lambda x, y: (x + y, y + x, x - y, y - x, x * y, x / y, torch.maximum(y, x)),
        (IMAGE, random(4, 1, 1).abs() + 1),
    ),
    "broadcast_scalar": (lambda x, s: (x * s, s - x), (IMAGE, torch.tensor(2.5))),
    "softmax": (lambda x: (x.softmax(-1), x.softmax(1)), (IMAGE,)),
    "log_softmax": (lambda x: (F.log_softmax(x, -1), F.log_softmax(x, 1)), (IMAGE,)),
    "mean": (lambda x: (x.mean((2, 3)), x.mean(-1, keepdim=True), x.mean()), (IMAGE + 1,)),
    "sum": (lambda x: (x.sum(1), x.sum((0, 1, 2, 3)), x.sum()), (IMAGE + 1,)),
    "amax": (lambda x: x.amax((1, 2)), (IMAGE,)),
    "amin": (lambda x: x.amin(3), (IMAGE,)),
    "prod": (lambda x: x.prod(1), (IMAGE + 1,)),
    "max_pool": (
        lambda x: (F.max_pool2d(x, 2), F.max_pool2d(x, 3, 2, 1), F.max_pool2d(x, 2, dilation=2)),
        (random(2, 4, 7, 7),),
    ),
    "max_pool_ceil": (lambda x: F.max_pool2d(x, 2, ceil_mode=True), (random(2, 4, 7, 7),)),
    "avg_pool": (lambda x: (F.avg_pool2d(x, 2), F.avg_pool2d(x, 3, 2, 1)), (random(2, 4, 7, 7),)),
    "avg_pool_exclude": (lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), (random(2, 4, 7, 7),)),
    "adaptive_avg_pool": (lambda x: F.adaptive_avg_pool2d(x, 1), (IMAGE + 1,)),
    "cat": (lambda x, y: (torch.cat([x, y], 1), torch.cat([x, y, x], -1)), (IMAGE, WIDE)),
    "nearest": (lambda x: (F.interpolate(x, scale_factor=2), F.interpolate(x, size=(12, 18))), (IMAGE,)),
    "bilinear": (
        lambda x: (F.interpolate(x, scale_factor=2, mode="bilinear"), F.interpolate(x, size=(9, 4), mode="bilinear")),
        (IMAGE,),
    ),
    "linear": (lambda x, a, b: (a(x), b(x)), (TOKENS,), layers(nn.Linear(8, 6), nn.Linear(8, 3, bias=False))),
    "matmul": (lambda x, y: (x @ y.transpose(1, 2), x @ y[0].t(), x[0] @ y[0].t()), (TOKENS, OTHER)),
    "bmm": (lambda x, y: torch.bmm(x, y.transpose(1, 2)), (TOKENS, OTHER)),
    "addmm": (
        lambda x, y: (torch.addmm(y[0][0, :5], x[0], y[0].t()), torch.addmm(x[0][:, :5], x[0], y[0].t())),
        (TOKENS, OTHER),
    ),
    "conv1d": (lambda x, c: c(x), (random(2, 8, 11),), layers(nn.Conv1d(8, 6, 3, padding=1, stride=2))),
    "conv2d": (lambda x, c: c(x), (IMAGE,), layers(nn.Conv2d(4, 6, (1, 3), stride=(2, 1), padding=(0, 1)))),
    "conv_groups": (lambda x, c: c(x), (IMAGE,), layers(nn.Conv2d(4, 8, 3, groups=2, dilation=2))),
    "conv_depthwise": (lambda x, c: c(x), (IMAGE,), layers(nn.Conv2d(4, 4, 3, groups=4, padding=1, bias=False))),
    "conv_transpose": (
        lambda x, a, b: (a(x), b(x)),
        (IMAGE,),
        layers(nn.ConvTranspose2d(4, 6, 3, 2, 1, output_padding=1), nn.ConvTranspose2d(4, 6, 2, groups=2, bias=False)),
    ),
    "conv_transpose1d": (lambda x, c: c(x), (random(2, 8, 5),), layers(nn.ConvTranspose1d(8, 6, 3, stride=2))),
    "layer_norm": (
        lambda x, a, b: (a(x), b(x), F.layer_norm(x, (8,))),
        (TOKENS,),
        layers(nn.LayerNorm(8), nn.LayerNorm(8, bias=False)),
    ),
    "batch_norm": (lambda x, n: n(x), (IMAGE,), layers(nn.BatchNorm2d(4))),
    "views": (
        lambda x: (
            F.relu(x).permute(0, 2, 3, 1),
            F.relu(x).flatten(1),
            x.exp()[:, 1:3, ::2].tanh(),
            x.tanh().split(2, 1)[1].exp(),
            x.tanh().permute(0, 2, 1, 3).reshape(2, 6, 24).exp(),
            x.transpose(2, 3).reshape(2, -1).exp(),
            x.tanh().unsqueeze(0).squeeze(0) * 2,
            x.tanh()[:, 0] + 1,
        ),
        (IMAGE,),
    ),
    "cast": (lambda x: (x.to(torch.bfloat16) * 2).to(torch.float32), (IMAGE,)),
    "views_alone_and_twice": (lambda x: (F.relu(x), F.relu(x).view(8, 36), F.relu(x).view(-1) + 1), (IMAGE,)),
}
# What oneDNN 3.2 gets wrong unless the delegate takes care: rows with gaps under a layer norm, and a pooling into which
# it fuses an operator of two tensors.
# The result leaves as a permuted view: its rows must lie side by side all the same.
CASES["layer_norm_of_channels"] = (
    lambda x, a: a(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2),
    (IMAGE,),
    layers(nn.LayerNorm(IMAGE.shape[1])),
)
CASES["layer_norm_of_slices"] = (
    lambda x, n: (n(x.exp()[:, 1:4]), n(x.exp()[:, 0]), n(torch.cat([x, x], -1).exp()[..., 4:12])),
    (TOKENS,),
    layers(nn.LayerNorm(8)),
)
CASES["pool_and_add"] = (
    lambda x, y: (F.avg_pool2d(x, 3, 1, 1) + y, F.max_pool2d(x, 3, 1, 1) * y, F.max_pool2d(x, 3, 1, 1) + y.exp()),
    (IMAGE, WIDE),
)
CASES["interpolate_and_add_twice"] = (
    lambda x, y: F.relu(
        x + F.interpolate(y[..., :3, :3], scale_factor=2) + F.interpolate(y[..., 3:, 3:] * 2, scale_factor=2)
    ),
    (IMAGE, WIDE),
)
# Operators that oneDNN runs in float32 only.
FP32_CASES: dict[str, tuple] = {"round": (lambda x: (x * 3).round(), (IMAGE,))}


def heads(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(2, 5, 2, 4).transpose(1, 2)


def attention(causal: bool) -> Callable:
    def run(x: torch.Tensor, projection: nn.Module) -> torch.Tensor:
        query, key, value = (heads(part) for part in projection(x).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=causal)
        return mixed.transpose(1, 2).flatten(2)

    return run


CASES["attention"] = (attention(causal=False), (TOKENS,), layers(nn.Linear(8, 24)))
CASES["attention_causal"] = (attention(causal=True), (TOKENS,), layers(nn.Linear(8, 24)))


def attention_mask() -> torch.Tensor:
    """Some left out, a row of which nothing is left, and numbers that are next to nothing but not -inf."""
    mask = torch.zeros(2, 1, 5, 5)
    mask[0, 0, 1, :3] = float("-inf")
    mask[1, 0, 2] = float("-inf")
    mask[1, 0, 3] = -1e30
    mask[0, 0, 4, :4], mask[0, 0, 4, 4] = -1e30, float("-inf")
    mask[0, 0, 0] = torch.arange(5) / 4
    return mask


def attention_masked(x: torch.Tensor, *masks: torch.Tensor) -> tuple[torch.Tensor, ...]:
    query = heads(x)
    mixed = (F.scaled_dot_product_attention(query * 1.5, query, query + 1, attn_mask=mask) for mask in masks)
    return tuple(result.transpose(1, 2).flatten(2) for result in mixed)


CASES["attention_masked"] = (
    lambda x, mask: attention_masked(x, mask, mask, mask[0, 0] * 1, mask[:, :, :1]),
    (TOKENS, attention_mask()),
)
CASES["attention_mask_constant"] = (
    lambda x, given: attention_masked(x, given.weight, given.weight),
    (TOKENS,),
    (nn.Embedding.from_pretrained(attention_mask()[1, 0]),),
)
CASES["expand"] = (
    lambda x, y: (
        x.exp()[:, :, None].expand(2, 4, 3, 6, 6).reshape(2, 12, 36) * 1.5,  # keys shared between heads
        x.tanh().expand(3, 2, 4, 6, 6),
        x[:, :1].exp().expand(2, 4, 6, 6) - y,
        y - x[:, :1].exp().expand(2, 4, 6, 6),
        x[:, :1].exp().expand(2, 4, 6, 6) / y.exp(),
        x[:, :1].exp().expand(2, 4, 6, 6) @ y.transpose(2, 3),
    ),
    (IMAGE, WIDE),
)


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
    "elu_scale": (lambda x: torch.ops.aten.elu(x, 1.0, 1.05), (IMAGE,), "attribute", "scale=1.05"),
    "power": (lambda x: x.abs() ** 2.5, (IMAGE,), "attribute", "not 2.5"),
    "softplus": (lambda x: F.softplus(x, threshold=2), (IMAGE,), "not_in_delegate", "aten"),
    "both_repeated": (lambda x, y: x + y, (random(4, 1), random(1, 5)), "attribute", "not both"),
    "divided_repeated": (lambda x, y: y / x, (IMAGE, random(4, 1, 1)), "attribute", "repeat"),
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
def test_a_boolean_mask_is_made_additive_once(precision: str) -> None:
    mask = torch.isfinite(attention_mask())
    # Outside: the two numbers and the choice between them, whatever the number of layers.
    check(Network(lambda x, m: attention_masked(x, m, m, m)), TOKENS, mask, precision=precision, left=3)


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
