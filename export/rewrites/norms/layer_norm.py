"""Write layer normalization over the last dimension in its parts, which XNNPACK takes, with means as products.

```
before:  y = aten.layer_norm.default(x, [384], weight, bias, 1e-5)      # x: [1, 197, 384]
after:   d = x - aten.linear.default(x, [1, 384] of 1 / 384)
         y = d * aten.rsqrt.default(linear(d * d, [1, 384] of 1 / 384) + 1e-5) * weight + bias
```

ExecuTorch's own kernel adds one number at a time, on one thread, and the delegate ends before it. Between linear
layers it takes 248 us for 3,137 rows of 64, the parts 137 (one thread, Zen 4); 51 and 52 for 197 rows of 384, 94 and
56 for 128 of 768. With two threads the latter are 103 and 61, 283 and 56. The kernel subtracts the square of the
mean, the parts the mean from each number, as eager does. Left alone: several dimensions, other types than float32,
and rows beyond `_LONGEST`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional as F

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rules, static, substitute

# Each length is a constant of the program.
_LONGEST = 16384


def write_layer_norms(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such norm; the same program comes back without one."""
    rules: Rules = {torch.ops.aten.layer_norm.default: _norm}
    return substitute(
        program, "write_layer_norms", rules, "{count} layer norm(s) became means as products", keeps_float=True
    )


def _norm(
    x: torch.Tensor,
    shape: Sequence[int],
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    epsilon: float,
    _cudnn: bool,
) -> Any:
    if len(shape) != 1 or x.dim() < 2 or x.dtype != torch.float32 or not static(x.shape[-1]):
        return NotImplemented
    length = x.shape[-1]
    if not 1 < length <= _LONGEST:
        return NotImplemented
    means = torch.full([1, length], 1 / length)
    apart = x - F.linear(x, means)
    y = apart * torch.rsqrt(F.linear(apart * apart, means) + epsilon)
    if weight is not None:
        y = y * weight
    return y if bias is None else y + bias
