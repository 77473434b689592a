"""Write pooling over sequences as pooling over images of one row, which is what backends have.

```
before:  y = aten.max_pool1d.default(x, [3], [2], [1])                                  # x: [1, 8, 101]
after:   image = x.reshape(1, 8, 1, 101)
         y = aten.max_pool2d.default(image, [1, 3], [1, 2], [0, 1]).reshape(1, 8, 51)
```

Lowering does so, too, but with an operator that also gives places, which XNNPACK does not take (in tsai's mWDN, an
InceptionTime, 70 % of the time), and behind the rewrites of poolings.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional as F

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rules, substitute
from edgex.export.rewrites.pooling.windows import adaptive_windows, each

aten = torch.ops.aten


def widen_pools(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every pooling over a sequence so; the same program comes back without one."""
    rules: Rules = {
        aten.max_pool1d.default: _maximum,
        aten.avg_pool1d.default: _average,
        aten.adaptive_avg_pool1d.default: _adaptive,
    }
    return substitute(
        program, "widen_pools", rules, "{count} pooling(s) over sequences ({operators}) became those of images"
    )


def _maximum(
    x: torch.Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> Any:
    kernel, pad, hole = each(kernel_size, 1), each(padding, 1), each(dilation, 1)
    step = each(stride, 1) or kernel
    pooled = F.max_pool2d(_image(x), [1, *kernel], [1, *step], [0, *pad], [1, *hole], ceil_mode)
    return _sequence(pooled, x)


def _average(
    x: torch.Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
) -> Any:
    kernel, pad = each(kernel_size, 1), each(padding, 1)
    step = each(stride, 1) or kernel
    pooled = F.avg_pool2d(_image(x), [1, *kernel], [1, *step], [0, *pad], ceil_mode, count_include_pad)
    return _sequence(pooled, x)


def _adaptive(x: torch.Tensor, output_size: Sequence[int]) -> Any:
    """Over windows of one size; `write_uneven_averages` has the others."""
    windows = adaptive_windows(x.shape[-1:], output_size)
    if windows is None:
        return NotImplemented
    if x.shape[-1:] == torch.Size(windows):
        return x.mean(-1, keepdim=True)
    return _sequence(F.avg_pool2d(_image(x), [1, *windows], [1, *windows]), x)


def _image(x: torch.Tensor) -> torch.Tensor:
    return x.unsqueeze(-2) if x.dim() == 3 else x.unsqueeze(-2).unsqueeze(0)


def _sequence(pooled: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return pooled.squeeze(-2) if x.dim() == 3 else pooled.squeeze(-2).squeeze(0)
