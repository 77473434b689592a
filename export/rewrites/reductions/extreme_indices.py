"""Find where along a dimension the largest number is with maxima and arithmetic, where others lie behind the dimension.

```
before:  y = aten.argmax.default(x, 1)                                  # x: [1, 21, 128, 128], classes of pixels
after:   below = (x - x.amax(1, True)) * 2**126 * 2**126                # 0 at the largest, at least 1 below elsewhere
         last  = (below.clamp(min=-21) + [21, 20, ..., 1]).amax(1)      # at the largest its weight, elsewhere at most 0
         y     = (21 - last).to(torch.int64)
```

The smallest difference of two floats that differ is 2**-149; times 2**252 it is above 1. The first of equal ones has
the largest weight, as in eager. Infinities are brought to the largest floats first, unless there can be none.
ExecuTorch's and ONNX Runtime's kernels walk through one column after the other, with steps as long as what lies behind
the dimension: 4.3 and 3.1 ns a number of 64 x 128 x 128 (one thread of a Zen without AVX-512).
Left alone: the last dimension, over which those kernels are quick, few numbers, other types than float32.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import named_arguments
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.editor import constant_tensors
from edgex.export.rewrites.editing.finiteness import Finiteness, FinitenessOf
from edgex.export.rewrites.editing.substitution import Rule, Rules, static, substitute, used_results

aten = torch.ops.aten

# Of a float32 above 0, the smallest, is 2**-149; one factor alone would not be a float32.
_FACTOR = 2.0**126
# Whole numbers that every precision holds: float16 has those up to 2,048, bfloat16 up to 256.
_MOST = 1 << 8
# Of fewer, the conversion of each result to an integer takes as long as what is saved.
_FEWEST = 6
# Of what lies behind, in numbers: ExecuTorch's and ONNX Runtime's kernels are no slower for shorter steps.
_ROW = 32
# Of the whole tensor, in numbers.
_LEAST = 1 << 14
_LARGEST = torch.finfo(torch.float32).max


def weigh_extremes(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Find every such index so; the same program comes back without one."""
    finiteness = FinitenessOf(constant_tensors(program))

    def operands(node: Node) -> tuple[Any, ...]:
        value = node.args[0]
        assert isinstance(value, Node)
        return *named_arguments(node).values(), finiteness(value) is Finiteness.FINITE

    def asks(node: Node) -> bool:
        return 1 in used_results(node)

    rules: Rules = {
        aten.argmax.default: Rule(_index(largest=True), operands=operands),
        aten.argmin.default: Rule(_index(largest=False), operands=operands),
        aten.max.dim: Rule(_value_and_index(largest=True), where=asks, operands=operands),
        aten.min.dim: Rule(_value_and_index(largest=False), where=asks, operands=operands),
    }
    detail = "{count} {operators} find the index of an extreme by extremes"
    return substitute(program, "weigh_extremes", rules, detail, keeps_float=True)


def _index(*, largest: bool) -> Callable[..., Any]:
    def write(x: torch.Tensor, dim: int | None, keepdim: bool, finite: bool) -> Any:
        found = NotImplemented if dim is None else _extreme(x, dim, finite, largest=largest)
        if found is NotImplemented:
            return NotImplemented
        return found[1] if keepdim else found[1].squeeze(dim)

    return write


def _value_and_index(*, largest: bool) -> Callable[..., Any]:
    def write(x: torch.Tensor, dim: int, keepdim: bool, finite: bool) -> Any:
        found = _extreme(x, dim, finite, largest=largest)
        if found is NotImplemented or keepdim:
            return found
        return found[0].squeeze(dim), found[1].squeeze(dim)

    return write


def _extreme(x: torch.Tensor, dim: int, finite: bool, *, largest: bool) -> Any:
    """The extreme and its index, both with the dimension kept."""
    if x.dtype != torch.float32 or x.dim() == 0 or not static(*x.shape):
        return NotImplemented
    dim %= x.dim()
    size, behind = x.shape[dim], prod(x.shape[dim + 1 :])
    if behind < _ROW or not _FEWEST <= size <= _MOST or x.numel() < _LEAST:
        return NotImplemented
    most = x.amax(dim, True) if largest else x.amin(dim, True)
    index = _index_of_equal(x if largest else most, most if largest else x, dim, finite)
    return most, index.to(torch.int64)


def _index_of_equal(lesser: torch.Tensor, greater: torch.Tensor, dim: int, finite: bool) -> torch.Tensor:
    size = max(lesser.shape[dim], greater.shape[dim])
    if not finite:
        lesser, greater = lesser.clamp(-_LARGEST, _LARGEST), greater.clamp(-_LARGEST, _LARGEST)
    below = (lesser - greater) * _FACTOR * _FACTOR
    weights = torch.arange(size, 0, -1, dtype=torch.float32).reshape(-1, *[1] * (lesser.dim() - dim - 1))
    return size - (below.clamp(min=-size) + weights).amax(dim, True)
