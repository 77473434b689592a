"""Write what is 1 where numbers compare and 0 elsewhere as a step, which is arithmetic: engines compare nothing.

```
before:  more = aten.gt.Tensor(x, bias); y = aten.to.dtype(more, float32)
after:   by = aten.sub.Tensor(x, bias)
         y = aten.clamp.default(by * 2**126 * 2**126, 0, 1)
```

The smallest difference of two floats that differ is 2**-149; times 2**252 it is above 1. `lt` is `gt` the other way
round, `le` and `ge` are 1 less the opposite, `eq` and `ne` look at the difference without its sign, and logic between
them is a product, a maximum, 1 less the other. Conversions, products with floats, counts, and choices of 1, 0 and -1
are made of steps. ExecuTorch compares in 9 ns a number and makes a float of each truth in up to 20.

Two tensors are brought between the largest floats first: infinity less infinity is no number. A bound that is known
needs none of that. A NaN, which compares with nothing, becomes NaN or 0, as the engine has it: the proof of an artifact
says whether it takes NaN. Left alone: other types than float32, next to nothing, a tensor compared with itself (which
asks for NaN).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import named_arguments, operator_name
from edgex.delegates.graph.torch_internals import FakeTensor
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.editor import constant_tensors
from edgex.export.rewrites.editing.substitution import Rule, Rules, static, substitute

aten = torch.ops.aten

# Of a float32 above 0, the smallest, is 2**-149; one factor alone would not be a float32.
_FACTOR = 2.0**126
# Fewer numbers are compared sooner than an engine is called.
_LEAST = 256
# Of constants that are looked through for infinity, in elements.
_MOST = 1 << 20
# Of truths in all: truths of the same truths (suppression, one box after another) would be written again and again.
_PARTS = 32
# Half precision counts so far.
_COUNTED = 1 << 11
# Programs whose writes are returned have the last.
_CONVERSIONS = (
    *(aten.to.dtype, aten.to.dtype_layout, aten.to.device, aten.to.other, aten.type_as.default),
    torch.ops.aten._to_copy.default,
)
_COMPARISONS = frozenset(f"aten::{name}" for name in ("gt", "lt", "ge", "le", "eq", "ne"))
_LOGIC = {
    **dict.fromkeys((f"aten::{name}" for name in ("logical_and", "bitwise_and", "__and__")), "and"),
    **dict.fromkeys((f"aten::{name}" for name in ("logical_or", "bitwise_or", "__or__")), "or"),
    **dict.fromkeys((f"aten::{name}" for name in ("logical_not", "bitwise_not")), "not"),
}


class TruthsOf:
    """Tells what truths of a program are made of."""

    def __init__(self, program: CapturedProgram) -> None:
        """Take the program whose nodes are asked about."""
        self._finite = {
            node.name
            for node, tensor in constant_tensors(program).items()
            if tensor.dtype == torch.float32 and tensor.numel() <= _MOST and _is_finite(tensor)
        }

    def __call__(self, node: Any) -> tuple[Any, ...] | None:
        """`(how, parts)` of logic, `(how, x, other, one is known to be finite)` of a comparison; not of very many."""
        return self._read(node, iter(range(_PARTS)))

    def _read(self, node: Any, left: Iterator[int]) -> tuple[Any, ...] | None:
        if not isinstance(node, Node) or next(left, None) is None:
            return None
        name, given = operator_name(node), list(named_arguments(node).values()) if node.op == "call_function" else []
        if name in _LOGIC:
            parts = [self._read(part, left) for part in given]
            return None if None in parts else (_LOGIC[name], *parts)
        if name not in _COMPARISONS or given[0] is given[1]:
            return None
        known = any(isinstance(side, Node) and side.name in self._finite for side in given)
        return name.removeprefix("aten::"), *given, known


def step_truths(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such comparison; the same program comes back without one."""
    truths_of = TruthsOf(program)

    def of_first(node: Node) -> tuple[Any, ...]:
        """The truths that come first, and the arguments behind them."""
        truths, *others = named_arguments(node).values()
        return truths_of(truths), *others

    def of_product(node: Node) -> tuple[Any, ...]:
        """The truths that are one factor, and the other one."""
        for truths, factor in (node.args, node.args[::-1]):
            found = truths_of(truths)
            if found is not None and isinstance(factor, Node):
                return found, factor
        return None, None

    rules: Rules = {
        **dict.fromkeys(_CONVERSIONS, Rule(_converted, where=_gives_float, operands=of_first)),
        aten.mul.Tensor: Rule(_multiplied, where=_gives_float, operands=of_product),
        aten.where.Scalar: Rule(_chosen, where=_gives_float, operands=of_first),
        aten.sum.default: Rule(_counted, operands=of_first),
        aten.sum.dim_IntList: Rule(_summed, operands=of_first),
    }
    detail = "{count} comparison(s) that are used as numbers became steps"
    return substitute(program, "step_truths", rules, detail, keeps_float=True)


