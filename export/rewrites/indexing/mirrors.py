"""Write padding that repeats what is there as slices beside it, and reversals as rows in another order.

```
before:  y = aten.pad.default(x, [1, 1, 0, 0], "reflect")               # x: [1, 3, 8, 8]
after:   y = cat([x[..., 1:2], x, x[..., 6:7]], 3)

before:  y = aten.flip.default(x, [-1])                                 # x: [2, 64, 32, 32]
after:   y = aten.index_select.default(x.permute(3, 0, 1, 2), 0, [31, 30, ..., 0]).permute(1, 2, 3, 0)
```

Lowering would compute the places at every run and gather each element of the result by itself. More than a few rows are
gathered with constant places, and the rest is copied. At the end of a size that only a run knows, places are counted
from the end. ExecuTorch's `flip` computes the place of each number, 13 ns (one thread of a Zen processor). Left alone:
padding by a size that only a run knows, reversals of few numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Write, static, substitute

aten = torch.ops.aten

# Each is a slice of its own.
_MOST_SLICES = 8
# Numbers that are reversed one by one.
_FEWEST = 256
# From so many numbers on a row is copied where it lies.
_LONG_ROW = 8


def write_mirrors(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such padding of fixed sizes, and every reversal; the same program comes back without one."""
    rules: dict[Any, Write] = {aten.pad.default: lambda x, pad, mode, _: _pad(x, pad, mode), aten.flip.default: _flip}
    for rank in (1, 2, 3):
        rules |= {
            getattr(aten, f"reflection_pad{rank}d").default: lambda x, pad: _pad(x, pad, "reflect"),
            getattr(aten, f"replication_pad{rank}d").default: lambda x, pad: _pad(x, pad, "replicate"),
        }
    detail = "{count} padding(s) with what is there or reversal(s) ({operators}) became slices and rows"
    return substitute(program, "write_mirrors", rules, detail)


def _pad(x: torch.Tensor, pad: Sequence[int], mode: str) -> Any:
    if mode not in _EDGES or not static(*pad) or any(size < 0 for size in pad):
        return NotImplemented
    for at in range(0, len(pad), 2):
        dim, before, after = x.dim() - 1 - at // 2, pad[at], pad[at + 1]
        pieces = [*_EDGES[mode](x, dim, before, True), x, *_EDGES[mode](x, dim, after, False)]
        x = torch.cat(pieces, dim) if len(pieces) > 1 else x
    return x if any(pad) else x.clone()


def _flip(x: torch.Tensor, dims: Sequence[int]) -> Any:
    if not dims or not static(*x.shape) or x.numel() < _FEWEST:
        return NotImplemented
    for dim in sorted(dim % x.dim() for dim in dims):
        backwards = torch.arange(x.shape[dim] - 1, -1, -1)
        if x.shape[dim] == 1:
            continue
        if math.prod(x.shape[dim + 1 :]) >= _LONG_ROW:
            x = torch.index_select(x, dim, backwards)
        else:
            x = torch.index_select(x.movedim(dim, 0), 0, backwards).movedim(0, dim)
    return x


def _reflected(x: torch.Tensor, dim: int, count: int, before: bool) -> list[torch.Tensor]:
    first = count if before else -2
    if count <= _MOST_SLICES:
        return [_rows(x, dim, first - step, 1) for step in range(count)]
    if static(x.shape[dim]):
        first %= x.shape[dim]
        return [torch.index_select(x, dim, torch.arange(first, first - count, -1))]
    rows = _rows(x, dim, first - count + 1, count)
    return [torch.index_select(rows, dim, torch.arange(count - 1, -1, -1))]


def _replicated(x: torch.Tensor, dim: int, count: int, before: bool) -> list[torch.Tensor]:
    row = _rows(x, dim, 0 if before else -1, 1)
    if count <= _MOST_SLICES:
        return [row] * count
    return [row.expand([count if at == dim else -1 for at in range(x.dim())])]


def _wrapped(x: torch.Tensor, dim: int, count: int, before: bool) -> list[torch.Tensor]:
    return [_rows(x, dim, -count if before else 0, count)] if count else []


def _rows(x: torch.Tensor, dim: int, first: int, count: int) -> torch.Tensor:
    """`count` rows from `first` on, which is counted from the end where it is negative."""
    if static(x.shape[dim]):
        return x.narrow(dim, first % x.shape[dim], count)
    # Nothing may be asked of the size: that would fix it.
    cut: torch.Tensor = aten.slice.Tensor(x, dim, first, first + count or None)
    return cut


_EDGES = {"reflect": _reflected, "replicate": _replicated, "circular": _wrapped}
