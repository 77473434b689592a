"""Pieces of a tensor as slices, which XNNPACK takes, with the dimension that goes away taken out by a view.

```
before:  q, k, v = aten.unbind.int(x)                                                   # x: [3, 2, 9, 8]
after:   q = aten.slice.Tensor(x, 0, 0, 1).reshape(2, 9, 8); k = ...; v = ...

before:  y = aten.select.int(x, 1, 0)
after:   y = aten.slice.Tensor(x, 1, 0, 1).reshape(...)

before:  a, b = aten.split_with_sizes.default(x, [3, 5], 1)                             # `split.Tensor` and `chunk` too
after:   a = aten.slice.Tensor(x, 1, 0, 3); b = aten.slice.Tensor(x, 1, 3, 8)

before:  y = aten.slice.Tensor(x, 1, 0, 9223372036854775807, 2)                         # x: [1, 7, 7, 64]
after:   y = pad(x, to 8 rows).reshape(1, 4, 2, 7, 64)[:, :, 0:1].reshape(1, 4, 7, 64)

before:  y = aten.unsqueeze.default(x, 0); z = aten.squeeze.dim(y, 1)                   # x: [1, 8]
after:   y = x.reshape(1, 1, 8); z = y.reshape(1, 8)
```
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional as F

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rules, static, substitute
from edgex.export.rewrites.indexing.rolling import every

aten = torch.ops.aten


def slice_pieces(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such operator of fixed sizes; the same program comes back without one."""
    rules: Rules = {
        aten.unsqueeze.default: _with_dimension,
        aten.squeeze.default: lambda x: _without_dimensions(x, range(x.dim())),
        aten.squeeze.dim: lambda x, dim: _without_dimensions(x, (dim,)),
        aten.squeeze.dims: _without_dimensions,
        aten.unbind.int: _each,
        aten.select.int: _one,
        aten.split_with_sizes.default: _by_sizes,
        aten.split.Tensor: _of_size,
        aten.chunk.default: _chunks,
        aten.slice.Tensor: _with_step,
    }
    return substitute(program, "slice_pieces", rules, "{count} operator(s) ({operators}) became slices and views")


def _with_dimension(x: torch.Tensor, dim: int) -> Any:
    at = dim % (x.dim() + 1)
    return _viewed(x, [*x.shape[:at], 1, *x.shape[at:]])


def _without_dimensions(x: torch.Tensor, dims: Sequence[int]) -> Any:
    gone = {dim % max(x.dim(), 1) for dim in dims}
    return _viewed(x, [size for dim, size in enumerate(x.shape) if dim not in gone or size != 1])


def _viewed(x: torch.Tensor, shape: Sequence[int]) -> Any:
    # Not `reshape`, which would come out as the same operator again.
    return x.view(shape) if static(*x.shape) and x.is_floating_point() else NotImplemented


def _one(x: torch.Tensor, dim: int, index: int) -> Any:
    if not static(index, *x.shape) or not x.is_floating_point():
        return NotImplemented
    dim, shape = dim % x.dim(), list(x.shape)
    start = index % shape[dim]
    return aten.slice.Tensor(x, dim, start, start + 1).view(shape[:dim] + shape[dim + 1 :])


def _each(x: torch.Tensor, dim: int = 0) -> Any:
    if not static(*x.shape) or not x.is_floating_point():
        return NotImplemented
    return tuple(_one(x, dim, index) for index in range(x.shape[dim]))


def _by_sizes(x: torch.Tensor, sizes: Sequence[int], dim: int = 0) -> Any:
    if not static(*x.shape, *sizes) or not x.is_floating_point():
        return NotImplemented
    starts = [sum(sizes[:number]) for number in range(len(sizes))]
    return tuple(aten.slice.Tensor(x, dim, start, start + size) for start, size in zip(starts, sizes, strict=True))


def _of_size(x: torch.Tensor, size: int, dim: int = 0) -> Any:
    if not static(size, *x.shape) or size <= 0:
        return NotImplemented
    length = x.shape[dim]
    return _by_sizes(x, [min(size, length - start) for start in range(0, length, size)], dim)


def _with_step(x: torch.Tensor, dim: int, start: int | None, end: int | None, step: int) -> Any:
    """Every so many elements of a dimension that ends within the last group; others are slices by now."""
    if not static(step, *x.shape) or step < 2 or x.dim() == 0:
        return NotImplemented
    dim = dim % x.dim()
    chosen = range(x.shape[dim])[start:end:step] if static(start or 0, end or 0) else range(0)
    missing = chosen.start + len(chosen) * step - x.shape[dim]
    if missing <= 0:
        return NotImplemented
    return every(F.pad(x, [0, 0] * (x.dim() - 1 - dim) + [0, missing]), dim, chosen.start, x.shape[dim], step)


def _chunks(x: torch.Tensor, chunks: int, dim: int = 0) -> Any:
    return _of_size(x, -(-x.shape[dim] // chunks), dim) if static(*x.shape) else NotImplemented
