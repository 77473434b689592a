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
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node
from torch.nn import functional as F

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import named_arguments
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.editor import constant_tensors
from edgex.export.rewrites.editing.substitution import Rule, Rules, substitute

aten = torch.ops.aten

# Some write 1.4142 or 0.7071 for the root: GELU changes by less than rounding does.
_NEAR = 1e-4
_ABOVE = (aten.gt.Scalar, aten.ge.Scalar)
_BELOW = (aten.lt.Scalar, aten.le.Scalar)


def name_activations(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Call every such activation by its name; the same program comes back without one."""
    reader = _Reader({node.name: tensor for node, tensor in constant_tensors(program).items()})

    def is_gelu(node: Node) -> bool:
        return reader.gelu_of(node) is not None

    def is_leaky(node: Node) -> bool:
        return reader.leaky_of(node) is not None

    products = Rule(_gelu, where=is_gelu, operands=lambda node: (reader.gelu_of(node),))
    rules: Rules = {
        aten.mul.Tensor: products,
        aten.div.Tensor: products,
        aten.where.self: Rule(F.leaky_relu, where=is_leaky, operands=lambda node: reader.leaky_of(node) or ()),
    }
    return substitute(program, "name_activations", rules, "{count} activation(s) written by hand have kernels")


def _gelu(x: torch.Tensor) -> Any:
    return F.gelu(x) if x.dtype == torch.float32 else NotImplemented


@dataclass(frozen=True)
class _Reader:
    """What arithmetic of a program computes.

    Attributes:
        constants: Values of weights and constants, by the names of nodes, which copies under edit share.
    """

    constants: Mapping[str, torch.Tensor]

    def gelu_of(self, node: Node) -> Node | None:
        """The x of `0.5 * x * (1 + erf(x / sqrt(2)))`, its factors in any order; None for anything else."""
        factor, factors = self.factors_of(node)
        if len(factors) != 2 or not math.isclose(factor, 0.5, rel_tol=1e-6):
            return None
        for x, sum_of in (factors, factors[::-1]):
            erf = self._beside_one(sum_of)
            if erf is None or erf.target != aten.erf.default or not isinstance(erf.args[0], Node):
                continue
            scale, inner = self.factors_of(erf.args[0])
            if inner == [x] and math.isclose(scale, math.sqrt(0.5), rel_tol=_NEAR):
                return x
        return None

    def leaky_of(self, node: Node) -> tuple[Node, float] | None:
        """The x of, and the slope below zero in, `where(x > 0, x, slope * x)`; None for anything else."""
        condition, one, other = node.args
        if not isinstance(condition, Node) or condition.target not in (*_ABOVE, *_BELOW) or condition.args[1] != 0:
            return None
        x, (above, below) = condition.args[0], (one, other) if condition.target in _ABOVE else (other, one)
        if above is not x or not isinstance(x, Node) or not isinstance(below, Node) or below is x:
            return None
        slope, factors = self.factors_of(below)
        # A negative slope or one beyond 1 is no other function, but nobody's kernel is written for it.
        return (x, slope) if factors == [x] and 0 < slope < 1 else None

    def factors_of(self, value: Any) -> tuple[float, list[Node]]:
        """A product as its number and its tensors."""
        number = self._number(value)
        if number is not None:
            return number, []
        assert isinstance(value, Node)
        if value.target not in (aten.mul.Tensor, aten.div.Tensor, aten.mul.Scalar, aten.div.Scalar):
            return 1.0, [value]
        one, other = value.args[:2]
        (factor, factors), (by, others) = self.factors_of(one), self.factors_of(other)
        if value.target in (aten.mul.Tensor, aten.mul.Scalar):
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
        tensor = self.constants.get(value.name)
        return float(tensor) if tensor is not None and tensor.numel() == 1 and not tensor.is_complex() else None
