"""Write maxima and minima of many rows as poolings of images, for oneDNN.

```
before:  y = aten.amax.default(x, [-1])                                 # x: [4, 64, 64, 16]
after:   rows = x.reshape(1, 16, 1024, 16)                              # 16 channels, of 1024 x 16 pixels
         y = aten.max_pool2d.default(rows, [1, 16]).reshape(4, 64, 64)

before:  y = aten.amin.default(x, [2, 3])
after:   y = -maxima of -x
```

oneDNN's reduction spends some 0.2 to 0.8 us on every row, more than its numbers take where there are few: 9.7 ms for
the example (edges of a graph's nodes, patches of an image), where the pooling takes 0.35, and 0.27 and 0.14 for 256
rows of 512 (one thread of a Xeon with AMX, other programs running). A pooling with a single channel is slow, too, so
the rows become channels as well. Left alone: few rows, numbers of rows without a divisor of 8 to 64, dimensions that
are not the last ones, sizes that only a run knows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch
from torch.fx import Node
from torch.nn import functional as F

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.editor import constant_tensors
from edgex.export.rewrites.editing.substitution import Rule, Rules, static, substitute

aten = torch.ops.aten

# With fewer there is little to win: 64 times what a row costs are 50 us at most. Smaller ones were not timed.
_FEWEST_ROWS = 64
# Channels of the image, the best first; then the most that divide the rows.
_CHANNELS = (16, *range(64, 7, -1))


def write_row_extremes(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such maximum and minimum; the same program comes back without one."""
    constants = constant_tensors(program)

    def is_computed(node: Node) -> bool:
        return node.args[0] not in constants

    rules: Rules = {
        aten.amax.default: Rule(_maxima, where=is_computed),
        aten.amin.default: Rule(_negated(_maxima), where=is_computed),
    }
    return substitute(program, "write_row_extremes", rules, "{count} maxima and minima of rows became poolings")


def _negated(maxima: Callable[..., Any]) -> Callable[..., Any]:
    def minima(x: torch.Tensor, dims: Sequence[int], keepdim: bool) -> Any:
        y = maxima(-x, dims, keepdim) if x.is_floating_point() else NotImplemented
        return NotImplemented if y is NotImplemented else -y

    return minima


def _maxima(x: torch.Tensor, dims: Sequence[int], keepdim: bool) -> Any:
    if x.dtype not in (torch.float32, torch.bfloat16) or not dims or not static(*x.shape):
        return NotImplemented
    over = sorted(dim % x.dim() for dim in dims)
    kept = x.shape[: over[0]]
    rows, size = prod(kept), prod(x.shape[over[0] :])
    channels = next((count for count in _CHANNELS if rows % count == 0), None)
    if over != list(range(over[0], x.dim())) or rows < _FEWEST_ROWS or size < 2 or channels is None:
        return NotImplemented
    y = F.max_pool2d(x.reshape(1, channels, rows // channels, size), [1, size])
    return y.reshape([*kept, *([1] * len(over) if keepdim else [])])
