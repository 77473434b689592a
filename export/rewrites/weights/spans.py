"""Write grouped convolutions whose windows span a dimension as products of a matrix for each group.

```
before:  y = aten.conv2d.default(x, w, b, [1, 1], [0, 0], [1, 1], 8)    # x: [1, 8, 22, 1000], w: [16, 1, 22, 1]
after:   y = w.view(8, 2, 22) @ x                                       # [1, 8, 2, 1000]
         y = y.view(1, 16, 1, 1000) + b.view(16, 1, 1)
```

Networks over several electrodes or sensors have such a layer, one filter over all of them for each band. It has too few
channels a group for the kernels of convolutions: one thread of a Zen 3, the layer above 0.55 ms as a convolution on
`xnnpack` and 0.24 as a product, 0.84 and 0.36 on `onednn`, with 32 filters for each of nine bands 4.0 and 1.5 there.
ONNX Runtime is as fast with both. Left alone: padding, strides, holes, windows of two dimensions, one group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rules, static, substitute
from edgex.export.rewrites.pooling.windows import each
from edgex.export.rewrites.products.named_padding import with_named_padding

aten = torch.ops.aten


def write_spans(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such convolution; the same program comes back without one."""
    rules: Rules = {
        aten.conv2d.default: _convolution,
        aten.conv2d.padding: with_named_padding(_convolution),
    }
    return substitute(
        program, "write_spans", rules, "{count} grouped convolution(s) over a whole dimension are products"
    )


def _convolution(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Any:
    if x.dim() != 4 or groups < 2 or not static(*x.shape[1:], *weight.shape):
        return NotImplemented
    outputs, inputs, *window = weight.shape
    step, hole, sides = each(stride, 2), each(dilation, 2), each(padding, 2)
    spanned = 0 if window[0] == x.shape[2] else 1
    size, places = x.shape[2 + spanned], x.shape[3 - spanned]
    whole = [size, 1] if spanned == 0 else [1, size]
    plain = step[1 - spanned] == 1 and hole[spanned] == 1 and not any(sides)
    if window != whole or not plain or min(size, places) < 2:
        return NotImplemented
    rows = (x if spanned == 0 else x.transpose(2, 3)).reshape(-1, groups, inputs * size, places)
    y = torch.matmul(weight.reshape(groups, outputs // groups, inputs * size), rows)
    y = y.reshape(-1, outputs, 1, places) if spanned == 0 else y.reshape(-1, outputs, places, 1)
    return y if bias is None else y + bias.reshape(outputs, 1, 1)
