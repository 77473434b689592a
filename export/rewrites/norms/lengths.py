"""Write a vector's length that is kept from 0 as a root of a number that is kept from 0.

```
before:  n = aten.clamp_min.default(aten.linalg_vector_norm.default(x, 2, [-1], True), 1e-12)      # F.normalize
after:   n = sqrt(clamp(sum(x * x, [-1], True), min=1e-24))
```

XNNPACK's square roots near 0 are wrong, so that it is given none of what may be 0; behind the clamp nothing is. Cosine
attention (Swin V2, Restormer) and embeddings stay in one region. Left alone: bounds whose square float32 does not hold,
other norms, and other types.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import named_arguments
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rule, Rules, substitute

aten = torch.ops.aten

# The square of a smaller one has fewer digits than float32's.
_LEAST_BOUND = 1e-18


def bound_lengths(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such length; the same program comes back without one."""
    rule = Rule(_length, where=_is_length, operands=_operands)
    rules: Rules = {aten.clamp_min.default: rule, aten.clamp.default: rule}
    return substitute(program, "bound_lengths", rules, "{count} length(s) of vectors became roots kept from 0")


def _is_length(node: Node) -> bool:
    norm, given = node.args[0], named_arguments(node)
    bound = given["min"]
    if not isinstance(norm, Node) or norm.target is not aten.linalg_vector_norm.default or given.get("max") is not None:
        return False
    of = named_arguments(norm)
    euclidean = of["ord"] == 2 and of["dim"] is not None and of["dtype"] is None
    alone = len(norm.users) == 1 and norm.meta["val"].dtype == torch.float32
    return euclidean and alone and isinstance(bound, int | float) and bound >= _LEAST_BOUND


def _operands(node: Node) -> tuple[Any, ...]:
    of = named_arguments(node.args[0])  # type: ignore[arg-type]
    return of["self"], of["dim"], of["keepdim"], named_arguments(node)["min"]


def _length(x: torch.Tensor, dims: list[int], keepdim: bool, bound: float) -> torch.Tensor:
    return torch.sqrt(torch.clamp(torch.sum(x * x, dims, keepdim), min=bound * bound))
