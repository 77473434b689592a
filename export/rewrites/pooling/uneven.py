"""Write averages over windows of different sizes as products with constant matrices, for engines without them.

```
before:  y = aten.adaptive_avg_pool2d.default(x, [7, 7])          # x: [1, 8, 2, 2]: 2 elements for 7 windows
after:   y = aten.matmul(rows, aten.matmul(x, columns))           # rows: [7, 2], columns: [2, 7], a window each
```

Window i of n over a size s reaches from floor(i * s / n) to ceil((i + 1) * s / n). Windows of one size are
`write_average_pools`' part, and left alone here, as are sizes that vary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rules, static, substitute
from edgex.export.rewrites.pooling.windows import adaptive_windows, each, uneven_windows

aten = torch.ops.aten


def write_uneven_averages(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such pooling as products; the same program comes back without one."""
    rules: Rules = {aten.adaptive_avg_pool1d.default: _over_rows, aten.adaptive_avg_pool2d.default: _over_planes}
    detail = "{count} pooling(s) over windows of different sizes became products with constant matrices"
    return substitute(program, "write_uneven_averages", rules, detail, keeps_float=True)


def _over_rows(x: torch.Tensor, output_size: Sequence[int]) -> Any:
    if not static(x.shape[-1]) or adaptive_windows(x.shape[-1:], output_size) is not None:
        return NotImplemented
    return x @ averages_of_windows(x.shape[-1], each(output_size, 1)[0]).to(x.dtype).T


def _over_planes(x: torch.Tensor, output_size: Sequence[int]) -> Any:
    if not static(*x.shape[-2:]) or adaptive_windows(x.shape[-2:], output_size) is not None:
        return NotImplemented
    rows, columns = (
        averages_of_windows(size, size if wanted is None else wanted).to(x.dtype)
        for size, wanted in zip(x.shape[-2:], each(output_size, 2), strict=True)
    )
    return rows @ (x @ columns.T)


def averages_of_windows(size: int, count: int) -> torch.Tensor:
    """`[count, size]`: each row averages one window."""
    # Made of numbers: what a rule makes of tensors would become operators of the program.
    rows = np.zeros((count, size), np.float32)
    for row, window in zip(rows, uneven_windows(size, count), strict=True):
        row[window.start : window.stop] = 1.0 / len(window)
    return torch.tensor(rows)
