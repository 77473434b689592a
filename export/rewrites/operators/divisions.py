"""Divide and take remainders as PyTorch does, for ExecuTorch's kernels, which do not by zero and below it.

```
before:  y = aten.floor_divide.default(a, b)                  # floats; ExecuTorch: 0 for 0 / 0
after:   y = where(b == 0, a / b, floor_divide(a, b))

before:  y = aten.remainder.Tensor(a, b)                      # integers; ExecuTorch: the sign of a, as in C
after:   y = a - floor_divide(a, b) * b                        # its fmod of large integers goes by way of floats

before:  y = aten.__rshift__.Scalar(a, 3)                     # no kernel
after:   y = aten.div.Scalar_mode(a, 8, rounding_mode="floor")
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
        aten.__lshift__.Scalar: Rule(_shifted_up),
        aten.bitwise_left_shift.Tensor_Scalar: Rule(_shifted_up),
        aten.__rshift__.Scalar: Rule(_shifted_down),
        aten.bitwise_right_shift.Tensor_Scalar: Rule(_shifted_down),
    }
    detail = "{count} division(s) ({operators}) by zero, of integers or by powers of two are as in PyTorch"
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
    return a - torch.div(a, b, rounding_mode="floor") * b


def _shifted_up(x: torch.Tensor, by: int) -> Any:
    if x.is_floating_point() or not 0 <= by < torch.iinfo(x.dtype).bits - 1:
        return NotImplemented
    return x * (1 << by)


def _shifted_down(x: torch.Tensor, by: int) -> Any:
    if x.is_floating_point() or not 0 <= by < torch.iinfo(x.dtype).bits - 1:
        return NotImplemented
    return torch.div(x, 1 << by, rounding_mode="floor")
