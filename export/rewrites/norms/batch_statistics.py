"""Write the batch normalizations that engines have no kernels for in operators that they have.

By the batch's own statistics, it is a layer normalization:

```
before:  y = aten.batch_norm.default(x, weight, bias, None, None, True, ...)    # x: [N, C, H, W]
after:   z = aten.layer_norm.default([C, N * H * W])                            # channels first, over the last
         y = z * weight[:, None, None] + bias[:, None, None]                    # [N, C, H, W]
```

ExecuTorch's runtime has no kernel where running statistics are given too, and torch's translation to ONNX normalizes by
them then. What the operator leaves in them is lost with it: where anything else reads them, it stays.

Of vectors by running statistics, it is a product and a sum with constants (oneDNN takes images and sequences alone):

```
before:  y = aten.batch_norm.default(x, weight, bias, mean, variance, False, ...)    # x: [N, C]
after:   y = x * p_scale + p_shift                                                   # [C] each
```
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node
from torch.nn import functional as F

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import named_arguments
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.editor import constant_tensors
from edgex.export.rewrites.editing.substitution import Rule, Rules, static, substitute
from edgex.export.rewrites.norms.batch_norm import read_norm

aten = torch.ops.aten


def write_batch_statistics(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such batch norm of static sizes; the same program comes back without one."""
    state = {spec.name for spec in program.state}
    carried = {spec.arg.name for spec in program.exported.graph_signature.input_specs if spec.target in state}

    def applies(node: Node) -> bool:
        given = named_arguments(node)
        statistics = (given["running_mean"], given["running_var"])
        return bool(given["training"]) and all(
            one is None or (len(one.users) == 1 and one.name not in carried) for one in statistics
        )

    rules: Rules = {aten.batch_norm.default: Rule(_batch_norm, where=applies)}
    return substitute(program, "write_batch_statistics", rules, "{count} batch norm(s) became layer norms")


def write_vector_norms(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every batch norm of vectors by constant statistics; the same program comes back without one."""
    constants = constant_tensors(program)
    rule = Rule(_vector_norm, where=lambda node: read_norm(node, constants) is not None)
    detail = "{count} batch norm(s) of vectors became a product and a sum"
    return substitute(program, "write_vector_norms", {aten.batch_norm.default: rule}, detail)


def _vector_norm(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    running_mean: torch.Tensor,
    running_var: torch.Tensor,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Any:
    del training, momentum, cudnn_enabled
    if x.dim() != 2 or x.dtype != running_mean.dtype:
        return NotImplemented
    scale = torch.rsqrt(running_var.double() + eps)
    scale = scale if weight is None else scale * weight.double()
    shift = -running_mean.double() * scale
    shift = shift if bias is None else shift + bias.double()
    return x * scale.to(x.dtype) + shift.to(x.dtype)


def _batch_norm(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    running_mean: torch.Tensor | None,
    running_var: torch.Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Any:
    del running_mean, running_var, training, momentum, cudnn_enabled
    if not static(*x.shape):
        return NotImplemented
    channels_first = x.transpose(0, 1)
    count = x.numel() // x.shape[1]
    y = F.layer_norm(channels_first.reshape(x.shape[1], count), [count], None, None, eps)
    y = y.reshape(channels_first.shape).transpose(0, 1)
    by_channel = [x.shape[1]] + [1] * (x.dim() - 2)
    y = y if weight is None else y * weight.reshape(by_channel)
    return y if bias is None else y + bias.reshape(by_channel)
