"""Write means and sums over height and width as the one mean that XNNPACK has: of images, with the dimensions kept.

```
before:  y = aten.sum.dim_IntList(x, [1, 2], True)                      # x: [1, 14, 14, 640], channels last
after:   y = aten.mean.dim(x.permute(0, 3, 1, 2), [2, 3], True).permute(0, 2, 3, 1) * 196

before:  y = aten.mean.dim(x, [2, 3])                                   # x: [1, 640, 7, 7]
after:   y = aten.mean.dim(x, [2, 3], True).reshape(1, 640)
```

ExecuTorch's kernel reads one number in a row of channels (the response norm of ConvNeXt V2). Left alone: other types
than float32, weights, whose mean is a constant, and sizes that only a run knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.editor import constant_tensors
from edgex.export.rewrites.editing.substitution import Rule, Rules, static, substitute

aten = torch.ops.aten


def write_plane_means(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such mean and sum; the same program comes back without one."""
    constants = constant_tensors(program)
    rules: Rules = {
        aten.mean.dim: Rule(_mean, where=lambda node: node.args[0] not in constants),
        aten.sum.dim_IntList: Rule(_sum, where=lambda node: node.args[0] not in constants),
    }
    return substitute(program, "write_plane_means", rules, "{count} {operators} over planes became means of images")


def _mean(x: torch.Tensor, dims: Sequence[int] | None, keepdim: bool, dtype: torch.dtype | None) -> Any:
    if keepdim and x.dim() == 4 and dims is not None and sorted(dim % 4 for dim in dims) == [2, 3]:
        return NotImplemented  # XNNPACK's own
    return _over_planes(x, dims, keepdim, dtype)


def _sum(x: torch.Tensor, dims: Sequence[int] | None, keepdim: bool, dtype: torch.dtype | None) -> Any:
    mean = _over_planes(x, dims, keepdim, dtype)
    if mean is NotImplemented:
        return mean
    return mean * float(x.numel() // mean.numel())


def _over_planes(x: torch.Tensor, dims: Sequence[int] | None, keepdim: bool, dtype: torch.dtype | None) -> Any:
    fits = x.dim() == 4 and x.dtype == torch.float32 and dtype in (None, torch.float32) and static(*x.shape)
    over = sorted(dim % 4 for dim in dims or ()) if fits else []
    if over == [2, 3]:
        mean = torch.mean(x, (2, 3), True)
        return mean if keepdim else mean.reshape(x.shape[:2])
    if over == [1, 2]:
        mean = torch.mean(x.permute(0, 3, 1, 2), (2, 3), True)
        return mean.permute(0, 2, 3, 1) if keepdim else mean.reshape(x.shape[0], x.shape[3])
    return NotImplemented
