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
    rules: Rules = {aten.roll.default: _roll, aten.slice.Tensor: every}
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


def every(x: torch.Tensor, dim: int, start: int | None, end: int | None, step: int) -> Any:
    """`x[start:end:step]` along a dimension, as one element of each group of `step`.

    Args:
        x: Floating point, of fixed sizes, with room for the groups' dimension.
        dim: Along which.
        start: As a slice has it.
        end: Likewise.
        step: At least 2 where it applies.

    Returns:
        The slice, or `NotImplemented`, also where no groups of that size are in the tensor.
    """
    if not static(*x.shape, step, *(at for at in (start, end) if at is not None)):
        return NotImplemented
    if step < 2 or not 0 < x.dim() < _MOST_DIMENSIONS or not x.is_floating_point():
        return NotImplemented
    dim = dim % x.dim()
    size, ahead, behind = x.shape[dim], list(x.shape[:dim]), list(x.shape[dim + 1 :])
    chosen = range(size)[start:end:step]
    count = len(chosen)
    # Groups begin ahead of the first element where they would else end behind the tensor.
    first = min(chosen.start, size - count * step)
    if count < 2 or first < 0:
        return NotImplemented
    parts, within = x.narrow(dim, first, count * step).view([*ahead, count, step, *behind]), chosen.start - first
    if not behind:  # elements become rows, each of which is copied at once
        return parts.transpose(dim, dim + 1).narrow(dim, within, 1).view([*ahead, count])
    return parts.narrow(dim + 1, within, 1).view([*ahead, count, *behind])
