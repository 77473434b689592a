"""Write group and instance normalization of images in the means that XNNPACK has, which leaves images as they lie.

```
before:  y = aten.instance_norm.default(x, weight, bias, ...)           # x: [1, 24, 160, 160]
after:   d = x - aten.mean.dim(x, [2, 3], True)
         m = aten.mean.dim(d, [2, 3], True)                             # [1, 24, 1, 1]
         s = rsqrt(relu(aten.mean.dim(d * d, [2, 3], True) - m * m) + eps) * weight
         y = d * s + (bias - m * s)

before:  y = aten.group_norm.default(x, 8, weight, bias, 1e-5)
after:   as above; each mean of a channel becomes its group's by a convolution of [1, 24, 1, 1] with constants
```

As layer norm, which `write_group_norm` makes of the rest, it is one of ExecuTorch's kernels on one thread, between two
copies: from the order in which XNNPACK has images and back. The mean of the distances is what rounding took from the
first mean, a sum of thousands of numbers one by one: without it an image of one colour came out with 13 dB.
Left alone: other types than float32, and sizes that only a run knows.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rules, static, substitute

aten = torch.ops.aten

# A group's mean is a matrix of channels by channels in the program.
_MOST_CHANNELS = 1024


def write_plane_norms(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such normalization; the same program comes back without one."""
    rules: Rules = {aten.group_norm.default: _group_norm, aten.instance_norm.default: _instance_norm}
    return substitute(
        program,
        "write_plane_norms",
        rules,
        "{count} normalization(s) ({operators}) became means of images",
        keeps_float=True,
    )


def _group_norm(
    x: torch.Tensor,
    groups: int,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    eps: float,
    cudnn_enabled: bool,
) -> Any:
    del cudnn_enabled
    fits = x.dim() == 4 and x.dtype == torch.float32 and static(*x.shape)
    if not fits or x.numel() == 0 or (groups != x.shape[1] and x.shape[1] > _MOST_CHANNELS):
        return NotImplemented
    distance = x - _mean(x, groups)
    left = _mean(distance, groups)
    scale = torch.rsqrt(torch.relu(_mean(distance * distance, groups) - left * left) + eps)
    by_channel = [1, x.shape[1], 1, 1]
    scale = scale if weight is None else scale * weight.reshape(by_channel)
    shift = -(left * scale)
    shift = shift if bias is None else shift + bias.reshape(by_channel)
    return distance * scale + shift


def _mean(x: torch.Tensor, groups: int) -> torch.Tensor:
    """The mean of each channel's group, `[N, C, 1, 1]`."""
    mean, channels = torch.mean(x, (2, 3), True), x.shape[1]
    if groups == channels:
        return mean
    each = channels // groups
    averages = torch.kron(torch.eye(groups), torch.full([each, each], 1 / each))
    return F.conv2d(mean, averages.view(channels, channels, 1, 1))


def _instance_norm(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    running_mean: torch.Tensor | None,
    running_var: torch.Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Any:
    del momentum
    if not use_input_stats or running_mean is not None or running_var is not None or x.dim() != 4:
        return NotImplemented
    return _group_norm(x, x.shape[1], weight, bias, eps, cudnn_enabled)
