"""Average large images in two steps, in which equal numbers do not add up to another mean.

```
before:  y = aten.adaptive_avg_pool2d.default(x, [1, 1])                # x: [2, 32, 64, 48]
after:   y = aten.adaptive_avg_pool2d.default(aten.avg_pool2d.default(x, [8, 6], [8, 6]), [1, 1])

before:  y = aten.sum.dim_IntList(x, [2, 3])
after:   y = aten.sum.dim_IntList(aten.avg_pool2d.default(x, [8, 6], [8, 6]), [2, 3]) * 48
```

XNNPACK's and oneDNN's kernels add one pixel after the other, so that where all are nearly equal the same digits are
lost every time: behind 3,072 pixels of a constant image the gates of a squeeze-and-excitation were 97 dB from eager,
which adds in pairs of pairs and has 115, and a pose network of four such stages ended at 73 where eager has 96. Two
poolings in the image's own layout keep what eager keeps. Left alone: images of fewer than 2 ** 10 pixels, other types
than float32, means over other dimensions, and sizes that only a run knows or that cannot be parted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional as F

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.editor import constant_tensors
from edgex.export.rewrites.editing.substitution import Rule, Rules, static, substitute
from edgex.export.rewrites.reductions.large_sums import row_length

aten = torch.ops.aten

_FEWEST = 2**10


def average_in_steps(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such mean and sum; the same program comes back without one."""
    constants = constant_tensors(program)
    rules: Rules = {
        target: Rule(write, where=lambda node: node.args[0] not in constants)
        for target, write in (
            (aten.mean.dim, _mean),
            (aten.sum.dim_IntList, _sum),
            (aten.adaptive_avg_pool2d.default, _pool),
        )
    }
    return substitute(program, "average_in_steps", rules, "{count} {operators} of large images became two poolings")


def _mean(x: torch.Tensor, dims: Sequence[int] | None, keepdim: bool = False, dtype: torch.dtype | None = None) -> Any:
    parts = _averages(x) if _is_over_image(x, dims, dtype) else NotImplemented
    return parts if parts is NotImplemented else parts.mean((2, 3), keepdim)


def _sum(x: torch.Tensor, dims: Sequence[int] | None, keepdim: bool = False, dtype: torch.dtype | None = None) -> Any:
    parts = _averages(x) if _is_over_image(x, dims, dtype) else NotImplemented
    if parts is NotImplemented:
        return parts
    pixels = x.shape[2] * x.shape[3] // (parts.shape[2] * parts.shape[3])
    return parts.sum((2, 3), keepdim) * float(pixels)


def _is_over_image(x: torch.Tensor, dims: Sequence[int] | None, dtype: torch.dtype | None) -> bool:
    return bool(dims) and x.dim() == 4 and sorted(dim % 4 for dim in dims or ()) == [2, 3] and dtype in (None, x.dtype)


def _pool(x: torch.Tensor, size: Sequence[int]) -> Any:
    if x.dim() != 4 or list(size) != [1, 1]:
        return NotImplemented
    parts = _averages(x)
    return parts if parts is NotImplemented else F.adaptive_avg_pool2d(parts, 1)


def _averages(x: torch.Tensor) -> Any:
    """The means of equal pieces, about as many as each has pixels."""
    if x.dtype != torch.float32 or not static(*x.shape[2:]) or x.shape[2] * x.shape[3] < _FEWEST:
        return NotImplemented
    piece = [row_length(size) for size in x.shape[2:]]
    # A size that cannot be parted leaves sums as long as the other one is wide.
    return NotImplemented if 1 in piece else F.avg_pool2d(x, piece, piece)
