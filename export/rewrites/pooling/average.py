"""Write averages over windows in the form that engines have: two dimensions, no ceiling, no divisor of its own.

```
before:  y = aten.avg_pool2d.default(x, [2, 2], [2, 2], 0, True)                        # ceil_mode, x: [1, 8, 12, 12]
after:   y = aten.avg_pool2d.default(x, [2, 2], [2, 2])

before:  y = aten.avg_pool2d.default(x, [3, 3], [2, 2], 0, False, True, 2)              # divisor_override=2
after:   y = aten.avg_pool2d.default(x, [3, 3], [2, 2]) * (9 / 2)

before:  y = aten.adaptive_avg_pool2d.default(x, [4, 4])                                # x: [1, 8, 12, 12]
after:   y = aten.avg_pool2d.default(x, [3, 3], [3, 3])

before:  y = aten.avg_pool3d.default(x, [5, 1, 1], [1, 1, 1])                           # also LocalResponseNorm's
after:   y = aten.avg_pool2d.default([1, N * C, D, H * W], [5, 1], [1, 1])              # then back to five dimensions

before:  y = aten.avg_pool2d.default(x, [3, 3], [1, 1], [1, 1])                         # `pad_averages`, for XNNPACK
after:   y = aten.avg_pool2d.default(aten.pad.default(x, [1, 1, 1, 1]), [3, 3], [1, 1])
```

With a divisor of its own every window counts the same, and one that a ceiling adds is padding ahead of the pooling.
An average over a box is the average over depth of the averages over planes, where padding counts or there is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional as F

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rules, static, substitute
from edgex.export.rewrites.pooling.uneven import averages_of_windows
from edgex.export.rewrites.pooling.windows import adaptive_windows, ceiling_matters, ceiling_pads, each, over_planes

aten = torch.ops.aten


def write_average_pools(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such pooling in the plain form; the same program comes back without one."""
    rules: Rules = {
        aten.avg_pool2d.default: _plain,
        aten.avg_pool3d.default: _over_boxes,
        aten.adaptive_avg_pool2d.default: _adaptive_2d,
        aten.adaptive_avg_pool3d.default: _adaptive_3d,
    }
    detail = "{count} pooling(s) ({operators}) became plain avg_pool2d"
    return substitute(program, "write_average_pools", rules, detail)


def pad_averages(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Pad ahead of every pooling that averages zeros in; the same program comes back without one."""
    detail = "{count} pooling(s) have their padding as an operator of its own"
    return substitute(program, "pad_averages", {aten.avg_pool2d.default: _padded}, detail)


def _plain(
    x: torch.Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Any:
    kernel, padding = each(kernel_size, 2), each(padding, 2)
    stride = each(stride, 2) or kernel
    if not ceil_mode and divisor_override is None:
        return NotImplemented
    sizes = x.shape[-2:]
    if ceil_mode and ceiling_matters(sizes, kernel, stride, padding, (1, 1)):
        if divisor_override is None or not static(*sizes):
            return NotImplemented
        x, padding = F.pad(x, ceiling_pads(sizes, kernel, stride, padding)), [0, 0]
    if divisor_override is None:
        return F.avg_pool2d(x, kernel, stride, padding, False, count_include_pad)
    return F.avg_pool2d(x, kernel, stride, padding, False, True) * (kernel[0] * kernel[1] / divisor_override)


def _padded(
    x: torch.Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Any:
    kernel, padding = each(kernel_size, 2), each(padding, 2)
    stride = each(stride, 2) or kernel
    if not (count_include_pad and any(padding)) or ceil_mode or divisor_override is not None:
        return NotImplemented
    height, width = padding
    return F.avg_pool2d(F.pad(x, [width, width, height, height]), kernel, stride)


def _over_boxes(
    x: torch.Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Any:
    kernel, padding = each(kernel_size, 3), each(padding, 3)
    stride = each(stride, 3) or kernel
    sizes, counts_windows = x.shape[-3:], divisor_override is None
    if not static(*sizes) or (any(padding) and not count_include_pad and counts_windows):
        return NotImplemented
    if ceil_mode and ceiling_matters(sizes, kernel, stride, padding, (1, 1, 1)):
        if counts_windows:
            return NotImplemented
        x, padding = F.pad(x, ceiling_pads(sizes, kernel, stride, padding)), [0, 0, 0]
    y = over_planes(x, F.avg_pool2d, kernel, stride, padding)
    return y if divisor_override is None else y * (kernel[0] * kernel[1] * kernel[2] / divisor_override)


def _adaptive_2d(x: torch.Tensor, output_size: Sequence[int]) -> Any:
    windows = adaptive_windows(x.shape[-2:], output_size)
    # A window as large as the image is a mean, which all engines take as it is; one of 1 does nothing.
    if windows is None or windows == list(x.shape[-2:]):
        return NotImplemented
    return F.avg_pool2d(x, windows, windows)


def _adaptive_3d(x: torch.Tensor, output_size: Sequence[int]) -> Any:
    windows = adaptive_windows(x.shape[-3:], output_size)
    if windows is not None:
        return over_planes(x, F.avg_pool2d, windows, windows, (0, 0, 0))
    sizes = x.shape[-3:]
    if not static(*sizes):
        return NotImplemented
    depth, rows, columns = (
        averages_of_windows(size, size if wanted is None else wanted).to(x.dtype)
        for size, wanted in zip(sizes, each(output_size, 3), strict=True)
    )
    planes = rows @ (x @ columns.T)
    found = depth @ planes.flatten(-2)
    return found.reshape(*found.shape[:-1], *planes.shape[-2:])
