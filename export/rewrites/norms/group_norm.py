"""Write group normalization as layer normalization, which ExecuTorch's kernels compute with 45 dB more.

```
before:  y = aten.group_norm.default(x, 4, weight, bias)                # x: [N, C, H, W]
after:   z = aten.layer_norm.default([N, 4, C / 4 * H * W])             # over the last dimension
         y = z * weight[:, None, None] + bias[:, None, None]            # [N, C, H, W]
```

ExecuTorch's kernel of group norm takes the variance as the mean of squares less the square of the mean, from which one
behind another (a PoolFormer) loses 50 dB. Instance norm by its own statistics is group norm with a group a channel.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rules, static, substitute

aten = torch.ops.aten


def write_group_norm(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every group norm of static sizes as a layer norm; the same program comes back without one."""
    rules: Rules = {aten.group_norm.default: _group_norm, aten.instance_norm.default: _instance_norm}
    return substitute(program, "write_group_norm", rules, "{count} normalization(s) ({operators}) became layer norms")


def _group_norm(
    x: torch.Tensor,
    num_groups: int,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    eps: float,
    cudnn_enabled: bool,
) -> Any:
    del cudnn_enabled
    if not static(*x.shape[1:]):
        return NotImplemented
    size = 1
    for part in x.shape[1:]:
        size *= part
    grouped = x.reshape(x.shape[0], num_groups, size // num_groups)
    y = F.layer_norm(grouped, [size // num_groups], None, None, eps).reshape(x.shape)
    by_channel = [x.shape[1]] + [1] * (x.dim() - 2)
    y = y if weight is None else y * weight.reshape(by_channel)
    return y if bias is None else y + bias.reshape(by_channel)


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
    if not use_input_stats or running_mean is not None or running_var is not None:
        return NotImplemented
    return _group_norm(x, x.shape[1], weight, bias, eps, cudnn_enabled) if static(x.shape[1]) else NotImplemented
