"""Write powers as the operators that they are.

```
before:  y = aten.pow.Tensor_Scalar(x, 0.5)          # the norm of a row, as CLIP writes it
after:   y = aten.sqrt.default(x)

before:  y = aten.pow.Tensor_Scalar(x, 3)
after:   y = aten.mul.Tensor(aten.mul.Tensor(x, x), x)

before:  y = aten.linalg_vector_norm.default(x, 2, [-1], True)                          # F.normalize, x.norm(dim=-1)
after:   y = aten.sqrt.default(aten.sum.dim_IntList(aten.mul.Tensor(x, x), [-1], True))
```

```
before:  y = aten.pow.Tensor_Scalar(x, 0.75)         # LocalResponseNorm, GeM; NaN below zero, -inf too
after:   y = aten.exp.default(aten.mul.Tensor(aten.log.default(x), 0.75))
```

Engines have the square and the root, exponential and natural logarithm, and no or a slow kernel for the general power.
The exponential's argument is rounded, which costs as many last digits as it has ahead of the point: seven bits at most.
Powers of a number and other logarithms stay: `floor(log2(x))` is right for powers of two only where these are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rules, substitute

aten = torch.ops.aten

# What is beyond takes every number but those near 1 to zero or infinity.
_LARGEST_EXPONENT = 16.0
_POWERS: Mapping[float, Callable[[torch.Tensor], torch.Tensor]] = {
    -1.0: torch.reciprocal,
    -0.5: torch.rsqrt,
    0.5: torch.sqrt,
    3.0: lambda x: x * x * x,
    4.0: lambda x: (x * x) * (x * x),
}


def write_powers(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write each such power of floats; the same program comes back without one."""
    rules: Rules = {aten.pow.Tensor_Scalar: _power, aten.linalg_vector_norm.default: _norm}
    return substitute(program, "write_powers", rules, "{count} power(s) and norm(s) became simpler operators")


def _power(x: torch.Tensor, exponent: float) -> Any:
    if exponent == 2 and isinstance(exponent, float) and x.is_floating_point():
        return x * x  # the whole 2 is what engines know as the square
    if not isinstance(exponent, int | float) or not x.is_floating_point():
        return NotImplemented
    write = _POWERS.get(float(exponent))
    if write is not None:
        return write(x)
    if x.dtype != torch.float32 or float(exponent).is_integer() or not abs(exponent) <= _LARGEST_EXPONENT:
        return NotImplemented
    return torch.exp(torch.log(x) * float(exponent))


def _norm(x: torch.Tensor, order: float, dim: Sequence[int] | None, keepdim: bool, dtype: torch.dtype | None) -> Any:
    if order != 2 or not dim or dtype not in (None, x.dtype) or not x.is_floating_point():
        return NotImplemented
    return torch.sqrt((x * x).sum(list(dim), keepdim=keepdim))
