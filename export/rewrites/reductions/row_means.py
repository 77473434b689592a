"""Write means and sums along rows as products with a column of constants, which XNNPACK takes.

```
before:  y = aten.mean.dim(x, [-1], True)                               # x: [1, 512, 576]
after:   y = aten.linear.default(x, [1, 576] of 1 / 576)

before:  y = aten.rms_norm.default(x, [576], weight, 1e-6)
after:   y = x * aten.rsqrt.default(linear(x * x, [1, 576] of 1 / 576) + 1e-6) * weight
```

XNNPACK averages images over height and width alone. ExecuTorch's kernel takes 2.6 times as long for such a mean, and
what is around it leaves the delegate and comes back: an RMSNorm and a SiLU took 1.6 times as long (512 rows of 576).
Left alone: other types than float32, weights, whose mean is a constant, and rows beyond `_LONGEST`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional as F

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.editor import constant_tensors
from edgex.export.rewrites.editing.substitution import Rule, Rules, static, substitute

aten = torch.ops.aten

# Each length is a constant of the program.
_LONGEST = 16384


def write_row_means(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such mean and sum; the same program comes back without one."""
    constants = constant_tensors(program)
    rules: Rules = {
        aten.mean.dim: Rule(_mean, where=lambda node: node.args[0] not in constants),
        aten.sum.dim_IntList: Rule(_sum, where=lambda node: node.args[0] not in constants),
        aten.rms_norm.default: _root_mean_square,
    }
    return substitute(
        program, "write_row_means", rules, "{count} {operators} along rows became products", keeps_float=True
    )


def _mean(x: torch.Tensor, dims: Sequence[int] | None, keepdim: bool, dtype: torch.dtype | None) -> Any:
    return _product(x, dims, keepdim, dtype, mean=True)


def _sum(x: torch.Tensor, dims: Sequence[int] | None, keepdim: bool, dtype: torch.dtype | None) -> Any:
    return _product(x, dims, keepdim, dtype, mean=False)


def _product(
    x: torch.Tensor, dims: Sequence[int] | None, keepdim: bool, dtype: torch.dtype | None, *, mean: bool
) -> Any:
    if x.dim() < 2 or x.dtype != torch.float32 or dtype not in (None, torch.float32) or not static(x.shape[-1]):
        return NotImplemented
    if dims is None or [dim % x.dim() for dim in dims] != [x.dim() - 1] or not 1 < x.shape[-1] <= _LONGEST:
        return NotImplemented
    y = F.linear(x, torch.full([1, x.shape[-1]], 1 / x.shape[-1] if mean else 1.0))
    return y if keepdim else y.squeeze(-1)


def _root_mean_square(x: torch.Tensor, shape: Sequence[int], weight: torch.Tensor | None, epsilon: float | None) -> Any:
    if len(shape) != 1:
        return NotImplemented
    mean = _product(x * x, [-1], True, None, mean=True)
    if mean is NotImplemented:
        return mean
    y = x * torch.rsqrt(mean + (torch.finfo(x.dtype).eps if epsilon is None else epsilon))
    return y if weight is None else y * weight
