"""Write operators over more dimensions than engines hold with those that matter.

```
before:  mask = aten.softmax.int(aten.view.default(x, [1, 1, 9, 8, 8, 14, 18]), 2)          # RAFT enlarges flow so
         y    = aten.sum.dim_IntList(aten.mul.Tensor(mask, near), [2])                # near: [1, 2, 9, 1, 1, 14, 18]
after:   mask = aten.softmax.int(aten.reshape.default(x, [9, 16128]), 0)
         y    = aten.sum.dim_IntList(aten.mul.Tensor(mask', near'), [1])              # [1, 9, 64, 252], [2, 9, 1, 252]
```

Dimensions of one element go, and neighbours that an operator treats alike become one; what is between two of them is
one `reshape`. XNNPACK holds six dimensions and reduces five, ExecuTorch's kernel for a softmax over one in the middle
takes 55 ns a number (one thread of a Xeon with AVX-512). Left alone: what still has more than that then, and sizes that
only a run knows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.mutation import mutated_nodes
from edgex.export.rewrites.editing.substitution import Rule, Rules, static, substitute

aten = torch.ops.aten

# What XNNPACK reduces; it holds one more.
_RANK = 5

_VIEWS = (
    *(aten.view.default, aten.reshape.default, aten.flatten.using_ints),
    *(aten.unflatten.int, aten.unsqueeze.default, aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims),
)
_REDUCTIONS = (aten.mean.dim, aten.sum.dim_IntList, aten.amax.default, aten.amin.default)
_SOFTMAXES = (aten.softmax.int, aten.log_softmax.int)
_OF_TWO = (
    *(aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor),
    *(aten.maximum.default, aten.minimum.default),
)
_OF_ONE = (
    *(aten.relu.default, aten.neg.default, aten.exp.default, aten.tanh.default, aten.sigmoid.default, aten.abs.default),
    *(aten.sqrt.default, aten.rsqrt.default, aten.silu.default, aten.gelu.default, aten.clone.default),
)


def fold_dimensions(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such operator; the same program comes back without one."""
    seen = _Sources(frozenset(node.name for node in mutated_nodes(program.exported)))
    rules: Rules = {
        **{one: Rule(partial(_reduced, one), operands=seen.with_shape) for one in (*_REDUCTIONS, *_SOFTMAXES)},
        **{one: Rule(partial(_of_two, one), operands=seen.with_shapes) for one in _OF_TWO},
        **{one: Rule(partial(_of_one, one), operands=seen.with_shape) for one in _OF_ONE},
        aten.permute.default: Rule(_permuted, operands=seen.with_shape),
        **dict.fromkeys(_VIEWS, Rule(_viewed, where=_reads_many, operands=seen.with_result)),
    }
    return substitute(program, "fold_dimensions", rules, "{count} operator(s) have fewer dimensions", keeps_float=True)


@dataclass(frozen=True)
class _Sources:
    """What rules read of a program.

    Attributes:
        written: What is written to, by name: a copy of it is not read later than it was made.
    """

    written: Set[str]

    def with_shape(self, node: Node) -> tuple[Any, ...]:
        """What the first argument is a view of, its shape, and the other arguments."""
        x, *rest = node.args
        return self._source(x), _shape(x), rest, dict(node.kwargs)

    def with_shapes(self, node: Node) -> tuple[Any, ...]:
        """The same of the first two arguments."""
        x, y = node.args[:2]
        return self._source(x), _shape(x), self._source(y), _shape(y), dict(node.kwargs)

    def with_result(self, node: Node) -> tuple[Any, ...]:
        """What the first argument is a view of, and the result's shape."""
        return self._source(node.args[0]), _shape(node)

    def _source(self, node: Any) -> Any:
        """What a value of many dimensions is a view of: the numbers are the same, in the same order."""
        while isinstance(node, Node) and node.target in _VIEWS and _rank(node) > _RANK:
            if any(one.name in self.written for one in (node, *node.all_input_nodes)):
                break
            node = node.args[0]
        return node


def _rank(node: Node) -> int:
    value = node.meta.get("val")
    return value.dim() if isinstance(value, torch.Tensor) else 0


def _shape(node: Any) -> list[Any]:
    value = node.meta.get("val") if isinstance(node, Node) else None
    return list(value.shape) if isinstance(value, torch.Tensor) else []


