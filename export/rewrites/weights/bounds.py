"""Bounds as engines have them: numbers instead of constant tensors of one element, and open ends that stay open.

```
before:  y = aten.clamp.Tensor(x, least, most)      # buffers without dimensions: -4.0 and 3.5
after:   y = aten.clamp.default(x, -4.0, 3.5)
```

Layers that learnt their bounds, or loaded them, keep them in buffers (the audio encoder of Gemma 3n and 4). Left alone:
other types than the bounds', bounds of several elements, and NaN, between which nothing lies.

```
before:  y = aten.clamp.default(aten.exp.default(x), None, 24.0)
after:   y = aten.minimum.default(aten.exp.default(x), aten.full.default([], 24.0))
```

ONNX Runtime's `Clip` without a bound has the largest number of its type there: infinity becomes 3.4e38. `Min` and `Max`
leave it, in the same time (a million numbers: 0.2 ms either way). Left alone: what is finite, behind layers above all,
since a `Clip` is fused into those.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import named_arguments
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.editor import constant_tensors
from edgex.export.rewrites.editing.finiteness import Finiteness, FinitenessOf
from edgex.export.rewrites.editing.substitution import Rule, Rules, substitute

aten = torch.ops.aten


def write_bounds(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such clamp; the same program comes back without one."""
    constants = constant_tensors(program)

    def number(bound: Any) -> float | None:
        """The number in a constant; None where it is something else."""
        value = constants.get(bound) if isinstance(bound, Node) else None
        if value is None or value.numel() != 1 or not value.is_floating_point() or value.is_meta:
            return None
        found = float(value)
        return None if math.isnan(found) else found

    def bounds(node: Node) -> tuple[Any, ...]:
        x, *given = named_arguments(node).values()
        return x, *(None if bound is None else number(bound) for bound in given)

    def known(node: Node) -> bool:
        given = list(named_arguments(node).values())[1:]
        return all(bound is None or number(bound) is not None for bound in given)

    rules: Rules = {aten.clamp.Tensor: Rule(_clamp, where=known, operands=bounds)}
    return substitute(program, "write_bounds", rules, "{count} {operators} became clamps between numbers")


def _clamp(x: torch.Tensor, least: float | None, most: float | None) -> Any:
    if not x.is_floating_point() or (least is None and most is None):
        return NotImplemented
    return torch.clamp(x, least, most)


def open_bounds(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write clamps with one bound of what may be infinite; the same program comes back without one."""
    finiteness = FinitenessOf(constant_tensors(program))

    def may_be_infinite(node: Node) -> bool:
        x = node.args[0]
        return isinstance(x, Node) and finiteness(x) != Finiteness.FINITE

    rules: Rules = {
        aten.clamp.default: Rule(_clamp_at_one_end, where=may_be_infinite),
        aten.clamp_min.default: Rule(lambda x, least: _clamp_at_one_end(x, least, None), where=may_be_infinite),
        aten.clamp_max.default: Rule(lambda x, most: _clamp_at_one_end(x, None, most), where=may_be_infinite),
    }
    return substitute(program, "open_bounds", rules, "{count} {operators} with one bound leave infinity at the other")


def _clamp_at_one_end(x: torch.Tensor, least: Any, most: Any) -> Any:
    if not x.is_floating_point() or (least is None) == (most is None):
        return NotImplemented
    bound = torch.full((), least if most is None else most, dtype=x.dtype)
    return torch.maximum(x, bound) if most is None else torch.minimum(x, bound)
