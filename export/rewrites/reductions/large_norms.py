"""Write normalization over very many numbers in means of means, which no engine adds up one number after the other.

```
before:  y = aten.group_norm.default(x, 32, weight, bias, 1e-6)         # x: [1, 128, 512, 512]
after:   r = aten.view.default(x, [1, 32, 2048, 512])                   # a group: 4 channels of 512 x 512
         d = r - aten.mean.dim(aten.mean.dim(r, [3], True), [2], True)
         v = aten.mean.dim(aten.mean.dim(d * d, [3], True), [2], True)
         y = aten.view.default(d * rsqrt(v + 1e-6), [1, 128, 512, 512]) * weight + bias
```

ONNX Runtime's InstanceNormalization, which a group norm becomes, adds a million numbers of float32 in a row: 62 dB for
an image of one colour and 100 dB for noise, where the means of means have 106 and 135 dB and eager has more than 140
(1.31.1, one thread; on 32 of such groups it takes as long as the means). Stable Diffusion's decoder was refused for it.
Left alone: groups of fewer than 2 ** 15 numbers, which are right to 90 dB and quicker as one operator, other types than
float32, and sizes that only a run knows or that cannot be parted.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rules, static, substitute
from edgex.export.rewrites.reductions.large_sums import row_length

aten = torch.ops.aten

_FEWEST = 2**15


def write_large_norms(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such normalization; the same program comes back without one."""
    rules: Rules = {
        aten.group_norm.default: _group_norm,
        aten.instance_norm.default: _instance_norm,
        aten.layer_norm.default: _layer_norm,
    }
    return substitute(
        program, "write_large_norms", rules, "{count} normalization(s) ({operators}) became means of means"
    )


def _group_norm(
    x: torch.Tensor,
    groups: int,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Any:
    del cudnn_enabled
    if not _fits(x):
        return NotImplemented
    return _normalized(x, x.shape[0] * groups, [1, -1, *[1] * (x.dim() - 2)], weight, bias, eps)


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
    del momentum, cudnn_enabled
    if not use_input_stats or running_mean is not None or running_var is not None or not _fits(x):
        return NotImplemented
    return _normalized(x, x.shape[0] * x.shape[1], [1, -1, *[1] * (x.dim() - 2)], weight, bias, eps)


def _layer_norm(
    x: torch.Tensor,
    shape: list[int],
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Any:
    del cudnn_enable
    if not _fits(x):
        return NotImplemented
    return _normalized(x, x.numel() // math.prod(shape), list(shape), weight, bias, eps)


def _fits(x: torch.Tensor) -> bool:
    return x.dtype == torch.float32 and static(*x.shape) and x.numel() >= _FEWEST


def _normalized(
    x: torch.Tensor,
    groups: int,
    weight_shape: list[int],
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    eps: float,
) -> Any:
    """The groups, which lie one behind the other, each less its mean and over its deviation."""
    count = x.numel() // groups
    row = row_length(count)
    if count < _FEWEST or row == 1:
        return NotImplemented
    rows = x.reshape(groups, count // row, row)
    distance = rows - _mean(rows)
    y = (distance * torch.rsqrt(_mean(distance * distance) + eps)).reshape(x.shape)
    y = y if weight is None else y * weight.reshape(weight_shape)
    return y if bias is None else y + bias.reshape(weight_shape)


def _mean(rows: torch.Tensor) -> torch.Tensor:
    return torch.mean(torch.mean(rows, 2, True), 1, True)