def _reads_many(node: Node) -> bool:
    """Whether a view reads what a rule gives."""
    read = node.args[0]
    known = (*_REDUCTIONS, *_SOFTMAXES, *_OF_TWO, *_OF_ONE, *_VIEWS, aten.permute.default)
    return isinstance(read, Node) and read.target in known and _rank(read) > _RANK


def _groups(alike: Sequence[Any], sizes: Sequence[int]) -> list[list[int]]:
    """Neighbouring dimensions that are treated alike; those of one element are in none."""
    groups: list[list[int]] = []
    last: Any = None
    for dim, size in enumerate(sizes):
        if size == 1:
            continue
        if groups and alike[dim] == last:
            groups[-1].append(dim)
        else:
            groups.append([dim])
        last = alike[dim]
    return groups


def _reduced(operator: Any, x: torch.Tensor, shape: list[int], rest: list[Any], named: dict[str, Any]) -> Any:
    if named or len(shape) <= _RANK or not static(*shape) or 0 in shape or not rest:
        return NotImplemented
    dims, *more = rest
    is_softmax = operator in _SOFTMAXES
    if dims is None or dims == []:
        return NotImplemented
    chosen = {dim % len(shape) for dim in ([dims] if isinstance(dims, int) else dims)}
    groups = _groups([dim in chosen for dim in range(len(shape))], shape)
    at = [place for place, group in enumerate(groups) if group[0] in chosen]
    if len(groups) > _RANK or not at or (is_softmax and len(at) > 1):
        return NotImplemented
    merged = x.reshape([prod(shape[dim] for dim in group) for group in groups])
    if is_softmax:
        return operator(merged, at[0], *more).reshape(shape)
    keeps = bool(more and more[0])
    y = operator(merged, at, False, *more[1:])
    return y.reshape([1 if dim in chosen else size for dim, size in enumerate(shape) if keeps or dim not in chosen])


def _of_two(
    operator: Callable[..., torch.Tensor],
    x: Any,
    x_shape: list[int],
    y: Any,
    y_shape: list[int],
    named: dict[str, Any],
) -> Any:
    rank = max(len(x_shape), len(y_shape))
    if named or rank <= _RANK + 1 or not static(*x_shape, *y_shape) or 0 in (*x_shape, *y_shape):
        return NotImplemented
    if isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor) and x.dtype != y.dtype:
        return NotImplemented  # with other dimensions, another type might win
    padded = [[1] * (rank - len(shape)) + shape for shape in (x_shape, y_shape)]
    whole = [max(pair) for pair in zip(*padded, strict=True)]
    groups = _groups([tuple(size > 1 for size in pair) for pair in zip(*padded, strict=True)], whole)
    if len(groups) > _RANK + 1:
        return NotImplemented
    merged = [
        value.reshape([prod(shape[dim] for dim in group) for group in groups] or [1]) if own else value
        for value, shape, own in zip((x, y), padded, (x_shape, y_shape), strict=True)
    ]
    return operator(*merged).reshape(whole)


def _of_one(operator: Any, x: torch.Tensor, shape: list[int], rest: list[Any], named: dict[str, Any]) -> Any:
    if len(shape) <= _RANK + 1 or not static(*shape) or 0 in shape or (named and operator is not aten.gelu.default):
        return NotImplemented
    return operator(x.reshape(shape[0], -1), *rest, **named).reshape(shape)


def _permuted(x: torch.Tensor, shape: list[int], rest: list[Any], named: dict[str, Any]) -> Any:
    if named or len(shape) <= _RANK + 1 or not static(*shape) or 0 in shape:
        return NotImplemented
    order = [dim % len(shape) for dim in rest[0]]
    lasting = [dim for dim in order if shape[dim] > 1]
    # Dimensions that stay neighbours, in their new order.
    kept = [dim for dim in range(len(shape)) if shape[dim] > 1]
    groups: list[list[int]] = []
    for dim in lasting:
        if groups and kept.index(dim) == kept.index(groups[-1][-1]) + 1:
            groups[-1].append(dim)
        else:
            groups.append([dim])
    if len(groups) > _RANK + 1:
        return NotImplemented
    before = sorted(groups)
    merged = x.reshape([prod(shape[dim] for dim in group) for group in before])
    return merged.permute([before.index(group) for group in groups]).reshape([shape[dim] for dim in order])


def _viewed(x: torch.Tensor, shape: list[int]) -> Any:
    return x.reshape(shape) if static(*x.shape, *shape) else NotImplemented
