"""Products of stacks of matrices as `bmm`, which XNNPACK takes; `matmul` becomes copies around it when it is lowered.

```
before:  y = aten.matmul.default(q, k)                                                  # [2, 4, 9, 8] x [2, 4, 8, 9]
after:   y = aten.bmm.default(q.reshape(8, 9, 8), k.reshape(8, 8, 9)).reshape(2, 4, 9, 9)

before:  y = aten.mm.default(texts, images)                                             # [2, 8] x [8, 3], both computed
after:   y = aten.bmm.default(texts.reshape(1, 2, 8), images.reshape(1, 8, 3)).reshape(2, 3)
```

The numbers of rows and columns may vary; then no size is named:

```
after:   y = aten.bmm.default(q.flatten(0, 1), k.flatten(0, 1)).unflatten(0, [2, 4])
```

Left alone: matrices that are repeated, vectors, a single matrix of weights, which XNNPACK packs when it loads.
"""

from __future__ import annotations

from math import prod
from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import operator_name
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.editor import constant_tensors
from edgex.export.rewrites.editing.substitution import Rule, Rules, static, substitute

aten = torch.ops.aten


# What may stand between a weight and the product that it is of.
_VIEWS = frozenset(f"aten::{name}" for name in ("t", "numpy_T", "transpose", "permute", "to", "detach", "alias"))


def write_batches(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such product; the same program comes back without one."""
    constants = constant_tensors(program)

    def is_computed(node: Node) -> bool:
        factor = node.args[1]
        while isinstance(factor, Node) and operator_name(factor) in _VIEWS:
            factor = factor.args[0]
        return factor not in constants

    rules: Rules = {
        aten.matmul.default: Rule(_product, where=is_computed),
        aten.mm.default: Rule(_product, where=is_computed),
        aten.linear.default: Rule(_linear, where=is_computed),
    }
    return substitute(program, "write_batches", rules, "{count} product(s) of computed matrices became bmm")


def _linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> Any:
    if weight.dim() != 2 or x.dim() < 2 or not static(*x.shape, *weight.shape):
        return NotImplemented
    y = _product(x, weight.transpose(0, 1))
    return y if bias is None else y + bias


def _product(left: torch.Tensor, right: torch.Tensor) -> Any:
    if left.dim() < 2 or not left.is_floating_point():
        return NotImplemented
    if not static(*left.shape, *right.shape):
        return _varying_product(left, right)
    if right.dim() == 2:
        rows = prod(left.shape[:-1])
        product = torch.bmm(left.reshape(1, rows, left.shape[-1]), right.reshape(1, *right.shape))
        return product.reshape(*left.shape[:-1], right.shape[-1])
    if left.dim() < 3 or right.shape[:-2] != left.shape[:-2]:
        return NotImplemented
    if left.dim() == 3:
        return torch.bmm(left, right)
    count = prod(left.shape[:-2])
    product = torch.bmm(left.reshape(count, *left.shape[-2:]), right.reshape(count, *right.shape[-2:]))
    return product.reshape(*left.shape[:-2], *product.shape[-2:])


def _varying_product(left: torch.Tensor, right: torch.Tensor) -> Any:
    before = left.shape[:-2]
    if not before or not static(*before, *right.shape[:-2]) or right.shape[:-2] != before:
        return NotImplemented
    if len(before) == 1:
        return torch.bmm(left, right)
    last = len(before) - 1
    return torch.unflatten(torch.bmm(left.flatten(0, last), right.flatten(0, last)), 0, before)
