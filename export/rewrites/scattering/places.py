"""Formulas of operators that write at places: diagonals, steps through memory, elements of the flat tensor.

```
before:  y = aten.diagonal_scatter.default(x, values)      # x: [3, 4]
after:   flat = aten.slice_scatter.default(x.reshape(12), values, 0, 0, 11, 5)      # one row and one column on
         y = flat.reshape(3, 4)
```
"""

from __future__ import annotations

from typing import Any

import torch

from edgex.export.rewrites.editing.substitution import Rules, static

aten = torch.ops.aten


def rules_of_places() -> Rules:
    """The rules of this file, by operator."""
    return {
        aten.diagonal_scatter.default: _diagonal_scatter,
        aten.put.default: _put,
        aten.as_strided_scatter.default: _strided_scatter,
    }


def _diagonal_scatter(x: torch.Tensor, values: torch.Tensor, offset: int, dim1: int, dim2: int) -> Any:
    rows, columns = x.shape[dim1], x.shape[dim2]
    if not static(rows, columns):
        return NotImplemented
    start = offset if offset >= 0 else -offset * columns
    count = values.shape[-1]
    last = torch.movedim(x, (dim1, dim2), (-2, -1))
    flat = last.reshape(*last.shape[:-2], rows * columns)
    end = start + (count - 1) * (columns + 1) + 1
    changed = torch.slice_scatter(flat, values, flat.dim() - 1, start, end, columns + 1)
    return torch.movedim(changed.reshape(last.shape), (-2, -1), (dim1, dim2))


def _strided_scatter(x: torch.Tensor, values: torch.Tensor, size: Any, stride: Any, offset: int | None) -> Any:
    # One step through memory: what `fill_diagonal_` writes.
    if len(size) != 1 or not static(*x.shape, *size, *stride, offset or 0) or not x.is_contiguous() or stride[0] < 1:
        return NotImplemented
    start = offset or 0
    if size[0] == 0:
        return x.clone()
    end = start + (size[0] - 1) * stride[0] + 1
    return torch.slice_scatter(x.reshape(-1), values, 0, start, end, stride[0]).reshape(x.shape)


def _put(x: torch.Tensor, index: torch.Tensor, values: torch.Tensor, accumulate: bool) -> Any:
    flat = aten.index_put(x.reshape(-1), [index.reshape(-1)], values.reshape(-1), accumulate)
    return flat.reshape(x.shape)
