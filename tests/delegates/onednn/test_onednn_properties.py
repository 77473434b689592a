"""Random operators in random variants against eager: what is taken is right, what is not taken falls back and is right.

One lowering costs a second, so each example is a network of several independent operators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from onednn_support import (
    HAS_BF16,
    Int8Linear,
    Network,
    capture,
    check,
    compare,
    load,
    lower,
    needs_onednn,
    rounded,
)
from torch import nn

pytestmark = needs_onednn

# One operator: a function of its input, and the input's shape.
Variant = tuple[str, Callable[[torch.Tensor], torch.Tensor], tuple[int, ...]]
small = st.integers(1, 3)


def content(*shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(sum(shape) + len(shape))) + 0.2


@st.composite
def layouts(draw: st.DrawFn, rank: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """Something that gives the operator an input with other strides, computed inside of the region."""
    kind = draw(st.sampled_from(["plain", "permuted", "sliced", "stepped", "split"]))
    order = draw(st.permutations(range(rank)))
    inverse = [order.index(dim) for dim in range(rank)]
    dim = draw(st.integers(0, rank - 1))

    def apply(x: torch.Tensor) -> torch.Tensor:
        if kind == "permuted":
            # Dense in another order: written so, read back as it was.
            return x.permute(*order).exp().contiguous().permute(*inverse)
        if kind == "sliced":
            return torch.cat([x, x], dim).sigmoid().narrow(dim, x.shape[dim] // 2, x.shape[dim])
        if kind == "stepped":
            return torch.cat([x, x], -1).sigmoid()[..., ::2]
        if kind == "split":
            return torch.cat([x, x], dim).exp().split(x.shape[dim], dim)[1]
        return x

    return apply


@st.composite
def convolutions(draw: st.DrawFn) -> Variant:
    spatial, transposed = draw(st.sampled_from([1, 2, 2])), draw(st.sampled_from([False, False, True]))
    groups = draw(st.sampled_from([1, 1, 2, 4]))
    inner, outer = groups * draw(small), groups * draw(small)
    kernel = [draw(small) for _ in range(spatial)]
    stride, dilation = [draw(st.integers(1, 2)) for _ in kernel], [draw(st.integers(1, 2)) for _ in kernel]
    padding = [draw(st.integers(0, 1)) for _ in kernel]
    bias = content(outer) if draw(st.booleans()) else None
    shape = (draw(st.integers(1, 2)), inner, *(draw(st.integers(5, 8)) for _ in kernel))
    arrange = draw(layouts(len(shape)))
    weight_shape = (inner, outer // groups, *kernel) if transposed else (outer, inner // groups, *kernel)
    weight = content(*weight_shape)
    if transposed:
        function: Any = F.conv_transpose1d if spatial == 1 else F.conv_transpose2d
        extra = [min(draw(st.integers(0, 1)), s - 1) for s in stride]
        arguments: tuple = (bias, stride, padding, extra, groups, dilation)
    else:
        function = F.conv1d if spatial == 1 else F.conv2d
        arguments = (bias, stride, padding, dilation, groups)
    label = f"conv {shape} by {weight_shape} {arguments[1:]} transposed={transposed}"
    return label, lambda x: function(arrange(x), weight, *arguments), shape


@st.composite
def binaries(draw: st.DrawFn) -> Variant:
    rank = draw(st.integers(1, 4))
    shape = tuple(draw(st.integers(1, 4)) for _ in range(rank))
    other_rank = draw(st.integers(0, rank))
    other = content(*(draw(st.sampled_from([1, size])) for size in shape[rank - other_rank :]))
    grown = tuple(draw(st.sampled_from([size, size, 1])) for size in shape)
    name = draw(st.sampled_from(["add", "sub", "mul", "div", "maximum", "minimum"]))
    function: Any = getattr(torch, name)
    swapped, arrange = draw(st.booleans()), draw(layouts(rank))
    alpha = {"alpha": draw(st.sampled_from([1, 2, 0.5]))} if name in ("add", "sub") else {}
    label = f"{name} {grown} with {tuple(other.shape)} swapped={swapped} {alpha}"
    if name in ("maximum", "minimum") or swapped:
        return label, lambda x: function(other, arrange(x), **alpha), grown
    return label, lambda x: function(arrange(x), other, **alpha), grown


@st.composite
def pools(draw: st.DrawFn) -> Variant:
    kernel = draw(st.integers(2, 3))
    stride, padding = draw(st.integers(1, 3)), draw(st.integers(0, 1))
    ceil, include = draw(st.booleans()), draw(st.booleans())
    shape = (draw(small), draw(small), draw(st.integers(6, 9)), draw(st.integers(6, 9)))
    arrange = draw(layouts(4))
    if draw(st.booleans()):
        dilation = draw(st.integers(1, 2))
        label = f"max_pool {shape} {kernel, stride, padding, dilation, ceil}"
        return label, lambda x: F.max_pool2d(arrange(x), kernel, stride, padding, dilation, ceil), shape
    label = f"avg_pool {shape} {kernel, stride, padding, ceil, include}"
    return label, lambda x: F.avg_pool2d(arrange(x), kernel, stride, padding, ceil, include), shape


@st.composite
def products(draw: st.DrawFn) -> Variant:
    batch = tuple(draw(small) for _ in range(draw(st.integers(0, 2))))
    rows, inner, columns = draw(small), draw(small), draw(small)
    other = content(*(draw(st.sampled_from([1, size])) for size in batch), columns, inner)
    arrange = draw(layouts(len(batch) + 2))
    label = f"matmul {(*batch, rows, inner)} by {tuple(other.shape)} transposed"
    return label, lambda x: arrange(x) @ (other * 2).transpose(-1, -2), (*batch, rows, inner)


@st.composite
def rows(draw: st.DrawFn) -> Variant:
    rank = draw(st.integers(2, 4))
    shape = tuple(draw(st.integers(1, 5)) for _ in range(rank))
    dim, keep, arrange = draw(st.integers(-rank, rank - 1)), draw(st.booleans()), draw(layouts(rank))
    choices: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "softmax": lambda x: x.softmax(dim),
        "log_softmax": lambda x: F.log_softmax(x, dim) - 1,
        "mean": lambda x: x.mean(dim, keepdim=keep),
        "sum": lambda x: x.sum(dim, keepdim=keep),
        "amax": lambda x: x.amax(dim, keepdim=keep),
        "amin": lambda x: x.amin(dim, keepdim=keep),
        "prod": lambda x: x.prod(dim, keepdim=keep),
        "layer_norm": lambda x: F.layer_norm(x, shape[-1:]) + 1,
        "cat": lambda x: torch.cat([x, x * 2], dim),
        "flatten": lambda x: (x * 2).flatten(),
        "gelu": lambda x: F.gelu(x),
    }
    name = draw(st.sampled_from(sorted(choices)))
    function = choices[name]
    return f"{name} {shape} dim={dim} keepdim={keep}", lambda x: function(arrange(x)), shape


class Variants(nn.Module):
    def __init__(self, variants: list[Variant]) -> None:
        super().__init__()
        self.functions = [function for _, function, _ in variants]

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(function(x) + 0.5 for function, x in zip(self.functions, inputs, strict=True))


def variants() -> st.SearchStrategy[list[Variant]]:
    one = st.one_of(convolutions(), convolutions(), binaries(), pools(), products(), rows())
    return st.lists(one, min_size=12, max_size=16)


# No shrinking: it would lower hundreds of networks, and the message names the operator.
@settings(
    max_examples=3,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
    derandomize=True,
)
@given(chosen=variants(), precision=st.sampled_from(["fp32", "fp32", "bf16"] if HAS_BF16 else ["fp32"]))
def test_every_variant_is_right_whoever_runs_it(chosen: list[Variant], precision: str) -> None:
    module = Variants(chosen)
    inputs = [content(*shape) for _, _, shape in chosen]
    with torch.no_grad():
        wanted = module(*inputs)
    lowered = lower(capture(module, inputs, precision=precision))
    # Whatever is refused, most of it is taken: else this test shows nothing about oneDNN.
    assert lowered.plan.fraction > 0.5, lowered.plan.fallbacks
    loaded = load(lowered)
    try:
        found = loaded(*inputs)
    finally:
        loaded.runner.close()
    for (label, _, _), one, other in zip(chosen, wanted, found, strict=True):
        compare(one, [other], precision, label=label)


# What may take an operator of two tensors behind it into its partition: the function, its layers, its input's shape.
PRODUCERS: dict[str, tuple] = {
    "linear": (lambda x, layer: layer(x), (nn.Linear(7, 6),), (3, 4, 5, 7)),
    "linear_relu": (lambda x, layer: F.relu(layer(x)), (nn.Linear(7, 6),), (3, 4, 5, 7)),
    "linear_int8": (lambda x, layer: layer(rounded(x)), (Int8Linear(7, 6),), (3, 4, 5, 7)),
    "linear_of_three": (lambda x, layer: layer(x), (nn.Linear(7, 6),), (4, 5, 7)),
    "convolution": (lambda x, layer: layer(x), (nn.Conv2d(7, 4, 1),), (3, 7, 5, 6)),
    "conv_transpose": (lambda x, layer: layer(x), (nn.ConvTranspose2d(7, 4, 1),), (3, 7, 5, 6)),
    "layer_norm": (lambda x, layer: layer(x), (nn.LayerNorm(6),), (3, 4, 5, 6)),
    "softmax": (lambda x: x.softmax(-1), (), (3, 4, 5, 6)),
    "sum": (lambda x: x + x * x, (), (3, 4, 5, 6)),
    "mean": (lambda x: x.mean(1, keepdim=True), (), (3, 7, 5, 6)),
    "pooling": (lambda x: F.avg_pool2d(x, 2), (), (3, 4, 10, 12)),
}
REPEATED = [
    (1, 4, 1, 1),
    (1, 1, 5, 1),
    (3, 1, 1, 6),
    (1, 4, 5, 6),
    (3, 1, 5, 1),
    (3, 4, 1, 6),
    (1, 1, 1, 6),
    (3, 4, 5, 1),
]


@pytest.mark.parametrize("name", PRODUCERS)
def test_repeated_operands_behind_every_producer(name: str) -> None:
    """oneDNN fuses both, and of some shapes reads the second operand at wrong places."""
    produce, layers, shape = PRODUCERS[name]
    rank = len(shape)
    whole = (3, 1, 5, 6) if name == "mean" else (3, 4, 5, 6)[-rank:]
    kept = [tuple(min(pair) for pair in zip(one[-rank:], whole, strict=True)) for one in REPEATED]
    others = [content(*one) * (-1) ** number for number, one in enumerate(kept)]

    def run(*given: Any) -> tuple[torch.Tensor, ...]:
        made = [produce(x, *given[len(others) :]) for x in given[: len(others)]]
        return tuple(
            x * other if number % 3 else x + other for number, (x, other) in enumerate(zip(made, others, strict=True))
        )

    check(Network(run, *layers), *(content(*shape) for _ in others))


def test_products_are_not_written_by_columns() -> None:
    """A Fourier layer in two rounds: differences of products are seen through a transposition, and summed with rows."""
    generator = torch.Generator().manual_seed(0)
    x, columns, rows = (torch.randn(*shape, generator=generator) for shape in ((1, 16, 64), (2, 64, 64), (2, 16, 16)))

    def run(x: torch.Tensor, norm: nn.Module) -> torch.Tensor:
        for _ in range(2):
            real, imaginary = ((x @ part).transpose(1, 2) for part in columns)
            x = norm(x + (real @ rows[0] - imaginary @ rows[1]).transpose(1, 2))
        return x

    check(Network(run, nn.LayerNorm(64)), x)
