"""Write choices between truths in logic, for ONNX Runtime, whose `Where` takes numbers only.

```
before:  seen = aten.masked_fill.Scalar(mask, padded, False)
         keys = aten.where.self(causal, seen, mask)
after:   seen = mask & ~padded
         keys = (causal & seen) | (~causal & mask)
```
"""

from __future__ import annotations

from typing import Any

import torch

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rules, substitute

aten = torch.ops.aten


def choose_truths(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every choice between truths; the same program comes back without one."""
    rules: Rules = {
        aten.where.self: _where,
        aten.masked_fill.Scalar: _masked_fill,
        aten.masked_fill.Tensor: _masked_fill,
    }
    return substitute(program, "choose_truths", rules, "{count} choice(s) between truths became logic")


def _where(condition: torch.Tensor, one: torch.Tensor, other: torch.Tensor) -> Any:
    if not condition.dtype == one.dtype == other.dtype == torch.bool:
        return NotImplemented
    return (condition & one) | (~condition & other)


def _masked_fill(x: torch.Tensor, mask: torch.Tensor, value: Any) -> Any:
    if x.dtype != torch.bool:
        return NotImplemented
    if isinstance(value, torch.Tensor):
        return (mask & value) | (~mask & x)
    return x | mask if value else x & ~mask
