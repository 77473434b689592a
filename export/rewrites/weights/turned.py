"""Write products with a transposed weight as linear layers, whose weight XNNPACK turns when it loads.

```
before:  turned = aten.transpose.int(weight, -1, -2)                    # relative positions: BotNet, heads over a table
         y      = aten.matmul.default(x, turned)
after:   y      = aten.linear.default(x, weight)
```

Lowering computes the transposition in every run, and a matrix that is computed is none that XNNPACK takes: ExecuTorch's
kernel multiplies one number at a time. Left alone: weights that stand as they are, which XNNPACK takes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node
from torch.nn import functional as F

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import operator_name
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.editor import constant_tensors
from edgex.export.rewrites.editing.substitution import Rule, Rules, substitute

aten = torch.ops.aten

# Of a matrix each of them is its transposition, where it changes the order at all.
_TRANSPOSITIONS = frozenset(f"aten::{name}" for name in ("t", "numpy_T", "mT", "transpose", "permute"))


def turn_weights(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such product; the same program comes back without one."""
    constants = constant_tensors(program)

    def is_turned(node: Node) -> bool:
        factor = node.args[1]
        if not isinstance(factor, Node) or operator_name(factor) not in _TRANSPOSITIONS:
            return False
        weight = factor.args[0]
        if not isinstance(weight, Node) or weight not in constants or constants[weight].dim() != 2:
            return False
        rows, columns = constants[weight].stride()
        return rows != columns and tuple(factor.meta["val"].stride()) == (columns, rows)

    def operands(node: Node) -> tuple[Any, ...]:
        left, turned = node.args
        assert isinstance(turned, Node)
        return left, turned.args[0]

    rules: Rules = {
        aten.matmul.default: Rule(_linear, where=is_turned, operands=operands),
        aten.mm.default: Rule(_linear, where=is_turned, operands=operands),
    }
    return substitute(program, "turn_weights", rules, "{count} product(s) with a transposed weight became linear")


def _linear(x: torch.Tensor, weight: torch.Tensor) -> Any:
    return F.linear(x, weight) if x.dim() >= 2 else NotImplemented
