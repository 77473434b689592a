"""Write products with a transposed weight as linear layers, whose weight XNNPACK turns when it loads.

```
before:  turned = aten.transpose.int(weight, -1, -2)                    # relative positions: BotNet, heads over a table
         y      = aten.matmul.default(x, turned)
after:   y      = aten.linear.default(x, weight)

before:  y      = aten.addmm.default(bias, x, turned)
after:   y      = aten.linear.default(x, weight, bias)

before:  y      = aten.matmul.default(weight, x)                        # [6, 12] x [2, 12, 9]: mixers of tokens
after:   y      = aten.linear.default(x.transpose(-1, -2), weight).transpose(-1, -2)
```

Lowering computes the transposition in every run, and repeats weights on the left for each of the matrices. What is
computed is none that XNNPACK takes: ExecuTorch's kernel multiplies one number at a time. Left alone: weights that stand
on the right as they are, which XNNPACK takes, and those on the left of one matrix.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node
from torch.nn import functional as F

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import named_arguments, operator_name
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.editor import constant_tensors
from edgex.export.rewrites.editing.substitution import Rule, Rules, static, substitute
from edgex.export.rewrites.folding.constants import TRANSPOSITIONS

aten = torch.ops.aten


def turn_weights(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such product; the same program comes back without one."""
    constants = constant_tensors(program)

    def is_turned(factor: Any) -> bool:
        if not isinstance(factor, Node) or operator_name(factor) not in TRANSPOSITIONS:
            return False
        weight = factor.args[0]
        if not isinstance(weight, Node) or weight not in constants or constants[weight].dim() != 2:
            return False
        rows, columns = constants[weight].stride()
        return rows != columns and tuple(factor.meta["val"].stride()) == (columns, rows)

    def is_left(node: Node) -> bool:
        left, right = node.args
        if not isinstance(left, Node) or not isinstance(right, Node) or left not in constants or right in constants:
            return False
        return constants[left].dim() == 2 and right.meta["val"].dim() > 2

    def is_biased(node: Node) -> bool:
        given = named_arguments(node)
        bias, plain = given["self"], given["beta"] == given["alpha"] == 1
        if not plain or bias not in constants or not is_turned(given["mat2"]):
            return False
        return bool(constants[bias].shape == given["mat2"].meta["val"].shape[1:])

    def operands(node: Node) -> tuple[Any, ...]:
        *before, factor = node.args
        assert isinstance(factor, Node)
        # By its form alone: it is asked of the edited graph, too.
        return *before, factor.args[0] if factor.meta["val"].dim() == 2 else factor

    rules: Rules = {
        aten.matmul.default: Rule(
            _multiply, where=lambda node: is_turned(node.args[1]) or is_left(node), operands=operands
        ),
        aten.mm.default: Rule(_multiply, where=lambda node: is_turned(node.args[1]), operands=operands),
        aten.addmm.default: Rule(_add_product, where=is_biased, operands=operands),
    }
    return substitute(program, "turn_weights", rules, "{count} product(s) with a transposed weight became linear")


def _multiply(one: torch.Tensor, other: torch.Tensor) -> Any:
    if other.dim() == 2:  # a weight, as it was before it was turned
        return F.linear(one, other) if one.dim() >= 2 else NotImplemented
    if static(other.shape[-1]) and other.shape[-1] == 1:  # columns alone
        return F.linear(other.squeeze(-1), one).unsqueeze(-1)
    return F.linear(other.transpose(-1, -2), one).transpose(-1, -2)


def _add_product(bias: torch.Tensor, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.linear(x, weight, bias)
