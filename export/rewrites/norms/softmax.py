"""Write softmax over another dimension than the last as one over the last, the only one that XNNPACK has.

```
before:  y = aten.softmax.int(x, 2)                                     # x: [1, 4, 16, 8400], boxes of a detector
after:   y = aten.softmax.int(x.transpose(2, 3), 3).transpose(2, 3)
```

ExecuTorch's kernel walks over the tensor with steps as long as what follows the dimension.

Of few elements (two branches, two classes) a softmax is written out: engines take 60 ns for each, however few it has.
For two images of 256 x 256 that is 3.7 ms with XNNPACK and 0.3 in parts, 4.0 with oneDNN and 0.3 with reductions (one
thread of a Xeon with AVX-512).

```
after:   most  = aten.maximum.default(first, second)                    # parts of x: [1, 2, 256, 256], for `xnnpack`
         one   = aten.exp.default(first - most), other = aten.exp.default(second - most)
         y     = aten.cat.default([one / (one + other), other / (one + other)], 1)

after:   most  = aten.amax.default(x, [1], True); e = aten.exp.default(x - most)        # for `onednn`
         y     = e / aten.sum.dim_IntList(e, [1], True)
```
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import torch

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rules, static, substitute

aten = torch.ops.aten

# Of as many elements both ways take as long: 16 of 8,400.
_FEW = 12
# More parts than that are more operators than they save.
_PARTS = 8
# Below it, what each operator costs anyway is more than the softmax.
_LEAST = 1024


def part_softmax(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write those of few elements part by part; the same program comes back without one."""
    return _write_out(program, "part_softmax", _parted, _PARTS)


def reduce_softmax(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write those of few elements with reductions; the same program comes back without one."""
    return _write_out(program, "reduce_softmax", _of_reductions, _FEW)


def _write_out(
    program: CapturedProgram, name: str, write: Callable[..., torch.Tensor], most: int
) -> tuple[CapturedProgram, Rewrite | None]:
    rules: Rules = {
        aten.softmax.int: partial(_thin, write, most, False),
        aten.log_softmax.int: partial(_thin, write, most, True),
    }
    detail = "{count} softmax(es) of few elements ({operators}) are written out"
    return substitute(program, name, rules, detail, keeps_float=True)


def _thin(
    write: Callable[..., torch.Tensor],
    most: int,
    logarithmic: bool,
    x: torch.Tensor,
    dim: int,
    dtype: torch.dtype | None,
) -> Any:
    if x.dim() < 2 or not static(*x.shape) or x.dtype != torch.float32 or dtype not in (None, x.dtype):
        return NotImplemented
    size, inner = x.shape[dim], math.prod(x.shape[dim % x.dim() + 1 :])
    # Along a row, reductions are slow themselves.
    if not 1 < size <= most or inner < size or x.numel() // size < _LEAST:
        return NotImplemented
    return write(x, dim, logarithmic)


def _parted(x: torch.Tensor, dim: int, logarithmic: bool) -> torch.Tensor:
    parts = [x.narrow(dim, at, 1) for at in range(x.shape[dim])]
    most = reduce(torch.maximum, parts)
    lower = [part - most for part in parts]
    powers = [part.exp() for part in lower]
    total = reduce(torch.add, powers)
    if logarithmic:
        size = total.log()
        return torch.cat([part - size for part in lower], dim)
    return torch.cat([part / total for part in powers], dim)


def _of_reductions(x: torch.Tensor, dim: int, logarithmic: bool) -> torch.Tensor:
    lower = x - x.amax(dim, keepdim=True)
    powers = lower.exp()
    total = powers.sum(dim, keepdim=True)
    return lower - total.log() if logarithmic else powers / total


def move_softmax(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such softmax; the same program comes back without one."""
    rules: Rules = {aten.softmax.int: _softmax}
    return substitute(program, "move_softmax", rules, "{count} softmax(es) became one(s) over the last dimension")


def _softmax(x: torch.Tensor, dim: int, dtype: torch.dtype | None) -> Any:
    last = x.dim() - 1
    if last < 1 or dim % x.dim() == last or dtype not in (None, x.dtype):
        return NotImplemented
    if last == 3 and dim % 4 == 1:  # as images lie in memory behind a convolution
        return torch.softmax(x.permute(0, 2, 3, 1), last).permute(0, 3, 1, 2)
    return torch.softmax(x.transpose(dim, last), last).transpose(dim, last)
