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
        **dict.fromkeys((aten.where.self, aten.where.ScalarSelf, aten.where.ScalarOther, aten.where.Scalar), _where),
        aten.masked_fill.Scalar: _masked_fill,
        aten.masked_fill.Tensor: _masked_fill,
    }
    return substitute(program, "choose_truths", rules, "{count} choice(s) between truths became logic")


def _where(condition: torch.Tensor, one: Any, other: Any) -> Any:
    if condition.dtype != torch.bool or not (_are_truths(one) and _are_truths(other)):
        return NotImplemented
    chosen, left = _chosen(condition, one), _chosen(~condition, other)
    if chosen is None or left is None:
        only = left if chosen is None else chosen
        return torch.zeros_like(condition) if only is None else only.clone()
    return chosen | left


def _chosen(condition: torch.Tensor, truth: Any) -> torch.Tensor | None:
    """Where the condition holds and the truth too; None where that is nowhere."""
    if isinstance(truth, torch.Tensor):
        return condition & truth
    return condition if truth else None


def _are_truths(value: Any) -> bool:
    return value.dtype == torch.bool if isinstance(value, torch.Tensor) else isinstance(value, bool)


def _masked_fill(x: torch.Tensor, mask: torch.Tensor, value: Any) -> Any:
    if x.dtype != torch.bool:
        return NotImplemented
    if isinstance(value, torch.Tensor):
        return (mask & value) | (~mask & x)
    return x | mask if value else x & ~mask
