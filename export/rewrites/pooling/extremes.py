"""Write maxima and minima over dimensions as poolings of images, the one maximum along a tensor that XNNPACK has.

```
before:  y = aten.amax.default(x, [2, 3], True)                         # x: [1, 64, 40, 40]
after:   y = aten.max_pool2d.default(x, [40, 40])

before:  y = aten.max.dim(x, 1, True); values = y[0]                    # y[1] is read by nothing
after:   rows = x.reshape(1, 64, 40, 40).permute(0, 3, 1, 2)            # 40 channels, of 64 x 40 pixels
         values = aten.max_pool2d.default(rows, [64, 1]) ...            # back to [1, 1, 40, 40]

before:  y = aten.amin.default(x, [-1])
after:   y = -maxima of -x
```

A pooling takes its maxima over rows of channels, many at a time; ExecuTorch's kernel reads one number in a row and cuts
the region in two (the attention of CBAM, global features of point clouds). What lies behind the reduced dimensions
becomes the channels, or what lies ahead of them where nothing does. Left alone: other types than float32, weights,
dimensions that do not lie beside each other, sizes that only a run knows.
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
from edgex.export.rewrites.editing.substitution import Rule, Rules, static, substitute, used_results

aten = torch.ops.aten


def pool_extremes(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such maximum and minimum; the same program comes back without one."""
    constants = constant_tensors(program)

    def is_computed(node: Node) -> bool:
        return node.args[0] not in constants

    def is_of_values(node: Node) -> bool:
        return is_computed(node) and used_results(node) == {0}

    rules: Rules = {
        aten.amax.default: Rule(_maximum, where=is_computed),
        aten.amin.default: Rule(_negated(_maximum), where=is_computed),
        aten.max.dim: Rule(_values(_maximum), where=is_of_values),
        aten.min.dim: Rule(_values(_negated(_maximum)), where=is_of_values),
    }
    return substitute(program, "pool_extremes", rules, "{count} maxima and minima ({operators}) became poolings")


def _negated(maximum: Callable[..., Any]) -> Callable[..., Any]:
    def minimum(x: torch.Tensor, dims: Sequence[int], keepdim: bool) -> Any:
        y = maximum(-x, dims, keepdim) if x.dtype == torch.float32 else NotImplemented
        return NotImplemented if y is NotImplemented else -y

    return minimum


def _values(of: Callable[..., Any]) -> Callable[..., Any]:
    def write(x: torch.Tensor, dim: int, keepdim: bool) -> Any:
        y = of(x, [dim], keepdim)
        return NotImplemented if y is NotImplemented else (y, None)

    return write


def _maximum(x: torch.Tensor, dims: Sequence[int], keepdim: bool) -> Any:
    if x.dtype != torch.float32 or x.dim() < 2 or not static(*x.shape) or x.numel() == 0:
        return NotImplemented
    over = sorted({dim % x.dim() for dim in dims}) or list(range(x.dim()))
    first, last = over[0], over[-1]
    ahead, size, behind = prod(x.shape[:first]), prod(x.shape[first : last + 1]), prod(x.shape[last + 1 :])
    if over != list(range(first, last + 1)) or size == 1:
        return NotImplemented
    kept = [1 if dim in over else length for dim, length in enumerate(x.shape)]
    if x.dim() == 4 and over == [2, 3]:
        y = F.max_pool2d(x, list(x.shape[2:]))
    elif behind == 1:
        pixels = x.reshape(ahead, size).t().reshape(1, size, 1, ahead).permute(0, 3, 1, 2)
        y = F.max_pool2d(pixels, [size, 1])
    else:
        rows = x.reshape(ahead, size, 1, behind).permute(0, 3, 1, 2)
        y = F.max_pool2d(rows, [size, 1]).permute(0, 2, 3, 1)
    shape = kept if keepdim else [length for dim, length in enumerate(x.shape) if dim not in over]
    return y.reshape(shape)
