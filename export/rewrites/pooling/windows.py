"""Sizes of pooling windows, and pooling over boxes as pooling over planes and then over depth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from edgex.export.rewrites.editing.substitution import static


def each(sizes: Sequence[int] | int, count: int) -> list[int]:
    """Sizes by dimension; one stands for all, none for none."""
    listed = [sizes] if isinstance(sizes, int) else list(sizes)
    return listed * count if len(listed) == 1 else listed


def adaptive_windows(sizes: Sequence[Any], output_size: Sequence[int | None] | int) -> list[int] | None:
    """The windows of an adaptive pooling, which all have one size where the output's divide the input's; else None."""
    wanted = each(output_size, len(sizes))  # type: ignore[arg-type]
    pairs = list(zip(sizes, wanted, strict=True))
    if not static(*sizes) or any(not isinstance(out, int) or out <= 0 or size % out for size, out in pairs):
        return None
    return [size // out for size, out in pairs]


def uneven_windows(size: int, count: int) -> list[range]:
    """The windows of an adaptive pooling along one dimension, whether its size divides or not."""
    return [range(at * size // count, -(-(at + 1) * size // count)) for at in range(count)]


def ceiling_matters(
    sizes: Sequence[Any], kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
) -> bool:
    """Whether `ceil_mode` adds a window; where a size is dynamic it may."""
    if not static(*sizes):
        return True
    spans = [
        (size + 2 * pad - hole * (window - 1) - 1) % step
        for size, window, step, pad, hole in zip(sizes, kernel, stride, padding, dilation, strict=True)
    ]
    return any(spans)


def ceiling_count(size: int, window: int, step: int, pad: int) -> int:
    """How many windows `ceil_mode` gives along one dimension; none begins in the last padding."""
    count = -(-(size + 2 * pad - window) // step) + 1
    return count - 1 if (count - 1) * step >= size + pad else count


def ceiling_pads(
    sizes: Sequence[int], kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int]
) -> list[int]:
    """What `pad` takes so that plain pooling has the windows of `ceil_mode`: two numbers a dimension, last first."""
    around: list[int] = []
    for size, window, step, pad in zip(sizes, kernel, stride, padding, strict=True):
        around = [pad, (ceiling_count(size, window, step, pad) - 1) * step + window - size - pad, *around]
    return around


def over_planes(
    x: torch.Tensor,
    pool: Callable[..., torch.Tensor],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    *dilation: Sequence[int],
) -> torch.Tensor:
    """Pool a tensor `[..., D, H, W]` over height and width, then over depth."""
    *leading, depth, height, width = x.shape
    count: Any = 1
    for size in leading:
        count = count * size
    y = x
    if any(size != 1 for size in (*kernel[1:], *stride[1:])):
        holes = [hole[1:] for hole in dilation]
        y = pool(y.reshape(count, depth, height, width), kernel[1:], stride[1:], padding[1:], *holes)
        height, width = y.shape[-2:]
    if kernel[0] != 1 or stride[0] != 1:
        holes = [[hole[0], 1] for hole in dilation]
        rows = y.reshape(1, count, depth, height * width)
        y = pool(rows, [kernel[0], 1], [stride[0], 1], [padding[0], 0], *holes)
        depth = y.shape[-2]
    return y.reshape(*leading, depth, height, width)
