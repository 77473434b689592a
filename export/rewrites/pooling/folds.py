"""Write `unfold` and `fold` as slices, paddings and sums, which cost what their bytes cost.

```
before:  y = aten.im2col.default(x, [2, 2], [1, 1], [0, 0], [1, 1])    # x: [1, 8, 5, 5], y: [1, 32, 16]
after:   parts = [x[:, :, 0:4, 0:4], x[:, :, 0:4, 1:5], x[:, :, 1:5, 0:4], x[:, :, 1:5, 1:5]]
         y = stack(parts, 2).reshape(1, 32, 16)

before:  y = aten.col2im.default(x, [8, 8], [2, 2], [1, 1], [0, 0], [2, 2])    # x: [1, 32, 16], y: [1, 8, 8, 8]
after:   y = x.reshape(1, 8, 2, 2, 4, 4).permute(0, 1, 4, 2, 5, 3).reshape(1, 8, 8, 8)    # no element twice
```

ExecuTorch's decompositions read every element by an index, and write every sum by one; behind `fold` they crop by a
negative padding, which its kernel refuses when the program runs (VOLO). Where windows share elements, `fold` adds up
columns and then rows: those that are a stride apart are one phase, and the phases are interleaved at the end. Windows
of whole strides, as those of audio are, go by parts of one stride each:

```
before:  y = aten.col2im.default(x, [1, 2560], [1, 1024], [1, 1], [0, 0], [1, 256])    # x: [1, 1024, 7]
after:   waves = x.view(1, 1, 1, 1024, 1, 7).movedim(-3, -1)                           # [1, 1, 1, 1, 7, 1024]
         y = sum(pad(waves[..., 256 * i : 256 * i + 256], (0, 0, i, 3 - i)) for i in range(4)).reshape(1, 1, 1, 2560)
```

`Tensor.unfold` cuts its frames alike, the last part of a frame being shorter where they are no whole strides long:

```
before:  y = aten.unfold.default(x, -1, 5, 2)                                          # x: [8, 21], y: [8, 9, 5]
after:   parts = [pad(x, (0, 1))[:, 2 * i : 2 * i + 18].reshape(8, 9, 2) for i in range(3)]
         y = cat(parts, -1)[:, :, :5]
```

Left alone: sizes other than the batch's that only a run knows, and windows of more than `_MOST_PIECES` pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional as F

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rules, static, substitute
from edgex.export.rewrites.pooling.windows import each

aten = torch.ops.aten

# Elements of a window: each becomes operators of its own.
_MOST_PIECES = 64


def write_folds(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every `unfold` and `fold`; the same program comes back without one."""
    rules: Rules = {aten.im2col.default: _unfold, aten.col2im.default: _fold, aten.unfold.default: _frame}
    return substitute(program, "write_folds", rules, "{count} fold(s) or unfold(s) became slices")


def _unfold(
    x: torch.Tensor, kernel: Sequence[int], dilation: Sequence[int], padding: Sequence[int], stride: Sequence[int]
) -> Any:
    (high, wide), hole, sides, step = (each(given, 2) for given in (kernel, dilation, padding, stride))
    *leading, channels, _, _ = x.shape
    if not static(*x.shape[-3:]):
        return NotImplemented
    padded = F.pad(x, (sides[1], sides[1], sides[0], sides[0])) if any(sides) else x
    rows, columns = (
        (size - gap * (taps - 1) - 1) // by + 1
        for size, taps, by, gap in zip(padded.shape[-2:], (high, wide), step, hole, strict=True)
    )
    if _is_tiled((high, wide), hole, step):
        whole = padded.narrow(-2, 0, rows * high).narrow(-1, 0, columns * wide)
        windows = whole.reshape(*leading, channels, rows, high, columns, wide).movedim((-3, -1), (-4, -3))
    elif _is_of_strides((high, wide), hole, step):
        windows = _cut_parts(_cut_parts(padded, wide, step[1], columns).movedim(-3, -1), high, step[0], rows)
        windows = windows.movedim((-1, -3, -2, -4), (-4, -3, -2, -1))
    elif high * wide > _MOST_PIECES:
        return NotImplemented
    else:
        bands = [_every(padded, -2, i * hole[0], rows, step[0]) for i in range(high)]
        windows = torch.stack(
            [_every(band, -1, j * hole[1], columns, step[1]) for band in bands for j in range(wide)], -3
        )
    y = windows.reshape(*leading, channels * high * wide, rows * columns)
    return y.clone() if 1 in (high, rows) else y  # which may be a view, and `x` may be written to later


