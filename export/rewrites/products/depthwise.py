"""Split large kernels of depthwise convolutions: XNNPACK's kernels for them have 25 weights a channel at most.

```
before:  y = aten.conv2d.default(x, weight, bias, [1, 1], [3, 3], [1, 1], 96)   # weight: [96, 1, 7, 7]
after:   p = pad(x, [3, 3, 3, 3])
         a = aten.conv2d.default(p[:, :, 0:42], weight[:, :, 0:3], bias, ...)   # 3 x 7 weights a channel
         b = aten.conv2d.default(p[:, :, 3:45], weight[:, :, 3:6], None, ...)
         c = aten.conv2d.default(p[:, :, 6:46], weight[:, :, 6:7], None, ...)
         y = a + b + c
```

A larger kernel runs as a grouped convolution with one channel a group: 11 times slower than eager for 7 x 7 (ConvNeXt).
Left alone: sizes other than the batch's that only a run knows.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional as F

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rules, static, substitute
from edgex.export.rewrites.pooling.windows import each
from edgex.export.rewrites.products.named_padding import with_named_padding

aten = torch.ops.aten

# Weights a channel of the largest kernel that XNNPACK has for float32 depthwise convolutions.
_MOST_TAPS = 25


def split_depthwise(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Split every depthwise convolution with a larger kernel; the same program comes back without one."""
    rules: Rules = {
        aten.conv2d.default: _convolution,
        aten.conv1d.default: _convolution,
        aten.conv2d.padding: with_named_padding(_convolution),
        aten.conv1d.padding: with_named_padding(_convolution),
    }
    return substitute(program, "split_depthwise", rules, "{count} depthwise convolution(s) with large kernels split")


def _convolution(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Any:
    rank = weight.dim() - 2
    sizes = list(weight.shape[2:])
    if weight.shape[1] != 1 or groups < 2 or x.dim() != rank + 2 or not static(*x.shape[1:], *weight.shape):
        return NotImplemented
    tile = _tile(sizes)
    if tile == sizes:
        return NotImplemented
    step, sides, hole = each(stride, rank), each(padding, rank), each(dilation, rank)
    padded = F.pad(x, [side for size in reversed(sides) for side in (size, size)]) if any(sides) else x
    counts = [
        (size - gap * (taps - 1) - 1) // by + 1
        for size, taps, by, gap in zip(padded.shape[2:], sizes, step, hole, strict=True)
    ]
    convolve = F.conv2d if rank == 2 else F.conv1d
    y: Any = None
    for begins in itertools.product(*(range(0, size, by) for size, by in zip(sizes, tile, strict=True))):
        window, kernel = padded, weight
        for axis, begin in enumerate(begins):
            end = min(begin + tile[axis], sizes[axis])
            last = (end - 1) * hole[axis] + (counts[axis] - 1) * step[axis] + 1
            window = window.narrow(axis + 2, begin * hole[axis], last - begin * hole[axis])
            kernel = kernel.narrow(axis + 2, begin, end - begin)
        part = convolve(window, kernel, bias if y is None else None, step, 0, hole, groups)
        y = part if y is None else y + part
    return y


def _tile(sizes: Sequence[int]) -> list[int]:
    """The tile of at most `_MOST_TAPS` weights that covers a kernel in the fewest pieces, wide before high."""
    if len(sizes) == 1:
        return [min(sizes[0], _MOST_TAPS)]
    fits = [[min(size, sizes[0]), min(_MOST_TAPS // size, sizes[1])] for size in range(1, _MOST_TAPS + 1)]
    return min(fits, key=lambda tile: (-(-sizes[0] // tile[0]) * -(-sizes[1] // tile[1]), sizes[1] - tile[1]))
