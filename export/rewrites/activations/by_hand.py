"""Find activations that forward writes by hand, and call them by their names, for which engines have kernels.

```
before:  e = aten.erf.default(aten.div.Tensor(x, 1.4142135))
         y = aten.mul.Tensor(aten.mul.Tensor(x, 0.5), aten.add.Tensor(e, 1.0))
after:   y = aten.gelu.default(x)

before:  y = aten.where.self(aten.gt.Scalar(x, 0), x, aten.mul.Tensor(x, 0.2))
after:   y = aten.leaky_relu.default(x, 0.2)
```

ExecuTorch's kernels of the error function, of comparisons and choices go number by number, and cut a region in two.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node
from torch.nn import functional as F

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import named_arguments
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.editor import constant_tensors
from edgex.export.rewrites.editing.mutation import mutated_nodes
from edgex.export.rewrites.editing.substitution import Rule, Rules, substitute

aten = torch.ops.aten

# Some write 1.4142 or 0.7071 for the root. So near it GELU changes by at most 3e-5, since x * x * pdf(x) < 0.3.
_NEAR = 1e-4
# Factors that are multiplied one after the other.
_DEEPEST = 5
_QUOTIENTS = (aten.div.Tensor, aten.div.Scalar)
_PRODUCTS = (aten.mul.Tensor, aten.mul.Scalar, *_QUOTIENTS)
_ABOVE = (aten.gt.Scalar, aten.ge.Scalar)
_BELOW = (aten.lt.Scalar, aten.le.Scalar)


def name_activations(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Call every such activation by its name; the same program comes back without one."""
    constants = {node.name: tensor for node, tensor in constant_tensors(program).items()}
    reader = _Reader(constants, {node.name for node in mutated_nodes(program.exported)})
    products = Rule(
        F.gelu,
        where=lambda node: reader.gelu_of(node) is not None,
        operands=lambda node: (reader.gelu_of(node),),
    )
    choices = Rule(
        F.leaky_relu,
        where=lambda node: reader.leaky_of(node) is not None,
        operands=lambda node: reader.leaky_of(node) or (),
    )
    rules: Rules = {aten.mul.Tensor: products, aten.div.Tensor: products, aten.where.self: choices}
    return substitute(program, "name_activations", rules, "{count} activation(s) written by hand have kernels")


@dataclass(frozen=True)
class _Reader:
    """What arithmetic of a program computes, in it and in copies under edit, whose nodes have the same names.

    Attributes:
        constants: Values of weights and constants, by name.
        written: Names of what is written to, which may be another value when it is read again.
    """

    constants: Mapping[str, torch.Tensor]
    written: Collection[str]

    def gelu_of(self, node: Node) -> Node | None:
        """The x of `0.5 * x * (1 + erf(x / sqrt(2)))`, its factors in any order; None for anything else."""
        factor, factors = self._factors_of(node)
        for sum_of in factors:
            erf = self._beside_one(sum_of)
            if erf is None or erf.target != aten.erf.default or self._is_written(erf, sum_of):
                continue
            scaled = self._scaled(erf.args[0])
            if scaled is None or not math.isclose(scaled[1], math.sqrt(0.5), rel_tol=_NEAR):
                continue
            x = scaled[0]
            by, parts = self._factors_of(x)
            others = [one for one in factors if one is not sum_of]
            same = sorted(part.name for part in parts) == sorted(one.name for one in others)
            if same and math.isclose(factor, 0.5 * by, rel_tol=1e-6) and self._is_alike(node, x):
                return x
        return None

    def leaky_of(self, node: Node) -> tuple[Node, float] | None:
        """The x of, and the slope below zero in, `where(x > 0, x, slope * x)`; None for anything else."""
        condition, one, other = node.args
        if not isinstance(condition, Node) or condition.target not in (*_ABOVE, *_BELOW) or condition.args[1] != 0:
            return None
        x, (above, below) = condition.args[0], (one, other) if condition.target in _ABOVE else (other, one)
        scaled = self._scaled(below)
        if above is not x or scaled is None or scaled[0] is not x or self._is_written(condition, below):
            return None
        # A negative slope or one beyond 1 is no other function, but nobody's kernel is written for it.
        return (scaled[0], scaled[1]) if 0 < scaled[1] < 1 and self._is_alike(node, scaled[0]) else None

    def _is_alike(self, node: Node, x: Node) -> bool:
        """Whether a function of x may take the place of an operator."""
        found, wanted = x.meta["val"], node.meta["val"]
        same = found.dtype == wanted.dtype == torch.float32 and found.shape == wanted.shape
        return same and not self._is_written(x)

    def _is_written(self, *values: Any) -> bool:
        return any(isinstance(value, Node) and value.name in self.written for value in values)

    def _scaled(self, value: Any) -> tuple[Node, float] | None:
        """The tensor and the number of which something is the product."""
        if not isinstance(value, Node) or value.target not in _PRODUCTS:
            return None
        one, other = value.args[:2]
        number = self._number(other)
        if number is not None and isinstance(one, Node):
            divides = value.target in _QUOTIENTS
            return None if divides and number == 0 else (one, 1 / number if divides else number)
        number = self._number(one)
        if number is None or not isinstance(other, Node) or value.target in _QUOTIENTS:
            return None
        return other, number

    def _factors_of(self, value: Any, depth: int = _DEEPEST) -> tuple[float, list[Node]]:
        """A product as its number and its tensors; NaN for what is neither."""
        number = self._number(value)
        if number is not None:
            return number, []
        if not isinstance(value, Node):
            return math.nan, []
        if value.target not in _PRODUCTS or depth == 0 or self._is_written(value):
            return 1.0, [value]
        one, other = value.args[:2]
        (factor, factors), (by, others) = self._factors_of(one, depth - 1), self._factors_of(other, depth - 1)
        if value.target not in _QUOTIENTS:
            return factor * by, factors + others
        return (factor / by, factors) if by and not others else (1.0, [value])

    def _beside_one(self, value: Node) -> Node | None:
        """The other summand of a sum with one."""
        if value.target not in (aten.add.Tensor, aten.add.Scalar) or named_arguments(value)["alpha"] != 1:
            return None
        one, other = value.args[:2]
        if self._number(one) == 1:
            one, other = other, one
        return one if self._number(other) == 1 and isinstance(one, Node) else None

    def _number(self, value: Any) -> float | None:
        """A literal, or the only element of a constant."""
        if isinstance(value, int | float):
            return float(value)
        tensor = self.constants.get(value.name) if isinstance(value, Node) else None
        return (
            float(tensor.detach()) if tensor is not None and tensor.numel() == 1 and not tensor.is_complex() else None
        )
