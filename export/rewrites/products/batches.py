"""Products of stacks of matrices as `bmm`, which XNNPACK takes; `matmul` becomes copies around it when it is lowered.

```
before:  y = aten.matmul.default(q, k)                                                  # [2, 4, 9, 8] x [2, 4, 8, 9]
after:   y = aten.bmm.default(q.reshape(8, 9, 8), k.reshape(8, 8, 9)).reshape(2, 4, 9, 9)
```

Left alone: matrices that are repeated, vectors, a single matrix of weights.
"""

from __future__ import annotations

from math import prod
from typing import Any

import torch

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import static, substitute

aten = torch.ops.aten


def write_batches(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such product; the same program comes back without one."""
    detail = "{count} product(s) of stacks of matrices became bmm"
    return substitute(program, "write_batches", {aten.matmul.default: _stacked}, detail)


def _stacked(left: torch.Tensor, right: torch.Tensor) -> Any:
    batch = left.shape[:-2]
    if (
        left.dim() < 4
        or right.dim() != left.dim()
        or not static(*left.shape, *right.shape)
        or right.shape[:-2] != batch
    ):
        return NotImplemented
    count = prod(batch)
    product = torch.bmm(left.reshape(count, *left.shape[-2:]), right.reshape(count, *right.shape[-2:]))
    return product.reshape(*batch, *product.shape[-2:])