def _is_finite(tensor: torch.Tensor) -> bool:
    # A question about a program whose values were never read gets the longer form.
    return not isinstance(tensor, FakeTensor) and bool(tensor.isfinite().all())


def _gives_float(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dtype == torch.float32


def _converted(truths: Any, *_: Any) -> Any:
    return write_step(truths)


def _multiplied(truths: Any, factor: Any) -> Any:
    if not isinstance(factor, torch.Tensor) or factor.dtype != torch.float32:
        return NotImplemented
    step = write_step(truths)
    return step if step is NotImplemented else factor * step


def _chosen(truths: Any, here: float, there: float) -> Any:
    # `there + (here - there)` is `here` of few numbers, among them 1 and 0.
    if not {float(here), float(there)} <= {-1.0, 0.0, 1.0}:
        return NotImplemented
    step = write_step(truths)
    if step is NotImplemented or (here, there) == (1, 0):
        return step
    return step * (here - there) + there


def _counted(truths: Any, dtype: torch.dtype | None) -> Any:
    return _summed(truths, None, False, dtype)


def _summed(truths: Any, dims: Any, keepdim: bool, dtype: torch.dtype | None) -> Any:
    step = write_step(truths)
    if step is NotImplemented or not static(*step.shape) or step.numel() > _COUNTED:
        return NotImplemented
    return step.sum(dims, keepdim).to(torch.int64 if dtype is None else dtype)


def write_step(truths: Any) -> Any:
    """1 where they are true, 0 elsewhere, in float32; `NotImplemented` where they are of something else."""
    if truths is None:
        return NotImplemented
    how, *parts = truths
    if how not in ("and", "or", "not"):
        return _compared(how, *parts)
    steps = [write_step(part) for part in parts]
    if any(step is NotImplemented for step in steps):
        return NotImplemented
    if how == "not":
        return 1 - steps[0]
    return steps[0] * steps[1] if how == "and" else torch.maximum(*steps)


def _compared(how: str, x: Any, other: Any, known: bool) -> Any:
    tensors = [side for side in (x, other) if isinstance(side, torch.Tensor)]
    if any(tensor.dtype != torch.float32 for tensor in tensors):
        return NotImplemented
    if len(tensors) == 1 and not (isinstance(other, int | float) and math.isfinite(other)):
        return NotImplemented
    by = x - other if known or len(tensors) == 1 else _bounded(x) - _bounded(other)
    if static(*by.shape) and by.numel() < _LEAST:
        return NotImplemented
    if how in ("lt", "ge"):
        by = -by
    elif how in ("eq", "ne"):
        by = by.abs()
    step = (by * _FACTOR * _FACTOR).clamp(0, 1)
    return 1 - step if how in ("ge", "le", "eq") else step


def _bounded(x: torch.Tensor) -> torch.Tensor:
    most = torch.finfo(torch.float32).max
    return x.clamp(-most, most)
