"""Reduce a few parts one after another, as sums, products and extremes of two.

```
before:  joined = aten.stack.default([a, b, c], -1); y = aten.mean.dim(joined, [-1])    # parts of 48 x 96 numbers
after:   y = (a + b + c) / 3

before:  y = aten.prod.dim_int(x, 1)                                                    # x: [64, 5, 32]
after:   y = (x[:, 0:2] * x[:, 2:4]); y = y[:, 0] * y[:, 1] * x[:, 4]

before:  y = aten.sum.dim_IntList(x, [1])                                               # x: [1, 2, 64, 56, 56]
after:   y = (x[:, 0:1] + x[:, 1:2]).squeeze(1)
```

ExecuTorch stacks and multiplies number by number: the mean of six parts of 442,368 numbers took 18.9 ms on `xnnpack`
and takes 2.0, on `onednn` 9.0 and 1.7, products of five, 983,040 numbers in all, 6.9 and 1.7 on `xnnpack` (one thread
of a Xeon). ONNX Runtime adds two planes of 200,704 numbers (split attention) in 0.58 ms, as parts in 0.09 (a Zen
without AVX-512). Left alone: what is stacked for others too, more than 16 parts, products of more than 4,096 numbers,
other reductions over more than 4 planes or over planes of fewer than 1,024 numbers, and sizes that only a run knows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from math import prod
from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import named_arguments
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.editor import constant_tensors
from edgex.export.rewrites.editing.substitution import Rule, Rules, static, substitute

aten = torch.ops.aten

_MOST_PARTS = 16
_MOST_FACTORS = 1 << 12
_MOST_PLANES = 4
_LEAST_OF_PLANE = 1 << 10

Combine = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
_COMBINES: dict[Any, Combine] = {
    aten.mean.dim: torch.add,
    aten.sum.dim_IntList: torch.add,
    aten.amax.default: torch.maximum,
    aten.amin.default: torch.minimum,
    aten.prod.dim_int: torch.mul,
}


def reduce_stacks(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every reduction over what is only stacked for it; the same program comes back without one."""
    rules: Rules = {
        operator: Rule(_reduced(combine, mean=operator is aten.mean.dim), where=_reduces_a_stack, operands=_parts)
        for operator, combine in _COMBINES.items()
    }
    return substitute(program, "reduce_stacks", rules, "{count} stack(s) are reduced part by part")


def multiply_parts(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every product over a dimension; the same program comes back without one."""
    rules: Rules = {aten.prod.dim_int: _product}
    return substitute(program, "multiply_parts", rules, "{count} product(s) of many numbers became products of two")


def reduce_planes(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every sum, mean and extreme over a few planes; the same program comes back without one."""
    constants = constant_tensors(program)
    rules: Rules = {
        operator: Rule(
            _reduced_planes(combine, mean=operator is aten.mean.dim), where=lambda node: node.args[0] not in constants
        )
        for operator, combine in _COMBINES.items()
        if operator is not aten.prod.dim_int
    }
    return substitute(program, "reduce_planes", rules, "{count} {operators} over a few planes became operators of two")


def _reduced_planes(combine: Combine, *, mean: bool) -> Callable[..., Any]:
    def write(x: torch.Tensor, dims: Sequence[int] | None, keepdim: bool, dtype: torch.dtype | None = None) -> Any:
        if not dims or len(dims) != 1 or x.dtype != torch.float32 or dtype not in (None, x.dtype):
            return NotImplemented
        dim = dims[0] % x.dim()
        behind = x.shape[dim + 1 :]
        if not static(x.shape[dim], *behind) or not 1 < x.shape[dim] <= _MOST_PLANES or prod(behind) < _LEAST_OF_PLANE:
            return NotImplemented
        found = reduce(combine, [x.narrow(dim, number, 1) for number in range(x.shape[dim])])
        found = found * (1 / x.shape[dim]) if mean else found
        return found if keepdim else found.squeeze(dim)

    return write


def _reduces_a_stack(node: Node) -> bool:
    given = named_arguments(node)
    stack, dims = given["self"], given["dim"]
    if not isinstance(stack, Node) or stack.target is not aten.stack.default or len(stack.users) != 1:
        return False
    dims = [dims] if isinstance(dims, int) else list(dims or ())
    rank, parts = stack.meta["val"].dim(), stack.args[0]
    assert isinstance(parts, list | tuple)
    along = named_arguments(stack)["dim"]
    floats = stack.meta["val"].dtype == node.meta["val"].dtype == torch.float32
    return floats and len(parts) <= _MOST_PARTS and [dim % rank for dim in dims] == [along % rank]


def _parts(node: Node) -> tuple[Any, ...]:
    given = named_arguments(node)
    stack = given["self"]
    return stack.args[0], named_arguments(stack)["dim"] if given["keepdim"] else None


def _reduced(combine: Combine, *, mean: bool) -> Callable[[list[torch.Tensor], int | None], torch.Tensor]:
    def write(parts: list[torch.Tensor], kept: int | None) -> torch.Tensor:
        found = reduce(combine, parts)
        found = found / len(parts) if mean else found
        return found if kept is None else found.unsqueeze(kept)

    return write


def _product(x: torch.Tensor, dim: int, keepdim: bool, dtype: torch.dtype | None) -> Any:
    if x.dim() == 0 or x.dtype != torch.float32 or dtype not in (None, x.dtype) or not static(x.shape[dim]):
        return NotImplemented
    if not 0 < x.shape[dim] <= _MOST_FACTORS:
        return NotImplemented
    found = in_halves(torch.mul, x, dim)
    return found if keepdim else found.squeeze(dim)


def in_halves(combine: Combine, x: torch.Tensor, dim: int) -> torch.Tensor:
    """What `combine` makes of all parts along a dimension, of a number each; the dimension is kept."""
    odd = []
    while (count := x.shape[dim]) > 1:
        if count % 2:
            odd.append(x.narrow(dim, count - 1, 1))
        half = count // 2
        x = combine(x.narrow(dim, 0, half), x.narrow(dim, half, half))
    return reduce(combine, [x, *odd])
