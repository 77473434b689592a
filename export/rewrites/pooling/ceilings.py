"""Averages over windows that reach beyond the image (`ceil_mode`), which neither XNNPACK nor oneDNN averages.

```
before:  y = aten.avg_pool2d.default(x, [2, 2], [2, 2], 0, True, False)                 # x: [1, 8, 13, 13]
after:   y = aten.avg_pool2d.default(aten.pad.default(x, [0, 1, 0, 1]), [2, 2]) * factor
```

The factor of a window is its size divided by the number of elements that PyTorch counts: 1 but for the last row and the
last column. It depends on sizes alone, and `fold_literals` makes it a constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional as F

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import static, substitute
from edgex.export.rewrites.pooling.windows import ceiling_count, ceiling_matters, ceiling_pads, each

aten = torch.ops.aten


def pad_ceilings(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Pad ahead of every average whose ceiling counts; the same program comes back without one."""
    detail = "{count} pooling(s) with ceil_mode have their padding as an operator of its own"
    return substitute(program, "pad_ceilings", {aten.avg_pool2d.default: _padded}, detail)


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
    sizes = x.shape[-2:]
    if not ceil_mode or not static(*sizes) or not ceiling_matters(sizes, kernel, stride, padding, (1, 1)):
        return NotImplemented
    y = F.avg_pool2d(F.pad(x, ceiling_pads(sizes, kernel, stride, padding)), kernel, stride)
    if divisor_override is not None:
        return y * (kernel[0] * kernel[1] / divisor_override)
    rows, columns = (
        _literal([window / count for count in _counts(size, window, step, pad, count_include_pad)], x)
        for size, window, step, pad in zip(sizes, kernel, stride, padding, strict=True)
    )
    return y * (rows[:, None] * columns)


def _counts(size: int, window: int, step: int, pad: int, include_pad: bool) -> list[int]:
    """How many elements PyTorch counts in each window along one dimension."""
    starts = [number * step - pad for number in range(ceiling_count(size, window, step, pad))]
    if include_pad:
        return [min(start + window, size + pad) - start for start in starts]
    return [min(start + window, size) - max(start, 0) for start in starts]


def _literal(numbers: Sequence[float], like: torch.Tensor) -> torch.Tensor:
    """A vector of these numbers, as stretches of equal ones."""
    ends = [number for number in range(1, len(numbers)) if numbers[number] != numbers[number - 1]]
    parts = zip([0, *ends], [*ends, len(numbers)], strict=True)
    return torch.cat([torch.full((end - first,), numbers[first], dtype=like.dtype) for first, end in parts])
