"""Write what numbers choose as rows of a matrix, one number a row, which ExecuTorch copies whole.

```
before:  y = aten.index.Tensor(x, [None, rows, columns])            # x: [2, 96, 96, 32], columns: [96, 20]
after:   places = rows * 96 + columns                               # an outside one names no row at all
         y = aten.index.Tensor(x.reshape(2, 9216, 32), [None, places.reshape(1920)]).reshape(2, 96, 20, 32)

before:  y = aten.index_put.default(x, [rows, columns], values)
after:   z = aten.index_put.default(x.reshape(9216, 32), [places.reshape(1920)], values.reshape(1920, 32))
         y = z.reshape(96, 96, 32)

before:  y = aten.gather.default(x, 1, index.expand(1, 500, 64))    # the same number for all elements of a row
after:   y = aten.index_select.default(x, 1, index[0, :, 0])

before:  y = aten.scatter_add.default(x, 0, index.expand(500, 64), values)          # `add_rows`, for oneDNN
after:   y = aten.index_add.default(x, 0, index[:, 0], values)

before:  y = aten.index_add.default(x, 0, index, values)                            # `add_elements`, for XNNPACK
after:   y = aten.scatter_add.default(x, 0, index.reshape(500, 1).expand(500, 64), values)
```

ExecuTorch computes the place of each element where there are several numbers, or numbers of several dimensions: 50 ns
an element, where a row of 64 takes 0.6 (5,000 rows, one thread of a Xeon). To add rows it takes 21 ns an element, to
add elements 9 and to repeat their numbers 5; regions of oneDNN have a kernel of their own. Left alone: masks, numbers
of dimensions that do not follow each other, and sizes that only a run knows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rule, Rules, static, substitute

aten = torch.ops.aten

# Matrices that are read one after another, each with numbers of its own.
_MOST_MATRICES = 16

_Indices = Sequence[torch.Tensor | None]


def choose_rows(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such operator; the same program comes back without one."""
    rules: Rules = {
        aten.index.Tensor: Rule(_index, operands=_unrepeated),
        aten.index_put.default: _index_put,
        aten.gather.default: _gather,
    }
    return substitute(program, "choose_rows", rules, "{count} operator(s) ({operators}) choose whole rows")


