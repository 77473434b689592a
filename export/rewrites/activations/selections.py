"""Choose between two values with minima and maxima, where a comparison or a small mask says which: engines have those.

```
before:  y = aten.where.self(aten.gt.Tensor(a, b), x, z)
after:   step = 1 where a > b, 0 elsewhere                              # see `steps.py`
         most = (step - 0.5) * 2**127 * 4                               # infinity where a > b, -infinity elsewhere
         y = aten.maximum(aten.minimum(x, most), aten.minimum(z, -most))

before:  y = aten.where.self(mask, x, z)                                # mask: [8, 1], x: [8, 64]
after:   most = aten.where.self(mask, inf, -inf)                        # 8 choices in place of 512
```

ExecuTorch's kernel chooses in 10 ns a number and oneDNN's regions end at a comparison. The value that is not chosen may
be infinite, but no NaN: a choice may be there to take it out (`where(x > 0, x.log(), 0)`), which minima may keep. So it
is written so only where neither value can be one; see `editing/finiteness.py`.
"""

from __future__ import annotations

import math
from itertools import zip_longest
from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import operator_name
from edgex.export.rewrites.activations.steps import TruthsOf, write_step
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.editor import constant_tensors
from edgex.export.rewrites.editing.finiteness import Finiteness, FinitenessOf
from edgex.export.rewrites.editing.substitution import Rule, Rules, static, substitute

aten = torch.ops.aten

# A half of it is infinite, and a half of what half precision makes of it is, too.
_FACTORS = (2.0**127, 4.0)
# A computed mask of at most this part of what it chooses: a number is made of each of its truths.
_PART = 8
# Of constant bounds, in elements.
_MOST = 1 << 20
_ASK = frozenset(f"aten::{name}" for name in ("isnan", "isinf", "isfinite", "isposinf", "isneginf"))
_CHOICES = (aten.where.self, aten.where.ScalarOther, aten.where.ScalarSelf, aten.masked_fill.Scalar)


def select_by_comparisons(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every choice that a comparison makes; the same program comes back without one."""
    return _select(program, "select_by_comparisons", TruthsOf(program), "comparison(s)")


def select_by_masks(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every choice that a small mask makes; the same program comes back without one."""
    return _select(program, "select_by_masks", None, "small mask(s)")


def _select(
    program: CapturedProgram, name: str, truths_of: TruthsOf | None, by: str
) -> tuple[CapturedProgram, Rewrite | None]:
    constants = constant_tensors(program)
    finiteness = FinitenessOf(constants)
    numbers = {
        node.name: float(tensor.detach())
        for node, tensor in constants.items()
        if tensor.dim() == 0 and tensor.dtype == torch.float32 and not hasattr(tensor, "fake_mode")
    }
    constant = {node.name for node in constants}
    # By name: a rule is asked again about the edited graph, whose nodes are others.
    sound = {
        node.name
        for choice in program.exported.graph.nodes
        if choice.target in _CHOICES and not _asks_for_nan(choice)
        for node in choice.all_input_nodes
        if finiteness(node) in (Finiteness.FINITE, Finiteness.INFINITE)
    }

    def operands(node: Node) -> tuple[Any, ...]:
        """What says which, the two values, and whether neither can be NaN."""
        given: Any = node.args
        if node.target == aten.masked_fill.Scalar:
            given = given[1], given[2], given[0]
        mask, *values = given
        known = [numbers.get(value.name, value) if isinstance(value, Node) else value for value in values]
        taken = all(value.name in sound if isinstance(value, Node) else not math.isnan(value) for value in known)
        # A constant one may be larger.
        told = truths_of(mask) if truths_of is not None else (mask, mask.name in constant)
        return told, *known, taken

    write = _by_mask if truths_of is None else _by_comparison
    rules: Rules = dict.fromkeys(_CHOICES, Rule(write, operands=operands))
    detail = f"{{count}} choice(s) by {by} became minima and maxima"
    return substitute(program, name, rules, detail, keeps_float=True)


def _asks_for_nan(choice: Node) -> bool:
    """Whether what says which is told from what is NaN or infinite."""
    pending = list(choice.all_input_nodes)
    seen: set[Node] = set()
    while pending:
        node = pending.pop()
        value = node.meta.get("val")
        if node in seen or not isinstance(value, torch.Tensor) or value.dtype != torch.bool:
            continue
        # Truths of truths (suppression, one box after another) come back to the same ones by very many ways.
        seen.add(node)
        if operator_name(node) in _ASK or (len(node.args) > 1 and node.args[0] is node.args[1]):
            return True
        pending += node.all_input_nodes
    return False


def _by_comparison(truths: Any, x: Any, other: Any, taken: bool) -> Any:
    if truths is None or not taken or not _are_floats(x, other):
        return NotImplemented
    step = write_step(truths)
    if step is NotImplemented:
        return NotImplemented
    first, second = _FACTORS
    return _choose((step - 0.5) * first * second, x, other)


def _by_mask(told: tuple[torch.Tensor, bool], x: Any, other: Any, taken: bool) -> Any:
    mask, is_constant = told
    if not taken or not _are_floats(x, other):
        return NotImplemented
    shapes = [value.shape for value in (mask, x, other) if isinstance(value, torch.Tensor)]
    if not all(static(*shape) for shape in shapes):
        return NotImplemented
    chosen = math.prod(max(sizes) for sizes in zip_longest(*(reversed(shape) for shape in shapes), fillvalue=1))
    if mask.numel() > (_MOST if is_constant else chosen // _PART):
        return NotImplemented
    return _choose(torch.where(mask, torch.tensor(math.inf), torch.tensor(-math.inf)), x, other)


def _are_floats(*values: Any) -> bool:
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    return bool(tensors) and all(tensor.dtype == torch.float32 for tensor in tensors)


def _choose(most: torch.Tensor, x: Any, other: Any) -> torch.Tensor:
    """`x` where the bound is infinity, the other where it is -infinity."""
    return torch.maximum(_at_most(x, most), _at_most(other, -most))


def _at_most(x: Any, most: torch.Tensor) -> torch.Tensor:
    return torch.minimum(x, most) if isinstance(x, torch.Tensor) else most.clamp(max=x)
