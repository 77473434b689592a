"""Divide and take remainders as PyTorch does, for ExecuTorch's kernels, which do not by zero and below it.

```
before:  y = aten.floor_divide.default(a, b)                  # floats; ExecuTorch: 0 for 0 / 0
after:   y = where(b == 0, a / b, floor_divide(a, b))

before:  y = aten.remainder.Tensor(a, b)                      # integers; ExecuTorch: the sign of a, as in C
after:   r = fmod(a, b)
         y = where((r != 0) & ((r < 0) != (b < 0)), r + b, r)
```

The same for division with `rounding_mode="floor"`.
"""

from __future__ import annotations

from typing import Any

import torch

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rule, Rules, substitute

aten = torch.ops.aten


def divide_as_eager(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Mend every such division; the same program comes back without one."""
    rules: Rules = {
        aten.floor_divide.default: Rule(_floor_divide),
        aten.floor_divide.Scalar: Rule(_floor_divide),
        aten.div.Tensor_mode: Rule(_divide),
        aten.div.Scalar_mode: Rule(_divide),
        aten.remainder.Tensor: Rule(_remainder),
        aten.remainder.Scalar: Rule(_remainder),
    }
    detail = "{count} division(s) ({operators}) by zero or of integers are as in PyTorch"
    return substitute(program, "divide_as_eager", rules, detail)


def _floor_divide(a: torch.Tensor, b: Any) -> Any:
    if isinstance(b, int | float | torch.SymInt | torch.SymFloat):
        return NotImplemented  # no zero, or eager raises
    if not torch.result_type(a, b).is_floating_point:
        return NotImplemented
    return torch.where(b == 0, a / b, torch.div(a, b, rounding_mode="floor"))


def _divide(a: torch.Tensor, b: Any, rounding_mode: str | None) -> Any:
    return _floor_divide(a, b) if rounding_mode == "floor" else NotImplemented


def _remainder(a: torch.Tensor, b: Any) -> Any:
    if torch.result_type(a, b).is_floating_point:
        return NotImplemented
    rest = torch.fmod(a, b)
    other_sign = (rest < 0) != (b < 0)
    return torch.where((rest != 0) & other_sign, rest + b, rest)
