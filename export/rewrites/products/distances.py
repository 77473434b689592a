"""Write distances between all rows as differences, or as products where those would be many numbers.

```
before:  y = aten.cdist.default(a, b)                          # a: [5, 8], b: [7, 8]
after:   y = sqrt(sum((a[:, None] - b[None]) ** 2, -1))

before:  y = aten.cdist.default(a, b)                          # a: [784, 1536], b: [2000, 1536]
after:   y = sqrt(relu(sum(a * a, -1, True) + sum(b * b, -1) - 2 * a @ b.T))
```

PyTorch itself takes products from 25 rows on. PyTorch's ONNX exporter has no translation for what `cdist` becomes.
Left alone are distances of other dtypes than float32, and of large sets other than euclidean ones.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rules, static, substitute

aten = torch.ops.aten

# Differences that are made at once: 16 MiB.
_MOST_DIFFERENCES = 4 << 20


def write_distances(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such operator; the same program comes back without one."""
    rules: Rules = {aten.cdist.default: _between, aten._cdist_forward.default: _between, aten.pdist.default: _within}
    return substitute(program, "write_distances", rules, "{count} {operators} became differences or products")


def _between(a: torch.Tensor, b: torch.Tensor, p: float, _mode: int | None) -> Any:
    if a.dtype != torch.float32 or b.dtype != torch.float32 or not static(*a.shape, *b.shape):
        return NotImplemented
    made = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])  # type: ignore[no-untyped-call]
    if math.prod(made) * a.shape[-2] * b.shape[-2] * a.shape[-1] <= _MOST_DIFFERENCES:
        return _norm(a.unsqueeze(-2) - b.unsqueeze(-3), p)
    if p != 2:
        return NotImplemented
    squares = (a * a).sum(-1, keepdim=True) + (b * b).sum(-1).unsqueeze(-2)
    return torch.sqrt(torch.relu(squares - 2 * (a @ b.transpose(-2, -1))))


def _within(a: torch.Tensor, p: float) -> Any:
    if a.dtype != torch.float32 or not static(*a.shape) or a.shape[0] ** 2 * a.shape[1] > _MOST_DIFFERENCES:
        return NotImplemented
    rows = [a[at : at + 1] - a[at + 1 :] for at in range(a.shape[0] - 1)]
    return _norm(torch.cat(rows), p) if rows else NotImplemented


def _norm(x: torch.Tensor, p: float) -> torch.Tensor:
    if p == 2:
        return torch.sqrt((x * x).sum(-1))
    if p == 1:
        return x.abs().sum(-1)
    if p == 0:
        return (x != 0).to(x.dtype).sum(-1)
    if math.isinf(p):
        return x.abs().amax(-1)
    return torch.pow(torch.pow(x.abs(), p).sum(-1), 1 / p)
