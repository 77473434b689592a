"""Write means and sums over the channels of images and sequences as convolutions, which XNNPACK takes.

```
before:  y = aten.mean.dim(x, [1], True)                                # x: [N, 48, H, W]
after:   y = aten.conv2d.default(x, [1, 48, 1, 1] of 1 / 48)
```

XNNPACK averages over height and width alone. ExecuTorch's kernel for channels reads one number in a row of H * W: a
LayerNorm2d (ConvNeXt, NAFNet, SAM) between two convolutions takes 6.7 times as long with it for 24 channels, as long
for 384. Left alone: other types than float32, and weights, whose mean is a constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional as F

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.editor import constant_tensors
from edgex.export.rewrites.editing.substitution import Rule, Rules, static, substitute

aten = torch.ops.aten


def write_channel_means(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such mean and sum; the same program comes back without one."""
    constants = constant_tensors(program)
    rules: Rules = {
        aten.mean.dim: Rule(_mean, where=lambda node: node.args[0] not in constants),
        aten.sum.dim_IntList: Rule(_sum, where=lambda node: node.args[0] not in constants),
    }
    return substitute(program, "write_channel_means", rules, "{count} {operators} over channels became convolutions")


def _mean(x: torch.Tensor, dims: Sequence[int] | None, keepdim: bool, dtype: torch.dtype | None) -> Any:
    return _by_convolution(x, dims, keepdim, dtype, mean=True)


def _sum(x: torch.Tensor, dims: Sequence[int] | None, keepdim: bool, dtype: torch.dtype | None) -> Any:
    return _by_convolution(x, dims, keepdim, dtype, mean=False)


def _by_convolution(
    x: torch.Tensor, dims: Sequence[int] | None, keepdim: bool, dtype: torch.dtype | None, *, mean: bool
) -> Any:
    fits = x.dim() in (3, 4) and x.dtype == torch.float32 and dtype in (None, torch.float32)
    if not fits or dims is None or [dim % x.dim() for dim in dims] != [1] or not static(*x.shape[1:]):
        return NotImplemented
    channels = x.shape[1]
    weight = torch.full([1, channels] + [1] * (x.dim() - 2), 1 / channels if mean else 1.0)
    y = F.conv2d(x, weight) if x.dim() == 4 else F.conv1d(x, weight)
    return y if keepdim else y.squeeze(1)
