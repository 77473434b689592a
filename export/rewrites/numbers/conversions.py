"""Convert many whole numbers to floats by joining them with a float, for targets that convert one after the other.

```
before:  y = aten.to.dtype(frame, torch.float32)                      # frame: uint8[1, 3, 640, 640]
after:   row = aten.reshape.default(frame, [1228800])
         joined = aten.cat.default([row, aten.zeros.default([1])])    # float32[1228801]
         y = aten.view.default(aten.slice.Tensor(joined, 0, 0, 1228800), [1, 3, 640, 640])
```

ExecuTorch's kernel of a conversion computes the index of every number; that of a concatenation converts in a plain
loop. Left alone: fewer than `LEAST` numbers, sizes that vary, and integers as wide as floats may be (of 16 and 32
bits), whose bits that loop copies.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rule, Rules, static, substitute

aten = torch.ops.aten

LEAST = 4_096
_TAKEN = frozenset((torch.uint8, torch.int8, torch.int64, torch.bool))


def convert_by_joining(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such conversion; the same program comes back without one."""
    rule = Rule(_join, where=_is_large, operands=lambda node: (node.args[0],))
    rules: Rules = dict.fromkeys((aten.to.dtype, aten._to_copy.default), rule)
    detail = "{count} conversion(s) of whole numbers to floats became concatenations with a float"
    return substitute(program, "convert_by_joining", rules, detail, keeps_float=True)


def _is_large(node: Node) -> bool:
    if not isinstance(node.args[0], Node):  # a constant of one number may be a literal by now
        return False
    source, result = node.args[0].meta["val"], node.meta["val"]
    return (
        source.dtype in _TAKEN
        and result.dtype == torch.float32
        and static(*source.shape)
        and source.numel() >= LEAST
        and source.is_contiguous()
    )


def _join(x: torch.Tensor) -> Any:
    count = x.numel()
    return torch.cat([x.reshape(count), torch.zeros(1)])[:count].view(x.shape)
