"""Write variances as means, and a largest element without its place as a plain maximum.

```
before:  s = aten.std.correction(x, [2], correction=1, keepdim=True)    # x: [1, 8, 50]
after:   d = x - mean(x, [2], True)
         s = sqrt(mean(d * d, [2], True) * (50 / 49))

before:  y = aten.max.dim(x, 2); values = y[0]                          # y[1] is read by nothing
after:   values = aten.amax.default(x, [2])
```

ExecuTorch's kernels for them run on one thread and cut a region in two. Left alone: sizes that only a run knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rule, Rules, static, substitute, used_results

aten = torch.ops.aten


def write_statistics(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such operator; the same program comes back without one."""
    rules: Rules = {
        **_VARIANCES,
        aten.max.dim: Rule(lambda x, dim, keepdim: (_extreme(torch.amax, x, dim, keepdim), None), where=_only_values),
        aten.min.dim: Rule(lambda x, dim, keepdim: (_extreme(torch.amin, x, dim, keepdim), None), where=_only_values),
    }
    return substitute(program, "write_statistics", rules, "{count} operator(s) ({operators}) became means and maxima")


def write_variances(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write variances over channels, whole images or rows, whose means XNNPACK takes; others are left alone."""
    rules: Rules = {operator: Rule(write, where=_has_means) for operator, write in _VARIANCES.items()}
    detail = "{count} variance(s) ({operators}) became means"
    return substitute(program, "write_variances", rules, detail, keeps_float=True)


def _has_means(node: Node) -> bool:
    value, dims = node.args[0], node.args[1] if len(node.args) > 1 else None
    if not isinstance(value, Node) or not isinstance(dims, list | tuple):
        return False
    rank = value.meta["val"].dim()
    over = sorted(int(dim) % rank for dim in dims)
    return (rank in (3, 4) and over == [1]) or (rank == 4 and over == [2, 3]) or (rank > 1 and over == [rank - 1])


def _by_correction(*, root: bool) -> Callable[..., Any]:
    def write(x: torch.Tensor, dims: Sequence[int] | None, correction: float | None, keepdim: bool) -> Any:
        return _variance(x, dims, 1.0 if correction is None else float(correction), keepdim, root)

    return write


def _by_bias(*, root: bool) -> Callable[..., Any]:
    def write(x: torch.Tensor, dims: Sequence[int] | None, unbiased: bool, keepdim: bool) -> Any:
        return _variance(x, dims, float(unbiased), keepdim, root)

    return write


def _variance(x: torch.Tensor, dims: Sequence[int] | None, correction: float, keepdim: bool, root: bool) -> Any:
    if x.dtype != torch.float32 or x.dim() == 0:
        return NotImplemented
    over = sorted({dim % x.dim() for dim in dims}) if dims else list(range(x.dim()))
    if not static(*(x.shape[dim] for dim in over)):
        return NotImplemented
    count = prod(x.shape[dim] for dim in over)
    if count <= correction:
        return NotImplemented
    distance = x - torch.mean(x, over, keepdim=True)
    variance = torch.mean(distance * distance, over, keepdim=keepdim)
    variance = variance if correction == 0 else variance * (count / (count - correction))
    return torch.sqrt(variance) if root else variance


_VARIANCES: Mapping[Any, Callable[..., Any]] = {
    aten.var.correction: _by_correction(root=False),
    aten.std.correction: _by_correction(root=True),
    aten.var.dim: _by_bias(root=False),
    aten.std.dim: _by_bias(root=True),
}


def _only_values(node: Node) -> bool:
    value = node.args[0].meta["val"] if isinstance(node.args[0], Node) else None
    return used_results(node) == {0} and isinstance(value, torch.Tensor) and value.is_floating_point()


def _extreme(of: Callable[..., torch.Tensor], x: torch.Tensor, dim: int, keepdim: bool) -> torch.Tensor:
    return of(x, [dim], keepdim=keepdim)
