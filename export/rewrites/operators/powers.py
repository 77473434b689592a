"""Write powers with a small exponent as the operators that they are.

```
before:  y = aten.pow.Tensor_Scalar(x, 0.5)          # the norm of a row, as CLIP writes it
after:   y = aten.sqrt.default(x)

before:  y = aten.pow.Tensor_Scalar(x, 3)
after:   y = aten.mul.Tensor(aten.mul.Tensor(x, x), x)

before:  y = aten.linalg_vector_norm.default(x, 2, [-1], True)                          # F.normalize, x.norm(dim=-1)
after:   y = aten.sqrt.default(aten.sum.dim_IntList(aten.mul.Tensor(x, x), [-1], True))
```

Engines have the square and the root, and a slow kernel for the general power or none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rules, substitute

aten = torch.ops.aten

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
    return substitute(program, "write_powers", rules, "{count} power(s) and norm(s) became roots and products")


def _power(x: torch.Tensor, exponent: float) -> Any:
    if exponent == 2 and isinstance(exponent, float) and x.is_floating_point():
        return x * x  # the whole 2 is what engines know as the square
    write = _POWERS.get(float(exponent)) if isinstance(exponent, int | float) else None
    return NotImplemented if write is None or not x.is_floating_point() else write(x)


def _norm(x: torch.Tensor, order: float, dim: Sequence[int] | None, keepdim: bool, dtype: torch.dtype | None) -> Any:
    if order != 2 or not dim or dtype not in (None, x.dtype) or not x.is_floating_point():
        return NotImplemented
    return torch.sqrt((x * x).sum(list(dim), keepdim=keepdim))
