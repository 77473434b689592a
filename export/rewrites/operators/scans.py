"""Write running products, maxima and sums of exponentials as a few steps over shifted copies.

```
before:  y = aten.cumprod.default(x, 0)                                 # x: [8]
after:   x = x * cat([ones[1], x[:7]])                                  # products of 2
         x = x * cat([ones[2], x[:6]])                                  # of 4
         y = x * cat([ones[4], x[:4]])                                  # of 8
```

The same for `logcumsumexp`, where each step is `logaddexp`, so that no exponential leaves float32's range, and for the
values of `cummax` and `cummin`. As many steps as the size has binary digits (Hillis and Steele, Data Parallel
Algorithms, 1986). Left alone: dynamic sizes, more than 4096 elements, indices that are used.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rules, static, substitute
from edgex.export.rewrites.operators.logarithms import add_in_logarithms

aten = torch.ops.aten

_LONGEST = 4096


def write_scans(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such operator in steps; the same program comes back without one."""
    rules: Rules = {
        aten.cumprod.default: _cumprod,
        aten.logcumsumexp.default: lambda x, dim: _scan(x, dim, add_in_logarithms, -math.inf),
        aten.cummax.default: lambda x, dim: _values(_scan(x, dim, torch.maximum, -math.inf)),
        aten.cummin.default: lambda x, dim: _values(_scan(x, dim, torch.minimum, math.inf)),
    }
    return substitute(program, "write_scans", rules, "{count} running operator(s) ({operators}) are done in steps")


def _cumprod(x: torch.Tensor, dim: int, dtype: torch.dtype | None) -> Any:
    return _scan(x, dim, torch.mul, 1.0) if dtype in (None, x.dtype) else NotImplemented


def _values(found: Any) -> Any:
    return found if found is NotImplemented else (found, None)


def _scan(x: torch.Tensor, dim: int, combine: Callable[..., torch.Tensor], neutral: float) -> Any:
    size = x.shape[dim] if x.dim() else 0
    if not x.is_floating_point() or not static(size) or not 0 < size <= _LONGEST:
        return NotImplemented
    step = 1
    while step < size:
        before = torch.full_like(x.narrow(dim, 0, step), neutral)
        x = combine(torch.cat([before, x.narrow(dim, 0, size - step)], dim), x)
        step *= 2
    return x.clone() if size == 1 else x
