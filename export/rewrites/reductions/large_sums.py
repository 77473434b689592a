"""Write means and sums of very many numbers in steps, which no engine adds up one number after the other.

```
before:  y = aten.mean.dim(x, [2, 3])                                   # x: [1, 3, 360, 480]
after:   y = aten.mean.dim(aten.mean.dim(x, [3], True), [2], True).view([1, 3])

before:  y = aten.sum.dim_IntList(x, [-1])                              # x: [2, 48000]
after:   y = aten.sum.dim_IntList(aten.sum.dim_IntList(x.view([2, 250, 192]), [2], True), [1], True).view([2])
```

Eager adds in pairs of pairs: a mean of 172,800 numbers is 140 dB from the exact one. XNNPACK's kernels and oneDNN's
poolings add one number after the other, eight sums beside each other: 92 to 106 dB, ONNX Runtime's 123, the same error
in every pixel of what the mean is taken from. A tracker that fills a crop with the mean of the frame was 70 dB from
eager behind fifty convolutions and refused for it. In steps they are 131 to 144 dB from eager.
Left alone: fewer than 2 ** 14 numbers (8,000 that are drawn at random are 117 dB and more), other types than float32,
and sizes that only a run knows or that cannot be parted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.editor import constant_tensors
from edgex.export.rewrites.editing.substitution import Rule, Rules, static, substitute

aten = torch.ops.aten

_FEWEST = 2**14
# What one step adds up, at most.
_MOST = 2**12
_Reduction = Callable[[torch.Tensor, list[int], bool], torch.Tensor]


def write_large_sums(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such mean and sum; the same program comes back without one."""
    constants = constant_tensors(program)
    written: dict[Any, Any] = {
        aten.mean.dim: _mean,
        aten.mean.default: lambda x, dtype=None: _mean(x, None, False, dtype),
        aten.sum.dim_IntList: _sum,
        aten.sum.default: lambda x, dtype=None: _sum(x, None, False, dtype),
        aten.adaptive_avg_pool1d.default: lambda x, size: _mean_of_all(x, size, [-1]),
        aten.adaptive_avg_pool2d.default: lambda x, size: _mean_of_all(x, size, [-2, -1]),
    }
    rules: Rules = {
        target: Rule(write, where=lambda node: node.args[0] not in constants) for target, write in written.items()
    }
    return substitute(program, "write_large_sums", rules, "{count} {operators} of many numbers are added in steps")


def row_length(count: int) -> int:
    """The greatest divisor up to the root, so that neither of the two sums is a long one; 1 for a prime number."""
    return next(length for length in range(math.isqrt(count), 0, -1) if count % length == 0)


def _mean(x: torch.Tensor, dims: Sequence[int] | None, keepdim: bool = False, dtype: torch.dtype | None = None) -> Any:
    return _in_steps(x, dims, keepdim, dtype, torch.mean)


def _sum(x: torch.Tensor, dims: Sequence[int] | None, keepdim: bool = False, dtype: torch.dtype | None = None) -> Any:
    return _in_steps(x, dims, keepdim, dtype, torch.sum)


def _mean_of_all(x: torch.Tensor, size: Sequence[int], dims: list[int]) -> Any:
    if any(extent != 1 for extent in size):
        return NotImplemented
    return _in_steps(x, dims, True, None, torch.mean)


def _in_steps(
    x: torch.Tensor, dims: Sequence[int] | None, keepdim: bool, dtype: torch.dtype | None, reduce: _Reduction
) -> Any:
    if x.dtype != torch.float32 or dtype not in (None, torch.float32) or not static(*x.shape):
        return NotImplemented
    reduced = sorted(dim % x.dim() for dim in (dims or range(x.dim())))
    if math.prod(x.shape[dim] for dim in reduced) < _FEWEST:
        return NotImplemented
    y = x
    for dim in reversed(reduced):
        size = y.shape[dim]
        if size <= _MOST:
            y = reduce(y, [dim], True)
            continue
        row = row_length(size)
        if size > row * _MOST:
            return NotImplemented
        parts = y.reshape(*y.shape[:dim], size // row, row, *y.shape[dim + 1 :])
        y = reduce(reduce(parts, [dim + 1], True), [dim], True).squeeze(dim)
    kept = [1 if dim in reduced else size for dim, size in enumerate(x.shape)]
    return y.reshape(kept if keepdim else [size for dim, size in enumerate(x.shape) if dim not in reduced])
