"""Write scattered maxima in order of the values, for engines that write one after another.

```
before:  y = aten.scatter_reduce.two(x, 0, index, src, "amax")                  # src: [3000]
after:   values, order = aten.topk.default(src, 3000, 0, False)
         y = maximum(x, aten.scatter.src(x, 0, index[order], values))           # the last at a place is its largest
```

ExecuTorch has no kernel for the former. Merely to compare each value with each place takes its others 19 ns a pair, and
to sort 100 ns a value (3,000 edges, 500 places, one thread of a Xeon). Softmax over the edges of a graph is made of
them. Left alone: sizes that only a run knows.
"""

from __future__ import annotations

from typing import Any

import torch

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rules, static, substitute
from edgex.export.rewrites.scattering.sums import of_rows

aten = torch.ops.aten


def scatter_in_order(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every scattered maximum and minimum of fixed sizes; the same program comes back without one."""
    rules: Rules = {aten.scatter_reduce.two: _scatter_reduce, aten.index_reduce.default: of_rows(_scatter_reduce)}
    return substitute(program, "scatter_in_order", rules, "{count} scattered extreme(s) are written in order")


def _scatter_reduce(
    x: torch.Tensor, dim: int, index: torch.Tensor, src: torch.Tensor, reduce: str, include_self: bool
) -> Any:
    if reduce not in ("amax", "amin") or not x.is_floating_point() or x.dim() == 0:
        return NotImplemented
    fits = static(*x.shape, *index.shape) and index.shape == src.shape and index.dim() == x.dim()
    if not fits or src.numel() == 0:
        return NotImplemented
    if reduce == "amin":  # NaN counts as the largest
        return -_largest(-x, dim, index, -src, include_self)
    return _largest(x, dim, index, src, include_self)


def _largest(x: torch.Tensor, dim: int, index: torch.Tensor, src: torch.Tensor, include_self: bool) -> torch.Tensor:
    # Top-k sorts along the last dimension at once.
    last, places = src.movedim(dim, -1), index.movedim(dim, -1)
    values, order = last.topk(last.shape[-1], dim=-1, largest=False)
    sent = places.gather(-1, order).movedim(-1, dim)
    found = torch.scatter(x, dim, sent, values.movedim(-1, dim))
    return torch.maximum(x, found) if include_self else found