def add_rows(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write sums of elements with a number a row as sums of rows; the same program comes back without one."""
    detail = "{count} scattered sum(s) became sums of whole rows"
    return substitute(program, "add_rows", {aten.scatter_add.default: _scatter_add}, detail)


def add_elements(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write sums of rows as sums of elements; the same program comes back without one."""
    rules: Rules = {aten.index_add.default: _index_add, aten.index_put.default: _put_sum}
    return substitute(program, "add_elements", rules, "{count} sum(s) of rows ({operators}) became scattered sums")


@dataclass(frozen=True)
class _Places:
    """What the numbers of an `index` or `index_put` name, as one number each.

    Attributes:
        first: The first dimension that they choose along.
        sizes: Those of the dimensions, one after another, that they choose along.
        shape: Of the numbers, repeated to each other.
        flat: The number of each place among all of these dimensions, but for those along which the tensor repeats;
            the product of all sizes for one that is outside.
    """

    first: int
    sizes: tuple[int, ...]
    shape: torch.Size
    flat: torch.Tensor


def _unrepeated(node: Node) -> tuple[Any, ...]:
    """What is read, what it is read of where that repeats it, and the numbers."""
    x, indices = node.args
    repeats = isinstance(x, Node) and x.target is aten.expand.default
    return x, x.args[0] if repeats else None, indices  # type: ignore[union-attr]


def _index(x: torch.Tensor, source: torch.Tensor | None, indices: _Indices) -> Any:
    places = _find_places(x, indices, repeated=source is not None)
    if places is None:
        return NotImplemented
    before, behind = x.shape[: places.first], x.shape[places.first + len(places.sizes) :]
    if source is not None:
        # The same wherever it is looked at: one of each does.
        dims = range(places.first, places.first + len(places.sizes))
        x = source.expand([1 if dim in dims and _repeats(x, dim) else size for dim, size in enumerate(x.shape)])
    joined = x.reshape(*before, -1, *behind)
    rows = aten.index.Tensor(joined, [None] * places.first + [places.flat])
    return rows.reshape(*before, *places.shape, *behind)


def _repeats(x: torch.Tensor, dim: int) -> bool:
    return x.shape[dim] > 1 and x.stride(dim) == 0


def _repeats(x: torch.Tensor, dim: int) -> bool:
    return x.shape[dim] > 1 and x.stride(dim) == 0


def _index_put(x: torch.Tensor, indices: _Indices, values: torch.Tensor, accumulate: bool = False) -> Any:
    if not static(*x.stride()) or any(_repeats(x, dim) for dim in range(x.dim())):
        return NotImplemented
    places = _find_places(x, indices)
    if places is None or not static(*values.shape):
        return NotImplemented
    before, behind = x.shape[: places.first], x.shape[places.first + len(places.sizes) :]
    rows = values.expand(*before, *places.shape, *behind).reshape(*before, places.flat.shape[0], *behind)
    joined = x.reshape(*before, math.prod(places.sizes), *behind)
    return aten.index_put(joined, [None] * places.first + [places.flat], rows, accumulate).reshape(x.shape)


def _find_places(x: torch.Tensor, indices: _Indices, *, repeated: bool = False) -> _Places | None:
    chosen = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    dims, numbers = [dim for dim, _ in chosen], [index for _, index in chosen]
    known = static(*x.shape, *(size for index in numbers for size in index.shape)) and 0 not in x.shape
    if not known or any(index.dtype not in (torch.int64, torch.int32) for index in numbers):
        return None
    follow = all(after == before + 1 for before, after in pairwise(dims))
    if not follow or not dims or (len(dims) == 1 and numbers[0].dim() == 1):
        return None
    shape = torch.broadcast_shapes(*(index.shape for index in numbers))
    if math.prod(shape) == 0:
        return None
    sizes = tuple(x.shape[dim] for dim in dims)
    if len(dims) == 1:  # what is outside of it is refused as it is
        flat = numbers[0].long()
        return _Places(dims[0], sizes, shape, flat.reshape(-1))
    flat, outside = torch.zeros((), dtype=torch.int64), torch.zeros((), dtype=torch.bool)
    for (dim, index), size in zip(chosen, sizes, strict=True):
        number = index.long()
        outside = outside | (number < -size) | (number >= size)
        if not (repeated and _repeats(x, dim)):
            flat = flat * size + torch.where(number < 0, number + size, number)
    flat = torch.where(outside, math.prod(sizes), flat)
    return _Places(dims[0], sizes, shape, flat.expand(shape).reshape(-1))


def _gather(x: torch.Tensor, dim: int, index: torch.Tensor, sparse_grad: bool = False) -> Any:
    del sparse_grad
    numbers = _find_numbers(x, dim, index)
    if numbers is None:
        return NotImplemented
    dim %= x.dim()
    for at, size in enumerate(index.shape):
        if at != dim:
            x = x.narrow(at, 0, size)
    return _of_each(numbers, lambda matrix, given, at: torch.index_select(matrix, at, given), dim, x)


def _scatter_add(x: torch.Tensor, dim: int, index: torch.Tensor, values: torch.Tensor) -> Any:
    numbers = _find_numbers(x, dim, index)
    if numbers is None or index.shape != values.shape:
        return NotImplemented
    if any(x.shape[at] != index.shape[at] for at in range(x.dim()) if at != dim % x.dim()):
        return NotImplemented
    return _of_each(
        numbers, lambda matrix, given, at, rows: matrix.index_add(at, given, rows), dim % x.dim(), x, values
    )


def _index_add(x: torch.Tensor, dim: int, index: torch.Tensor, values: torch.Tensor, alpha: float = 1) -> Any:
    if not static(*values.shape) or x.dim() == 0 or index.dim() != 1 or not x.is_floating_point():
        return NotImplemented
    sizes = [-1 if at == dim % x.dim() else 1 for at in range(x.dim())]
    rows = values if alpha == 1 else values * alpha
    return torch.scatter_add(x, dim, index.long().reshape(sizes).expand_as(values), rows)


def _put_sum(x: torch.Tensor, indices: _Indices, values: torch.Tensor, accumulate: bool = False) -> Any:
    chosen = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    if not accumulate or len(chosen) != 1 or not static(*x.shape, *values.shape):
        return NotImplemented
    dim, index = chosen[0]
    if index.dtype not in (torch.int64, torch.int32) or index.dim() != 1 or not static(*index.shape):
        return NotImplemented
    rows = values.expand(*x.shape[:dim], index.shape[0], *x.shape[dim + 1 :])
    return _index_add(x, dim, torch.where(index < 0, index + x.shape[dim], index), rows)


def _of_each(numbers: torch.Tensor, write: Any, dim: int, *tensors: torch.Tensor) -> torch.Tensor:
    """What is made of the matrices behind the leading dimensions, each with its own numbers: `[*leading, rows]`."""
    leading = numbers.shape[:-1]
    if math.prod(leading) == 1:
        return write(tensors[0], numbers.reshape(-1), dim, *tensors[1:])
    count = math.prod(leading)
    flat = [tensor.reshape(count, *tensor.shape[len(leading) :]) for tensor in tensors]
    given = numbers.reshape(count, -1)
    made = [
        write(flat[0][at], given[at], dim - len(leading), *(other[at] for other in flat[1:])) for at in range(count)
    ]
    return torch.stack(made).reshape(*leading, *made[0].shape)


def _find_numbers(x: torch.Tensor, dim: int, index: torch.Tensor) -> torch.Tensor | None:
    """The number of each row, `[*leading, rows]`, where all elements of a row have the same."""
    if x.dim() == 0 or not static(*x.shape, *index.shape, *index.stride()) or 0 in (*x.shape, *index.shape):
        return None
    dim %= x.dim()
    own = [at for at, size in enumerate(index.shape) if at != dim and size > 1 and index.stride(at) != 0]
    leading = max(own, default=-1) + 1
    repeated = math.prod(size for at, size in enumerate(index.shape) if at >= leading and at != dim)
    if leading > dim or repeated == 1 or math.prod(index.shape[:leading]) > _MOST_MATRICES:
        return None
    # A leading dimension that repeats has its numbers once for each.
    for at in range(len(index.shape) - 1, -1, -1):
        if at >= leading and at != dim:
            index = index.select(at, 0)
    return index
