"""Pieces of a tensor that lie apart, as slices of step 1: turned windows, and every second row.

```
before:  y = aten.roll.default(x, [-4, -4], [1, 2])             # shifted windows
after:   y = cat([x[:, 4:], x[:, :4]], 1); y = cat([y[:, :, 4:], y[:, :, :4]], 2)

before:  y = aten.slice.Tensor(x, 1, 1, 9223372036854775807, 2)                         # x[:, 1::2], x: [1, 8, 8, 16]
after:   y = x.view(1, 4, 2, 8, 16)[:, :, 1]
```

Lowering would write the first as an index_select of places that every run computes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rules, static, substitute

aten = torch.ops.aten

# XNNPACK's tensors have no more dimensions.
_MOST_DIMENSIONS = 6


def slice_apart(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such operator of fixed sizes; the same program comes back without one."""
    rules: Rules = {aten.roll.default: _roll, aten.slice.Tensor: _every}
    return substitute(program, "slice_apart", rules, "{count} operator(s) ({operators}) became slices of step 1")


def _roll(x: torch.Tensor, shifts: Sequence[int], dims: Sequence[int] = ()) -> Any:
    if not dims or len(dims) != len(shifts) or not static(*x.shape, *shifts):
        return NotImplemented
    for shift, dim in zip(shifts, dims, strict=True):
        size = x.shape[dim]
        start = -shift % size if size else 0
        if start:
            x = torch.cat([x.narrow(dim, start, size - start), x.narrow(dim, 0, start)], dim)
    return x if any(shift % max(x.shape[dim], 1) for shift, dim in zip(shifts, dims, strict=True)) else x.clone()


def _every(x: torch.Tensor, dim: int, start: int | None, end: int | None, step: int) -> Any:
    if not static(*x.shape, step, *(at for at in (start, end) if at is not None)):
        return NotImplemented
    dim, shape, first = dim % max(x.dim(), 1), list(x.shape), start or 0
    whole = step > 1 and 0 <= first < step and (end is None or end >= shape[dim]) and shape[dim] % step == 0
    if not whole or x.dim() >= _MOST_DIMENSIONS or not x.is_floating_point() or not x.is_contiguous():
        return NotImplemented
    parts = x.view([*shape[:dim], shape[dim] // step, step, *shape[dim + 1 :]])
    return parts.narrow(dim + 1, first, 1).view([*shape[:dim], shape[dim] // step, *shape[dim + 1 :]])
