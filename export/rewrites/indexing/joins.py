"""Parts of a tensor that a program writes, joined: engines have no operator that writes into a copy.

```
before:  y = aten.copy.default(aten.slice.Tensor(x, 3, 0, 34), source)          # source: [1, 22, 1, 34]
         z = aten.slice_scatter.default(x, y, 3, 0, 34)                         # x: [1, 22, 7, 64]
after:   y = source.expand([1, 22, 7, 34])
         z = aten.cat.default([y, aten.slice.Tensor(x, 3, 34, 64)], 3)
```

`x[..., :34] = source` and `x[..., :34].copy_(source)` are the former, once operators return what they would write.
torch's translation to ONNX forgets that the source is repeated. Left alone: slices with steps, or along a dimension
whose size only a run knows, and programs with state, whose buffers are written in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rules, static, substitute

aten = torch.ops.aten


def join_writes(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Join every such part with what it lies in; the same program comes back without one, and with state."""
    if program.state:
        return program, None
    rules: Rules = {aten.copy.default: _copied, aten.slice_scatter.default: _joined}
    return substitute(program, "join_writes", rules, "{count} part(s) that are written ({operators}) are joined")


def _copied(x: torch.Tensor, source: torch.Tensor, _non_blocking: bool) -> Any:
    if _alike(x.shape, source.shape) and x.dtype == source.dtype:
        return source.clone()  # it may be an input, which is no result
    return source.to(x.dtype).expand(x.shape)


def _joined(x: torch.Tensor, source: torch.Tensor, dim: int, start: int | None, end: int | None, step: int) -> Any:
    if not static(x.shape[dim]) or not static(start or 0, end or 0) or step != 1 or x.dtype != source.dtype:
        return NotImplemented
    size = x.shape[dim]
    first, last, _ = slice(start, end).indices(size)
    if last <= first:
        return NotImplemented
    whole = list(x.shape)
    whole[dim] = last - first
    middle = source if _alike(source.shape, whole) else source.expand(whole)
    parts = [
        part for part in (x.narrow(dim, 0, first), middle, x.narrow(dim, last, size - last)) if part.shape[dim] > 0
    ]
    return torch.cat(parts, dim) if len(parts) > 1 else middle.clone()


def _alike(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether both are the same sizes, those that only a run knows by the same symbols."""
    return [str(size) for size in one] == [str(size) for size in other]
