"""Write running products, maxima and sums of exponentials as a few steps over shifted copies.

```
before:  y = aten.cumprod.default(x, 0)                                 # x: [8]
after:   x = x * cat([ones[1], x[:7]])                                  # products of 2
         x = x * cat([ones[2], x[:6]])                                  # of 4
         y = x * cat([ones[4], x[:4]])                                  # of 8
```

The same for `logcumsumexp`, where each step is `logaddexp`, so that no exponential leaves float32's range, and for
`cummax` and `cummin`, whose indices are the running maximum of the places at which a value equals what is found there.
As many steps as the size has binary digits (Hillis and Steele, Data Parallel Algorithms, 1986). Left alone: dynamic
sizes, more than 4096 elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import named_arguments
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rule, Rules, static, substitute, used_results
from edgex.export.rewrites.operators.logarithms import add_in_logarithms

aten = torch.ops.aten

_LONGEST = 4096


def write_scans(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such operator in steps; the same program comes back without one."""
    rules: Rules = {
        aten.cumprod.default: _cumprod,
        aten.logcumsumexp.default: lambda x, dim: _scan(x, dim, add_in_logarithms, -math.inf),
        aten.cummax.default: Rule(_cummax, operands=_with_what_is_used),
        aten.cummin.default: Rule(_cummin, operands=_with_what_is_used),
    }
    return substitute(program, "write_scans", rules, "{count} running operator(s) ({operators}) are done in steps")


def _cumprod(x: torch.Tensor, dim: int, dtype: torch.dtype | None) -> Any:
    return _scan(x, dim, torch.mul, 1.0) if dtype in (None, x.dtype) else NotImplemented


def _with_what_is_used(node: Node) -> tuple[Any, ...]:
    return (*named_arguments(node).values(), 1 in used_results(node))


def _cummax(x: torch.Tensor, dim: int, indexed: bool) -> Any:
    least = -math.inf if x.is_floating_point() else torch.iinfo(x.dtype).min
    return _running(x, dim, torch.maximum, least, indexed)


def _cummin(x: torch.Tensor, dim: int, indexed: bool) -> Any:
    most = math.inf if x.is_floating_point() else torch.iinfo(x.dtype).max
    return _running(x, dim, torch.minimum, most, indexed)


def _running(x: torch.Tensor, dim: int, combine: Callable[..., torch.Tensor], neutral: float, indexed: bool) -> Any:
    """Values, and the place of each: of equal ones the last, and of NaN, which stays once it is there."""
    values = _scan(x, dim, combine, neutral)
    if values is NotImplemented or not indexed:
        return values if values is NotImplemented else (values, None)
    places = torch.arange(x.shape[dim], device=x.device)
    places = places.reshape([-1 if at == dim % x.dim() else 1 for at in range(x.dim())])
    is_there = (x == values) | (x != x)
    return values, _scan(torch.where(is_there, places, torch.zeros_like(places)), dim, torch.maximum, 0)


def _scan(x: torch.Tensor, dim: int, combine: Callable[..., torch.Tensor], neutral: float) -> Any:
    size = x.shape[dim] if x.dim() else 0
    if x.dtype in (torch.bool, torch.complex64) or not static(size) or not 0 < size <= _LONGEST:
        return NotImplemented
    step = 1
    while step < size:
        before = torch.full_like(x.narrow(dim, 0, step), neutral)
        x = combine(torch.cat([before, x.narrow(dim, 0, size - step)], dim), x)
        step *= 2
    return x.clone() if size == 1 else x
