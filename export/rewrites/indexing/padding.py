"""Write padding by less than nothing as a slice, for ExecuTorch, whose kernel refuses it when the program runs.

The same for `narrow_copy`: a dimension counted from the end ends the process there.

```
before:  y = aten.pad.default(x, [-1, 2])                  # x: [3, 8]
after:   y = aten.pad.default(aten.slice.Tensor(x, 1, 1, 8), [0, 2])

before:  y = aten.narrow_copy.default(x, -1, 2, 4)
after:   y = aten.slice.Tensor(x, 1, 2, 6)
```
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional as F

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rules, static, substitute

aten = torch.ops.aten


def slice_padding(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every padding that crops as slices and the rest; the same program comes back without one."""
    rules: Rules = {
        aten.pad.default: _pad,
        aten.constant_pad_nd.default: _constant_pad,
        aten.narrow_copy.default: _narrow,
    }
    return substitute(program, "slice_padding", rules, "{count} operator(s) ({operators}) that crop became slices")


def _narrow(x: torch.Tensor, dim: int, start: int, length: int) -> Any:
    return x.narrow(dim, start, length).clone() if static(start, length) else NotImplemented


def _constant_pad(x: torch.Tensor, pad: Sequence[int], value: float) -> Any:
    return _pad(x, pad, "constant", value)


def _pad(x: torch.Tensor, pad: Sequence[int], mode: str, value: float | None) -> Any:
    if mode != "constant" or not static(*pad) or all(size >= 0 for size in pad):
        return NotImplemented
    for at in range(0, len(pad), 2):
        dim = x.dim() - 1 - at // 2
        before, after = max(-pad[at], 0), max(-pad[at + 1], 0)
        if before or after:
            x = x.narrow(dim, before, x.shape[dim] - before - after)
    rest = [max(size, 0) for size in pad]
    return F.pad(x, rest, mode, value) if any(rest) else x.clone()
