"""Convolutions over sequences of varying number and length as those of images of one row.

```
before:  y = aten.conv1d.default(x, weight, bias, [2], [1])                    # x: [batch, 4, length], both vary
after:   image = aten.unsqueeze.default(x, -2)                                 # [batch, 4, 1, length]
         y     = aten.conv2d.default(image, weight[:, :, None], bias, [1, 2], [0, 1]).squeeze(-2)
```

ExecuTorch 1.5 lowers a convolution over sequences with reshapes inside XNNPACK's region, which may find one size at
most, and gives up: "XNNPACK reshape only supports 1 dynamic dimension". Here they stand beside the region. Left alone:
sequences of which one size varies or none, and weights that a run computes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node
from torch.nn import functional as F

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.editor import constant_tensors
from edgex.export.rewrites.editing.substitution import Rule, Rules, static, substitute
from edgex.export.rewrites.pooling.windows import each

aten = torch.ops.aten


def widen_convolutions(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such convolution; the same program comes back without one."""
    constants = constant_tensors(program)

    def has_weights(node: Node) -> bool:
        return node.args[1] in constants

    rules: Rules = {
        aten.conv1d.default: Rule(_convolve, where=has_weights),
        aten.conv1d.padding: Rule(_convolve, where=has_weights),
        aten.conv_transpose1d.default: Rule(_transposed, where=has_weights),
    }
    return substitute(
        program, "widen_convolutions", rules, "{count} convolution(s) over sequences became those of images of one row"
    )


def _varies_twice(x: torch.Tensor, weight: torch.Tensor) -> bool:
    return static(*weight.shape) and sum(not static(size) for size in x.shape) > 1


def _convolve(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int] | str,
    dilation: Sequence[int],
    groups: int,
) -> Any:
    if not _varies_twice(x, weight):
        return NotImplemented
    pad = padding if isinstance(padding, str) else [0, *each(padding, 1)]
    step, hole = [1, *each(stride, 1)], [1, *each(dilation, 1)]
    return F.conv2d(x.unsqueeze(-2), weight.unsqueeze(-2), bias, step, pad, hole, groups).squeeze(-2)


def _transposed(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    output_padding: Sequence[int],
    groups: int,
    dilation: Sequence[int],
) -> Any:
    if not _varies_twice(x, weight):
        return NotImplemented
    pads = [0, *each(padding, 1)], [0, *each(output_padding, 1)]
    holes = [1, *each(dilation, 1)]
    image = F.conv_transpose2d(x.unsqueeze(-2), weight.unsqueeze(-2), bias, [1, *each(stride, 1)], *pads, groups, holes)
    return image.squeeze(-2)
