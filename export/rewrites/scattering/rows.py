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

before:  y = aten.index_add.default(x, 0, index, values)                       # `add_elements`, for XNNPACK and ONNX
after:   y = aten.scatter_add.default(x, 0, index.reshape(500, 1).expand(500, 64), values)
```

ExecuTorch computes the place of each element where there are several numbers, or numbers of several dimensions: 50 ns
an element, where a row of 64 takes 0.6 (5,000 rows, one thread of a Xeon). To add rows it takes 21 ns an element, to
add elements 9 and to repeat their numbers 5; regions of oneDNN have a kernel of their own. ONNX Runtime adds rows on
several threads, and loses some of what goes to one place. A mixture of experts that chooses its matrices by
`weights[chosen]` is such an operator, of a number of tokens that varies:

```
before:  w = aten.index.Tensor(weights, [chosen])                       # [8, 256, 128], [tokens, 2]
after:   w = aten.index.Tensor(weights, [chosen.reshape(2 * tokens)]).reshape(tokens, 2, 256, 128)
```

Left alone: masks, numbers of dimensions that do not follow each other, and sizes that only a run knows for all but one
number a place.
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
from edgex.delegates.graph.schema import named_arguments
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rule, Rules, static, substitute

aten = torch.ops.aten

# For several numbers a place, some operators of integers are worth it from so many elements on.
_LEAST_ELEMENTS = 8
# Elements that may be copied for one that is read, where several dimensions become one: a copy takes 1 ns at most.
_MOST_COPIED = 16
# The same for rows of matrices, which a copy may bring into one.
_MOST_ROWS = 4

_Indices = Sequence[torch.Tensor | None]
_INTEGERS = (torch.int64, torch.int32)


def choose_rows(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such operator; the same program comes back without one."""
    rules: Rules = {
        aten.index.Tensor: Rule(_index, operands=_unrepeated),
        aten.index_put.default: Rule(_index_put, where=_is_new),
        aten.gather.default: Rule(_gather, operands=_with_source),
    }
    return substitute(program, "choose_rows", rules, "{count} operator(s) ({operators}) choose whole rows")


def add_rows(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write sums of elements with a number a row as sums of rows; the same program comes back without one."""
    rules: Rules = {aten.scatter_add.default: Rule(_scatter_add, operands=_with_source)}
    return substitute(program, "add_rows", rules, "{count} scattered sum(s) became sums of whole rows")


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
    """What is read, what that repeats, and the numbers."""
    x, indices = node.args
    return x, _source_of(x), indices


def _with_source(node: Node) -> tuple[Any, ...]:
    """The arguments, and what the numbers repeat."""
    given = named_arguments(node)
    return (*given.values(), _source_of(given["index"]))


def _source_of(node: Any) -> Any:
    """What a node repeats: to read a part of it copies nothing. None for what repeats nothing."""
    return node.args[0] if isinstance(node, Node) and node.target is aten.expand.default else None


def _index(x: torch.Tensor, source: torch.Tensor | None, indices: _Indices) -> Any:
    if _varies(x, indices):
        return _index_varying(x, indices)
    alike = _repeated_dims(x, source)
    places = _find_places(x, indices, alike)
    if places is None:
        return NotImplemented
    before, behind = x.shape[: places.first], x.shape[places.first + len(places.sizes) :]
    if source is not None and len(places.sizes) > 1:
        # The same wherever it is looked at: one of each does.
        chosen = alike & set(range(places.first, places.first + len(places.sizes)))
        x = source.expand([1 if dim in chosen else size for dim, size in enumerate(x.shape)])
    joined = x.reshape(*before, -1, *behind)
    rows = aten.index.Tensor(joined, [None] * places.first + [places.flat])
    return rows.reshape([*before, *places.shape, *behind])


def _varies(x: torch.Tensor, indices: _Indices) -> bool:
    return not static(*x.shape, *(size for index in indices if index is not None for size in index.shape))


def _index_varying(x: torch.Tensor, indices: _Indices) -> Any:
    """One number a place, of several dimensions: any sizes will do, since nothing else is computed of them."""
    chosen = _chosen(indices)
    if len(chosen) != 1:
        return NotImplemented
    dim, index = chosen[0]
    if index.dtype not in _INTEGERS or index.dim() < 2:
        return NotImplemented
    rows = aten.index.Tensor(x, [None] * dim + [index.reshape(-1)])
    return rows.reshape([*x.shape[:dim], *index.shape, *x.shape[dim + 1 :]])


def _repeated_dims(x: torch.Tensor, source: torch.Tensor | None) -> frozenset[int]:
    """The dimensions along which an `expand` repeats its source."""
    if source is None or not static(*x.shape, *source.shape):
        return frozenset()
    own = [1] * (x.dim() - source.dim()) + list(source.shape)
    return frozenset(dim for dim, size in enumerate(x.shape) if size > 1 and own[dim] == 1)


def _is_new(node: Node) -> bool:
    """Whether it is no replacement in the caller's memory, or the model's: ExecuTorch writes it there."""
    x = named_arguments(node)["self"]
    return bool(named_arguments(node)["accumulate"]) or (isinstance(x, Node) and x.op == "call_function")


def _index_put(x: torch.Tensor, indices: _Indices, values: torch.Tensor, accumulate: bool = False) -> Any:
    places = _find_places(x, indices, frozenset())
    if places is None or not static(*values.shape):
        return NotImplemented
    before, behind = x.shape[: places.first], x.shape[places.first + len(places.sizes) :]
    rows = values.expand(*before, *places.shape, *behind).reshape(*before, places.flat.shape[0], *behind)
    joined = x.reshape(*before, math.prod(places.sizes), *behind)
    return aten.index_put(joined, [None] * places.first + [places.flat], rows, accumulate).reshape(x.shape)


def _chosen(indices: _Indices) -> list[tuple[int, torch.Tensor]]:
    """The dimensions that numbers choose along, each with its numbers."""
    return [(dim, index) for dim, index in enumerate(indices) if index is not None]


def _find_places(x: torch.Tensor, indices: _Indices, alike: frozenset[int]) -> _Places | None:
    chosen = _chosen(indices)
    dims, numbers = [dim for dim, _ in chosen], [index for _, index in chosen]
    known = static(*x.shape, *(size for index in numbers for size in index.shape)) and 0 not in x.shape
    if not known or any(index.dtype not in _INTEGERS for index in numbers):
        return None
    follow = all(after == before + 1 for before, after in pairwise(dims))
    if not follow or not dims or (len(dims) == 1 and numbers[0].dim() == 1):
        return None
    shape = torch.broadcast_shapes(*(index.shape for index in numbers))  # type: ignore[no-untyped-call]
    if math.prod(shape) == 0:
        return None
    sizes = tuple(x.shape[dim] for dim in dims)
    if len(dims) == 1:  # what is outside of it is refused as it is
        flat = numbers[0].long()
        return _Places(dims[0], sizes, shape, flat.reshape(-1))
    each = math.prod(x.shape) // math.prod(sizes)
    if each < _LEAST_ELEMENTS or math.prod(shape) * each * _MOST_COPIED < math.prod(x.shape):
        return None
    flat, outside = torch.zeros((), dtype=torch.int64), torch.zeros((), dtype=torch.bool)
    for (dim, index), size in zip(chosen, sizes, strict=True):
        number = index.long()
        outside = outside | (number < -size) | (number >= size)
        if dim not in alike:
            flat = flat * size + torch.where(number < 0, number + size, number)
    flat = torch.where(outside, math.prod(sizes), flat)
    return _Places(dims[0], sizes, shape, flat.expand(shape).reshape(-1))


def _gather(x: torch.Tensor, dim: int, index: torch.Tensor, sparse_grad: bool, source: torch.Tensor | None) -> Any:
    del sparse_grad
    rows = _find_rows(x, dim, index, source)
    if rows is None:
        return NotImplemented
    dim %= x.dim()
    parts = [(at, size) for at, size in enumerate(index.shape) if at != dim and size != x.shape[at]]
    if (parts or rows.matrices > 1) and index.shape[dim] * _MOST_ROWS < x.shape[dim]:
        return NotImplemented  # to bring all into one matrix would copy what is not read
    for at, size in parts:
        x = x.narrow(at, 0, size)
    joined, at = rows.join(x, dim)
    return torch.index_select(joined, at, rows.numbers).reshape(index.shape)


def _scatter_add(
    x: torch.Tensor, dim: int, index: torch.Tensor, values: torch.Tensor, source: torch.Tensor | None
) -> Any:
    rows = _find_rows(x, dim, index, source)
    if rows is None or index.shape != values.shape or x.dtype not in (torch.float32, torch.bfloat16):
        return NotImplemented
    dim %= x.dim()
    if any(x.shape[at] != index.shape[at] for at in range(x.dim()) if at != dim):
        return NotImplemented
    (joined, at), (added, _) = rows.join(x, dim), rows.join(values, dim)
    # Sums of rows count from the end below 0, where this one refuses.
    numbers = torch.where(rows.numbers < 0, joined.shape[at], rows.numbers)
    return joined.index_add(at, numbers, added).reshape(x.shape)


@dataclass(frozen=True)
class _Rows:
    """Rows of matrices, by numbers.

    Attributes:
        matrices: How many; the dimensions ahead of the rows are one with them where there are several.
        numbers: Of the rows among all matrices; the number of all rows for one that is outside of its matrix.
    """

    matrices: int
    numbers: torch.Tensor

    def join(self, x: torch.Tensor, dim: int) -> tuple[torch.Tensor, int]:
        """A tensor with one matrix, and the dimension of its rows."""
        return (x, dim) if self.matrices == 1 else (x.reshape(-1, *x.shape[dim + 1 :]), 0)


def _find_rows(x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor | None) -> _Rows | None:
    """The rows that numbers choose, where an `expand` gives all elements of a row the same one."""
    if x.dim() == 0 or source is None or not static(*x.shape, *index.shape) or 0 in (*x.shape, *index.shape):
        return None
    dim %= x.dim()
    alike = _repeated_dims(index, source)
    own = [at for at, size in enumerate(index.shape) if at != dim and size > 1 and at not in alike]
    leading = max(own, default=-1) + 1
    if leading > dim or math.prod(size for at, size in enumerate(index.shape) if at >= leading and at != dim) == 1:
        return None
    numbers = source.reshape([1] * (index.dim() - source.dim()) + list(source.shape))
    for at in range(index.dim() - 1, -1, -1):
        if at >= leading and at != dim:
            numbers = numbers.select(at, 0)
    # What repeats ahead of the rows has their numbers once for each.
    wanted = (*index.shape[:leading], index.shape[dim])
    numbers = numbers if tuple(numbers.shape) == wanted else numbers.expand(wanted)
    matrices, count = math.prod(index.shape[:leading]), x.shape[dim]
    if matrices == 1:
        return _Rows(1, numbers.reshape(-1))
    if leading < dim:
        return None
    first = torch.arange(matrices).unsqueeze(-1) * count
    flat = numbers.reshape(matrices, -1)
    outside = (flat < 0) | (flat >= count)
    return _Rows(matrices, torch.where(outside, matrices * count, flat + first).reshape(-1))


def _index_add(x: torch.Tensor, dim: int, index: torch.Tensor, values: torch.Tensor, alpha: float = 1) -> Any:
    if not static(*values.shape) or x.dim() == 0 or index.dim() != 1 or not x.is_floating_point():
        return NotImplemented
    sizes = [-1 if at == dim % x.dim() else 1 for at in range(x.dim())]
    rows = values if alpha == 1 else values * alpha
    return torch.scatter_add(x, dim, index.long().reshape(sizes).expand_as(values), rows)


def _put_sum(x: torch.Tensor, indices: _Indices, values: torch.Tensor, accumulate: bool = False) -> Any:
    chosen = _chosen(indices)
    if not accumulate or len(chosen) != 1 or not static(*x.shape, *values.shape):
        return NotImplemented
    dim, index = chosen[0]
    if index.dtype not in _INTEGERS or index.dim() != 1 or not static(*index.shape):
        return NotImplemented
    rows = values.expand(*x.shape[:dim], index.shape[0], *x.shape[dim + 1 :])
    size = x.shape[dim]
    # Once more would be a place again, to those who count from the end themselves.
    places = torch.where(index < -size, size, torch.where(index < 0, index + size, index))
    return _index_add(x, dim, places, rows)
