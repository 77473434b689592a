"""Write the angle of a point with the arctangent of one number, for ONNX, whose translation has zeros wrong.

```
before:  angle = aten.atan2.default(y, x)
after:   big, small = maximum(abs(x), abs(y)), minimum(abs(x), abs(y))
         a = atan(small / big)                             # 0 at the origin, pi / 4 where both are infinite
         a = where(abs(y) > abs(x), pi / 2 - a, a)
         a = where(x is negative, pi - a, a)               # -0.0 is
         angle = where(y is negative, -a, a)
```
"""

from __future__ import annotations

import math
from typing import Any

import torch

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rules, substitute
from edgex.export.rewrites.operators.elementary import is_negative


def write_angles(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every `atan2`; the same program comes back without one."""
    rules: Rules = {torch.ops.aten.atan2.default: _atan2}
    return substitute(program, "write_angles", rules, "{count} atan2 became an arctangent, right at zero too")


def _atan2(y: torch.Tensor, x: torch.Tensor) -> Any:
    if not (x.is_floating_point() and x.dtype == y.dtype):
        return NotImplemented
    high, wide = torch.abs(y), torch.abs(x)
    big, small = torch.maximum(high, wide), torch.minimum(high, wide)
    ratio = torch.where(small == big, torch.ones_like(big), small / big)
    ratio = torch.where(big == 0, torch.zeros_like(big), ratio)
    angle = torch.atan(ratio)
    angle = torch.where(high > wide, math.pi / 2 - angle, angle)
    angle = torch.where(is_negative(x), math.pi - angle, angle)
    angle = torch.where(is_negative(y), -angle, angle)
    # Nothing has an angle to what is no number.
    return torch.where(torch.isnan(x) | torch.isnan(y), x + y, angle)