def _frame(x: torch.Tensor, dim: int, size: int, step: int) -> Any:
    parts = -(-size // step)
    if not static(*x.shape, size, step) or x.dim() == 0 or not 0 < parts <= _MOST_PIECES:
        return NotImplemented
    dim = dim % x.dim()
    count = (x.shape[dim] - size) // step + 1
    rows = x.movedim(dim, -1)
    missing = (count + parts - 1) * step - x.shape[dim]
    rows = F.pad(rows, (0, missing)) if missing > 0 else rows
    cut = [rows.narrow(-1, at * step, count * step).reshape(*rows.shape[:-1], count, step) for at in range(parts)]
    return torch.cat(cut, -1).narrow(-1, 0, size).movedim(-2, dim)


def _fold(
    x: torch.Tensor,
    output_size: Sequence[int],
    kernel: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Any:
    sizes, (high, wide), hole, sides, step = (
        each(given, 2) for given in (output_size, kernel, dilation, padding, stride)
    )
    *leading, rows_of_x, _ = x.shape
    if not static(*x.shape[-2:], *sizes):
        return NotImplemented
    channels = rows_of_x // (high * wide)
    rows, columns = (
        (size + 2 * side - gap * (taps - 1) - 1) // by + 1
        for size, side, taps, by, gap in zip(sizes, sides, (high, wide), step, hole, strict=True)
    )
    windows = x.reshape(*leading, channels, high, wide, rows, columns)
    if _is_tiled((high, wide), hole, step):
        y = windows.movedim((-4, -3), (-3, -1)).reshape(*leading, channels, rows * high, columns * wide)
        y = _reach(_reach(y, -2, sizes[0] + sides[0]), -1, sizes[1] + sides[1])
    elif _is_of_strides((high, wide), hole, step):
        wider = _add_parts(windows.movedim(-3, -1), step[1], sizes[1] + 2 * sides[1])
        y = _add_parts(wider.movedim(-3, -1).movedim(-2, -3), step[0], sizes[0] + 2 * sides[0]).transpose(-2, -1)
    elif high * wide > _MOST_PIECES:
        return NotImplemented
    else:
        wider = _add_up([windows.select(-3, j) for j in range(wide)], hole[1], step[1], sizes[1] + 2 * sides[1])
        bands = [wider.select(-3, i).transpose(-2, -1) for i in range(high)]
        y = _add_up(bands, hole[0], step[0], sizes[0] + 2 * sides[0]).transpose(-2, -1)
    y = y.narrow(-2, sides[0], sizes[0]).narrow(-1, sides[1], sizes[1])
    return y.clone() if 1 in (high, rows) else y  # as above


def _is_tiled(kernel: Sequence[int], dilation: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether windows stand side by side, so that no element is in two and none is left out."""
    return list(kernel) == list(stride) and set(dilation) == {1}


def _is_of_strides(kernel: Sequence[int], dilation: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether windows are some whole strides long, so that a few parts make up many elements."""
    whole = all(taps % by == 0 for taps, by in zip(kernel, stride, strict=True)) and set(dilation) == {1}
    parts = sum(taps // by for taps, by in zip(kernel, stride, strict=True))
    return whole and max(stride) > 1 and parts <= _MOST_PIECES


def _cut_parts(x: torch.Tensor, taps: int, step: int, count: int) -> torch.Tensor:
    """Windows of the last dimension: `[..., size]` to `[..., count, taps]`."""
    parts = taps // step
    pieces = x.narrow(-1, 0, (count + parts - 1) * step).reshape(*x.shape[:-1], count + parts - 1, step)
    return torch.cat([pieces.narrow(-2, at, count) for at in range(parts)], -1)


def _add_parts(windows: torch.Tensor, step: int, size: int) -> torch.Tensor:
    """The sum of windows that begin a step after each other: `[..., count, taps]` to `[..., size]` or more."""
    parts = windows.shape[-1] // step
    summed = None
    for at in range(parts):
        part = F.pad(windows.narrow(-1, at * step, step), (0, 0, at, parts - 1 - at))
        summed = part if summed is None else summed + part
    assert summed is not None
    return _reach(summed.reshape(*summed.shape[:-2], summed.shape[-2] * step), -1, size)


def _every(x: torch.Tensor, dim: int, begin: int, count: int, step: int) -> torch.Tensor:
    """`count` elements of a dimension from `begin` on, `step` apart."""
    y: torch.Tensor = aten.slice.Tensor(x, dim, begin, begin + (count - 1) * step + 1, step)
    return y


def _add_up(parts: Sequence[torch.Tensor], gap: int, step: int, size: int) -> torch.Tensor:
    """Add part `i`'s element `n` at the place `i * gap + n * step` of the last dimension, which has at least `size`."""
    length = -(-size // step)
    phases: list[torch.Tensor | None] = [None] * step
    for index, part in enumerate(parts):
        behind, phase = divmod(index * gap, step)
        moved = F.pad(part, (behind, length - behind - part.shape[-1]))
        known = phases[phase]
        phases[phase] = moved if known is None else known + moved
    empty = torch.zeros_like(next(phase for phase in phases if phase is not None))
    filled = [empty if phase is None else phase for phase in phases]
    if step == 1:
        return filled[0]
    return torch.stack(filled, -1).reshape(*filled[0].shape[:-1], length * step)


def _reach(x: torch.Tensor, dim: int, size: int) -> torch.Tensor:
    """With zeros behind a dimension that has fewer elements than `size`."""
    missing = size - int(x.shape[dim])
    return F.pad(x, (0, 0) * (-1 - dim) + (0, missing)) if missing > 0 else x
