"""Split large kernels of depthwise convolutions: XNNPACK's kernels for them have 25 weights a channel at most.

```
before:  y = aten.conv2d.default(x, weight, bias, [1, 1], [3, 3], [1, 1], 96)   # weight: [96, 1, 7, 7]
after:   a = aten.conv2d.default(x, weight[:, :, 0::3], bias, [1, 1], [3, 3], [3, 1], 96)    # rows 0, 3 and 6
         b = aten.conv2d.default(x, weight[:, :, 1::4], None, [1, 1], [2, 3], [4, 1], 96)    # rows 1 and 5
         c = aten.conv2d.default(x, weight[:, :, 2:5:2], None, [1, 1], [1, 3], [2, 1], 96)   # rows 2 and 4
         y = a + b + c
```

A larger kernel runs as a grouped convolution with one channel a group: 11 times slower than eager for 7 x 7 (ConvNeXt).
Rows that mirror each other need no other image than `x`, only less padding; where no such rows fit (and where there is
less padding than they leave out), rows that follow each other read slices of the image, padded once. Left alone: sizes
other than the batch's that only a run knows.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
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
    convolve = functools.partial(F.conv2d if rank == 2 else F.conv1d, groups=groups)
    sets = _mirrored(sizes[0], tile[0]) if tile[1:] == sizes[1:] else []
    few = 0 < len(sets) <= -(-sizes[0] // tile[0])
    if few and sides[0] >= hole[0] * max(rows[0] for rows in sets):
        return _by_mirrored_rows(convolve, x, weight, bias, sets, step, sides, hole)
    padded = F.pad(x, [side for size in reversed(sides) for side in (size, size)]) if any(sides) else x
    return _by_tiles(convolve, padded, weight, bias, tile, step, hole)


def _by_mirrored_rows(
    convolve: Callable[..., torch.Tensor],
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    sets: Sequence[Sequence[int]],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> torch.Tensor:
    parts: list[torch.Tensor] = []
    for rows in sets:
        apart = rows[1] - rows[0] if len(rows) > 1 else 1
        kernel = aten.slice.Tensor(weight, 2, rows[0], rows[-1] + 1, apart)
        sides, holes = [padding[0] - rows[0] * dilation[0], *padding[1:]], [apart * dilation[0], *dilation[1:]]
        parts.append(convolve(x, kernel, None if parts else bias, stride, sides, holes))
    return functools.reduce(torch.add, parts)


def _by_tiles(
    convolve: Callable[..., torch.Tensor],
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    tile: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
) -> torch.Tensor:
    sizes = weight.shape[2:]
    parts: list[torch.Tensor] = []
    counts = [
        (size - gap * (taps - 1) - 1) // by + 1
        for size, taps, by, gap in zip(x.shape[2:], sizes, stride, dilation, strict=True)
    ]
    for begins in itertools.product(*(range(0, size, by) for size, by in zip(sizes, tile, strict=True))):
        window, kernel = x, weight
        for axis, begin in enumerate(begins):
            end = min(begin + tile[axis], sizes[axis])
            last = (end - 1) * dilation[axis] + (counts[axis] - 1) * stride[axis] + 1
            window = window.narrow(axis + 2, begin * dilation[axis], last - begin * dilation[axis])
            kernel = kernel.narrow(axis + 2, begin, end - begin)
        parts.append(convolve(window, kernel, None if parts else bias, stride, 0, dilation))
    return functools.reduce(torch.add, parts)


def _mirrored(count: int, most: int) -> list[list[int]]:
    """All rows of a kernel in sets of at most `most`, evenly apart, each its own mirror image; none if there is no way.

    Each set begins with the first row that is left and takes as many as fit: 7 rows by 3 are (0, 3, 6), (1, 5), (2, 4).
    """
    left = list(range(count))
    sets: list[list[int]] = []
    while left:
        begin, end = left[0], count - 1 - left[0]
        ways = [list(range(begin, end + 1, by)) for by in range(1, end - begin + 1) if (end - begin) % by == 0] or [
            [begin]
        ]
        fits = [rows for rows in ways if len(rows) <= most and set(rows) <= set(left)]
        if not fits:
            return []
        sets.append(max(fits, key=len))
        left = [row for row in left if row not in sets[-1]]
    return sets


def _tile(sizes: Sequence[int]) -> list[int]:
    """The tile of at most `_MOST_TAPS` weights that covers a kernel in the fewest pieces, wide before high."""
    if len(sizes) == 1:
        return [min(sizes[0], _MOST_TAPS)]
    fits = [[min(size, sizes[0]), min(_MOST_TAPS // size, sizes[1])] for size in range(1, _MOST_TAPS + 1)]
    return min(fits, key=lambda tile: (-(-sizes[0] // tile[0]) * -(-sizes[1] // tile[1]), sizes[1] - tile[1]))
