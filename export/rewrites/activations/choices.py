"""Write a number in the places of a mask as bounds, which broadcast: XNNPACK has minima and maxima, and no choice.

```
before:  y = aten.masked_fill.Scalar(scores, mask, -1e9)            # scores: [1, 8, 256, 256], mask: [1, 1, 1, 256]
after:   least = aten.where.self(mask, -1e9, -inf); most = aten.where.self(mask, -1e9, inf)
         y = aten.minimum.default(aten.maximum.default(scores, least), most)
```

For `-inf` the second is enough. ExecuTorch's kernel chooses number by number (30 % of a transformer with relative
positions). A mask that the program computes has to be a small part of what it masks; a constant one gives constant
bounds. Only numbers far below zero are written so, which take scores out of a softmax: a zero may stand for the NaN of
a row that is masked as a whole, which bounds keep. Left alone: other types than float32, sizes that only a run knows.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.editor import constant_tensors
from edgex.export.rewrites.editing.substitution import Rule, Rules, static, substitute

aten = torch.ops.aten

# What takes a score out of a softmax is below it.
_LEAST = -1e3
# A computed mask of at most this part of what it masks.
_PART = 8
# Of constant bounds, in elements.
_MOST = 1 << 20


def bound_by_masks(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such choice; the same program comes back without one."""
    constants = {node.name: tensor for node, tensor in constant_tensors(program).items()}

    def operands(node: Node) -> tuple[Any, ...]:
        """The values, the mask, whether it chooses them, the number, and whether the mask is constant."""
        if node.target == aten.masked_fill.Scalar:
            x, mask, number, keeps = *node.args, False
        else:
            mask, x, number = node.args
            keeps = _number(number) is not None
            x, number = (x, number) if keeps else (number, x)
        return x, mask, keeps, _number(number), isinstance(mask, Node) and mask.name in constants

    def _number(value: Any) -> float | None:
        if isinstance(value, bool | int | float):
            return float(value)
        tensor = constants.get(value.name) if isinstance(value, Node) else None
        return (
            float(tensor.detach())
            if tensor is not None and tensor.dim() == 0 and tensor.dtype == torch.float32
            else None
        )

    rule = Rule(_bounded, operands=operands)
    targets = (aten.masked_fill.Scalar, aten.where.self, aten.where.ScalarOther, aten.where.ScalarSelf)
    rules: Rules = dict.fromkeys(targets, rule)
    detail = "{count} choice(s) of a number by a mask became bounds"
    return substitute(program, "bound_by_masks", rules, detail, keeps_float=True)


def _bounded(x: Any, mask: torch.Tensor, keeps: bool, number: float | None, is_constant: bool) -> Any:
    if not isinstance(x, torch.Tensor) or x.dtype != torch.float32 or number is None or not number <= _LEAST:
        return NotImplemented
    if not static(*x.shape, *mask.shape) or mask.dim() > x.dim():
        return NotImplemented
    sizes = zip(x.shape[x.dim() - mask.dim() :], mask.shape, strict=True)
    if not all(size in (1, whole) for whole, size in sizes):
        return NotImplemented
    if mask.numel() > (_MOST if is_constant else x.numel() // _PART):
        return NotImplemented
    if number > -math.inf:
        x = torch.maximum(x, _where(mask, keeps, number, -math.inf))
    return torch.minimum(x, _where(mask, keeps, number, math.inf))


def _where(mask: torch.Tensor, keeps: bool, number: float, otherwise: float) -> torch.Tensor:
    here, there = (otherwise, number) if keeps else (number, otherwise)
    return torch.where(mask, torch.tensor(here), torch.tensor(there))
