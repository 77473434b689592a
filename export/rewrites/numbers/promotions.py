"""Write out what PyTorch converts by itself: whole numbers beside floats, a number on the left, sums of booleans.

```
before:  y = aten.rsub.Scalar(mask, 1.0)                  # 1.0 - mask, with a mask of int64
after:   y = aten.rsub.Scalar(aten.to.dtype(mask, torch.float32), 1.0)

before:  y = aten.remainder.Scalar_Tensor(7, x)           # 7 % x
after:   y = aten.remainder.Tensor(aten.full.default([], 7), x)

before:  y = aten.add.Tensor(a, b)                        # booleans
after:   y = aten.logical_or.default(a, b)
```

The exporter to ONNX fails at the first ("no overload") and has no form of the others; ExecuTorch's runtime has kernels
for two tensors only.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rule, Rules, substitute

aten = torch.ops.aten


def write_promotions(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such operator; the same program comes back without one."""
    writes = {
        aten.rsub.Scalar: _subtract_from,
        aten.rsub.Tensor: _subtract_tensors,
        aten.floor_divide.default: _floor_divide,
        aten.remainder.Scalar: _remainder,
        aten.remainder.Scalar_Tensor: _remainder,
        aten.bitwise_left_shift.Scalar_Tensor: _shift(aten.bitwise_left_shift.Tensor),
        aten.bitwise_right_shift.Scalar_Tensor: _shift(aten.bitwise_right_shift.Tensor),
        aten.add.Tensor: _add,
        aten.mul.Tensor: _multiply,
        aten.atan2.default: _angle,
    }
    # Without the condition each sum and product of a program would be traced.
    rules: Rules = {target: Rule(write, where=_converts) for target, write in writes.items()}
    return substitute(program, "write_promotions", rules, "{count} {operators} with their types written out")


def _converts(node: Node) -> bool:
    """Whether PyTorch converts an operand, or there is a number on the left, or truths only."""
    values = [leaf.meta["val"] for leaf in (node, *node.all_input_nodes)]
    dtypes = {value.dtype for value in values if isinstance(value, torch.Tensor)}  # sizes that a run has are none
    return len(dtypes) > 1 or torch.bool in dtypes or not isinstance(node.args[0], Node)


def _subtract_from(x: torch.Tensor, number: Any, alpha: Any = 1) -> Any:
    dtype = torch.result_type(x, number)
    if dtype == x.dtype:
        return NotImplemented
    scaled = x.to(dtype) if alpha == 1 else x.to(dtype) * alpha
    return torch.rsub(scaled, number)


def _subtract_tensors(x: torch.Tensor, y: torch.Tensor, alpha: Any = 1) -> Any:
    dtype = torch.result_type(x, y)
    if dtype == x.dtype == y.dtype:
        return NotImplemented
    scaled = x.to(dtype) if alpha == 1 else x.to(dtype) * alpha
    return y.to(dtype) - scaled


def _floor_divide(a: Any, b: Any) -> Any:
    if not _is_mixed(a, b):
        return NotImplemented
    return torch.floor_divide(*_as_tensors(a, b))


def _remainder(a: Any, b: Any) -> Any:
    if not _is_mixed(a, b):
        return NotImplemented
    return torch.remainder(*_as_tensors(a, b))


def _shift(target: Any) -> Any:
    def write(a: Any, b: Any) -> Any:
        return target(*_as_tensors(a, b))

    return write


def _add(a: Any, b: Any, alpha: Any = 1) -> Any:
    return torch.logical_or(a, b) if _are_truths(a, b) and alpha == 1 else NotImplemented


def _multiply(a: Any, b: Any) -> Any:
    return torch.logical_and(a, b) if _are_truths(a, b) else NotImplemented


def _angle(a: torch.Tensor, b: torch.Tensor) -> Any:
    return torch.atan2(*_as_floats(a, b)) if _is_mixed(a, b) or not a.is_floating_point() else NotImplemented


def _are_truths(*values: Any) -> bool:
    return all(isinstance(value, torch.Tensor) and value.dtype == torch.bool for value in values)


def _is_mixed(a: Any, b: Any) -> bool:
    """Whether a number stands on the left, or an operand is converted."""
    if not isinstance(a, torch.Tensor):
        return isinstance(a, bool | int | float)
    dtype = torch.result_type(a, b)
    return any(isinstance(value, torch.Tensor) and value.dtype != dtype for value in (a, b))


def _as_tensors(a: Any, b: Any) -> tuple[Any, Any]:
    """Both in the dtype of the result; a number on the right stays one, for which kernels are quicker."""
    dtype = torch.result_type(a, b)
    right = b.to(dtype) if isinstance(b, torch.Tensor) else b
    return (a.to(dtype) if isinstance(a, torch.Tensor) else torch.full((), a, dtype=dtype)), right


def _as_floats(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    dtype = torch.result_type(a, b)
    dtype = dtype if dtype.is_floating_point else torch.get_default_dtype()
    return a.to(dtype), b.to(dtype)
