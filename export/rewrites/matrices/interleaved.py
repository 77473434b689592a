"""Interleave numbers by joining rows and transposing them: engines join stretches, each by a copy of its own.

```
before:  y = aten.stack.default([even, odd], -1)                        # even, odd: [96, 200]
after:   rows = aten.cat.default([even.reshape(1, 19200), odd.reshape(1, 19200)], 0)
         y = aten.permute.default(rows, [1, 0]).reshape(96, 200, 2)
```

Single numbers took XNNPACK 4 to 5 ns each, and oneDNN 10 ns those of overlapping windows; they take 0.3 to 2 so (one
thread of AVX2). Parts of windows (`unfold`), rotated pairs and
complex numbers come so. Left alone: stretches of more than 8 numbers, parts of several sizes, few numbers, other types
than float32, and sizes that only a run knows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rules, static, substitute

aten = torch.ops.aten

# Numbers that lie side by side in a part: more are copied quickly.
_MOST_INSIDE = 8
# Numbers in all, below which two operators more cost as much.
_LEAST = 4096


def interleave_by_transposing(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such join; the same program comes back without one."""
    rules: Rules = {aten.cat.default: _joined, aten.stack.default: _stacked}
    detail = "{count} join(s) of single numbers became transposed rows"
    return substitute(program, "interleave_by_transposing", rules, detail)


def _stacked(parts: Sequence[torch.Tensor], dim: int) -> Any:
    if not parts or not static(*parts[0].shape):
        return NotImplemented
    at = dim % (parts[0].dim() + 1)
    shape = [*parts[0].shape[:at], len(parts), *parts[0].shape[at:]]
    return _interleaved(parts, math.prod(parts[0].shape[at:]), shape)


def _joined(parts: Sequence[torch.Tensor], dim: int) -> Any:
    if not parts or not all(static(*part.shape) for part in parts) or len({tuple(part.shape) for part in parts}) > 1:
        return NotImplemented
    at = dim % max(parts[0].dim(), 1)
    shape = list(parts[0].shape)
    if not shape:
        return NotImplemented
    shape[at] *= len(parts)
    return _interleaved(parts, math.prod(parts[0].shape[at:]), shape)


def _interleaved(parts: Sequence[torch.Tensor], inside: int, shape: Sequence[int]) -> Any:
    """Parts of which `inside` numbers come at a time."""
    outside = parts[0].numel() // max(inside, 1)
    if any(part.dtype != torch.float32 for part in parts) or not 1 <= inside <= _MOST_INSIDE:
        return NotImplemented
    if len(parts) < 2 or outside < 2 or math.prod(shape) < _LEAST:
        return NotImplemented
    if inside == 1:
        return torch.cat([part.reshape(1, outside) for part in parts], 0).permute(1, 0).reshape(list(shape))
    rows = torch.cat([part.reshape(1, outside, inside) for part in parts], 0)
    return rows.permute(1, 0, 2).reshape(list(shape))
