"""Write maxima over windows in the form that engines have: two dimensions, no ceiling, no adaptive sizes.

```
before:  y, _ = aten.adaptive_max_pool2d.default(x, [4, 4])            # x: [1, 8, 12, 12]
after:   y = aten.max_pool2d.default(x, [3, 3], [3, 3])

before:  y = aten.max_pool2d.default(x, [2, 2], [2, 2], 0, 1, True)    # ceil_mode, x: [1, 8, 12, 12]
after:   y = aten.max_pool2d.default(x, [2, 2], [2, 2])

before:  y = aten.max_pool2d.default(x, [2, 2], [3, 3])                # x: [1, 8, 21, 21]: every third row is left out
after:   y = aten.max_pool2d.default(x.reshape(1, 8, 7, 3, 7, 3)[:, :, :, :2, :, :2].reshape(1, 8, 14, 14), [2, 2])

before:  y = aten.max_pool3d.default(x, [2, 3, 3], ...)                # x: [N, C, D, H, W]
after:   planes = aten.max_pool2d.default([N * C, D, H, W], [3, 3])    # over height and width
         y = aten.max_pool2d.default([1, N * C, D, H * W], [2, 1])     # over depth, then back to five dimensions
```

before:  y, _ = aten.adaptive_max_pool2d.default(x, [3, 4])            # x: [1, 8, 4, 4]: windows of 2 rows that overlap
after:   rows = aten.index_select.default(x, 2, [0, 1, 1, 2, 2, 3])
         y = aten.amax.default([1, 8, 3, 2, 4], [3])

A maximum over a box is the maximum over depth of the maxima over planes. Those
whose places are used are left to `places`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional as F

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rules, static, substitute
from edgex.export.rewrites.pooling.windows import (
    adaptive_windows,
    ceiling_matters,
    each,
    over_planes,
    uneven_windows,
)

aten = torch.ops.aten


def write_max_pools(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such pooling in the plain form; the same program comes back without one."""
    rules: Rules = {
        aten.adaptive_max_pool1d.default: _adaptive_1d,
        aten.adaptive_max_pool2d.default: _adaptive_2d,
        aten.adaptive_max_pool3d.default: _adaptive_3d,
        aten.max_pool2d.default: _plain,
        aten.max_pool3d.default: _over_boxes,
    }
    return substitute(program, "write_max_pools", rules, "{count} pooling(s) ({operators}) became plain max_pool2d")


def _adaptive_1d(x: torch.Tensor, output_size: Sequence[int]) -> Any:
    windows = adaptive_windows(x.shape[-1:], output_size)
    if windows is None:
        return _uneven(x, output_size, 1)
    pooled = F.max_pool2d(x.unsqueeze(-2), [1, *windows], [1, *windows])
    return pooled.squeeze(-2), None


def _adaptive_2d(x: torch.Tensor, output_size: Sequence[int]) -> Any:
    windows = adaptive_windows(x.shape[-2:], output_size)
    return _uneven(x, output_size, 2) if windows is None else (F.max_pool2d(x, windows, windows), None)


def _adaptive_3d(x: torch.Tensor, output_size: Sequence[int]) -> Any:
    windows = adaptive_windows(x.shape[-3:], output_size)
    if windows is None:
        return _uneven(x, output_size, 3)
    return over_planes(x, F.max_pool2d, windows, windows, (0, 0, 0)), None


def _uneven(x: torch.Tensor, output_size: Sequence[int], dimensions: int) -> Any:
    """Over windows of different sizes: shorter ones have their last element several times."""
    if not static(*x.shape):
        return NotImplemented
    for dim, wanted in enumerate(each(output_size, dimensions), x.dim() - dimensions):
        size = x.shape[dim]
        if wanted is None or wanted == size:
            continue
        if wanted <= 0:
            return NotImplemented
        windows = uneven_windows(size, wanted)
        longest = max(map(len, windows))
        places = [min(window.start + step, window.stop - 1) for window in windows for step in range(longest)]
        chosen = x.index_select(dim, torch.tensor(places))
        x = chosen.reshape(*x.shape[:dim], wanted, longest, *x.shape[dim + 1 :]).amax(dim + 1)
    return x, None


def _plain(
    x: torch.Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> Any:
    kernel, padding, dilation = each(kernel_size, 2), each(padding, 2), each(dilation, 2)
    stride = each(stride, 2) or kernel
    if ceil_mode and ceiling_matters(x.shape[-2:], kernel, stride, padding, dilation):
        return NotImplemented
    leaves_out = any(step > window for step, window in zip(stride, kernel, strict=True))
    if leaves_out and static(*x.shape) and not any(padding) and set(dilation) == {1}:
        return _of_windows(x, kernel, stride)
    return F.max_pool2d(x, kernel, stride, padding, dilation) if ceil_mode else NotImplemented


def _of_windows(x: torch.Tensor, kernel: Sequence[int], stride: Sequence[int]) -> torch.Tensor:
    """Over windows between which elements are left out: without these, they stand side by side."""
    kernel = list(kernel)
    for at, dim in enumerate((x.dim() - 2, x.dim() - 1)):
        window, step, shape = kernel[at], stride[at], list(x.shape)
        if step <= window:
            continue
        count = (shape[dim] - window) // step + 1
        missing = max(count * step - shape[dim], 0)
        y = F.pad(x, [0, 0] * (x.dim() - 1 - dim) + [0, missing]) if missing else x
        y = y.narrow(dim, 0, count * step).reshape(*shape[:dim], count, step, *shape[dim + 1 :])
        x = y.narrow(dim + 1, 0, window).reshape(*shape[:dim], count * window, *shape[dim + 1 :])
    steps = [min(step, window) for step, window in zip(stride, kernel, strict=True)]
    # A slice may be a view, and what it was taken of may be written to later.
    return x.clone() if kernel == steps == [1, 1] else F.max_pool2d(x, kernel, steps)


def _over_boxes(
    x: torch.Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> Any:
    kernel, padding, dilation = each(kernel_size, 3), each(padding, 3), each(dilation, 3)
    stride = each(stride, 3) or kernel
    if not static(*x.shape[-3:]) or (ceil_mode and ceiling_matters(x.shape[-3:], kernel, stride, padding, dilation)):
        return NotImplemented
    return over_planes(x, F.max_pool2d, kernel, stride, padding, dilation)
