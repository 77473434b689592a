"""Take a diagonal by steps through memory, for ONNX, where it would be a product with a mask.

```
before:  y = aten.diagonal.default(x)                      # x: [3, 4]; becomes x * mask, summed: inf * 0 is NaN
after:   y = aten.slice.Tensor([12], 0, 0, 12, 5)          # one row and one column on
```
"""

from __future__ import annotations

from typing import Any

import torch

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rules, static, substitute


def slice_diagonals(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every diagonal of static sizes as a slice; the same program comes back without one."""
    rules: Rules = {torch.ops.aten.diagonal.default: _diagonal}
    return substitute(program, "slice_diagonals", rules, "{count} diagonal(s) are slices instead of products")


def _diagonal(x: torch.Tensor, offset: int, dim1: int, dim2: int) -> Any:
    rows, columns = x.shape[dim1], x.shape[dim2]
    if not static(rows, columns):
        return NotImplemented
    start = offset if offset >= 0 else -offset * columns
    count = min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns)
    if count <= 0:
        return NotImplemented
    last = torch.movedim(x, (dim1, dim2), (-2, -1))
    flat = last.reshape(*last.shape[:-2], rows * columns)
    return flat[..., start : start + (count - 1) * (columns + 1) + 1 : columns + 1]
