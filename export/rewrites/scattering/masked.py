"""Write assignments to what a mask chooses as a choice between two whole tensors.

```
before:  chosen  = aten.index.Tensor(y, [mask])                  # [u0]: how many, only the run knows
         n       = aten.sym_size.int(chosen, 0); aten._assert_scalar(n >= 0)
         doubled = aten.mul.Tensor(chosen, 2)
         z       = aten.index_put.default(x, [mask], doubled)    # x[mask] = y[mask] * 2
after:   doubled = aten.mul.Tensor(y, 2)                         # all of it
         z       = aten.where.self(mask, doubled, x)
```

Every element is computed, whether it is chosen or not: sizes are fixed then, and no engine has to count. `mask` may be
behind whole dimensions (`x[:, mask]`) and have fewer dimensions than what follows; it may be written out again for
every use (`x[x > 0] = y[x > 0]`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import is_tuple, named_arguments, operator_name, overload_of
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.editor import ProgramEditor
from edgex.export.rewrites.editing.mutation import mutated_nodes
from edgex.export.rewrites.editing.substitution import Rule, static, substitute

aten = torch.ops.aten

_CHECKS = frozenset(
    f"aten::{name}" for name in ("_assert_scalar", "sym_constrain_range", "sym_constrain_range_for_size")
)
# Deeper expressions than people write; two masks are compared as far.
_DEEPEST = 24


@dataclass(frozen=True)
class _Leaf:
    """A tensor of the whole expression, by its number."""

    number: int


@dataclass(frozen=True)
class _Call:
    """A pointwise operator in it; `args` holds leaves, calls and literals."""

    target: Any
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...]

    def compute(self, leaves: Sequence[torch.Tensor]) -> Any:
        """Its value over whole tensors."""
        args = [_compute(arg, leaves) for arg in self.args]
        return self.target(*args, **{name: _compute(arg, leaves) for name, arg in self.kwargs})


def _compute(expression: Any, leaves: Sequence[torch.Tensor]) -> Any:
    if isinstance(expression, _Leaf):
        return leaves[expression.number]
    return expression.compute(leaves) if isinstance(expression, _Call) else expression


@dataclass(frozen=True)
class _Found:
    """What is assigned where: `x[..., mask]`, behind `skipped` whole dimensions."""

    x: Node
    mask: Node
    skipped: int
    leaves: tuple[Node, ...]
    value: _Leaf | _Call


def write_masked(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such assignment; the same program comes back without one."""
    written = mutated_nodes(program.exported)

    def applies(node: Node) -> bool:
        found = _find(node)
        return found is not None and written.isdisjoint((found.x, found.mask, *found.leaves))

    def operands(node: Node) -> tuple[Any, ...]:
        found = _find(node)
        assert found is not None
        return found.x, found.mask, found.skipped, found.value, list(found.leaves)

    rule = Rule(_choose, where=applies, operands=operands)
    detail = "{count} assignment(s) to what a mask chooses became choices between whole tensors"
    made, rewrite = substitute(program, "write_masked", {aten.index_put.default: rule}, detail)
    return (made, None) if rewrite is None else (_drop_counts(made), rewrite)


def _choose(
    x: torch.Tensor, mask: torch.Tensor, skipped: int, value: _Leaf | _Call, leaves: list[torch.Tensor]
) -> torch.Tensor:
    behind = x.dim() - skipped - mask.dim()
    wide = mask.reshape(*mask.shape, *[1] * behind) if behind else mask
    return torch.where(wide, _compute(value, leaves), x)


def _find(node: Node) -> _Found | None:
    """What an operator assigns; None where it takes more than a mask and what the same mask chooses."""
    x, places, value, *rest = named_arguments(node).values()
    read = _read_mask(places)
    if read is None or any(rest):  # it adds
        return None
    mask, skipped = read
    shape = x.meta["val"].shape
    if not static(*shape, *mask.meta["val"].shape) or not _fits(shape, mask, skipped):
        return None
    behind = len(shape) - skipped - mask.meta["val"].dim()
    leaves: list[Node] = []
    expression = _read(value, mask, skipped, behind, leaves, 0)
    if expression is None:
        return None
    return _Found(x, mask, skipped, tuple(leaves), expression)


def _read_mask(places: Any) -> tuple[Node, int] | None:
    """The mask among the indices of an operator, and how many dimensions stand before it."""
    if not is_tuple(places):
        return None
    given = [(at, place) for at, place in enumerate(places) if place is not None]
    if len(given) != 1:
        return None
    skipped, mask = given[0]
    is_mask = isinstance(mask, Node) and mask.meta["val"].dtype == torch.bool and mask.meta["val"].dim() > 0
    return (mask, skipped) if is_mask else None


def _fits(shape: Sequence[int], mask: Node, skipped: int) -> bool:
    chosen = mask.meta["val"].shape
    return tuple(shape[skipped : skipped + len(chosen)]) == tuple(chosen)


def _read(value: Any, mask: Node, skipped: int, behind: int, leaves: list[Node], depth: int) -> Any:
    """An expression over what the mask chooses; None where it is not one.

    Args:
        value: A node or a literal.
        mask: The mask of the assignment.
        skipped: How many dimensions stand before it.
        behind: How many stand behind it.
        leaves: The tensors that are met; added to.
        depth: How deep in the expression this is.
    """
    if not isinstance(value, Node):
        return value
    tensor = value.meta.get("val")
    if depth > _DEEPEST or not isinstance(tensor, torch.Tensor):
        return None
    source = _chosen(value, mask, skipped)
    if source is None and static(*tensor.shape) and tensor.dim() <= behind:
        source = value  # the same for every element that is chosen
    if source is not None:
        if source not in leaves:
            leaves.append(source)
        return _Leaf(leaves.index(source))
    overload = overload_of(value)
    if overload is None or torch.Tag.pointwise not in overload.tags:
        return None
    args = [_read(arg, mask, skipped, behind, leaves, depth + 1) for arg in value.args]
    kwargs = {name: _read(arg, mask, skipped, behind, leaves, depth + 1) for name, arg in value.kwargs.items()}
    lost = any(read is None and isinstance(arg, Node) for read, arg in zip(args, value.args, strict=True))
    if lost or any(read is None and isinstance(value.kwargs[name], Node) for name, read in kwargs.items()):
        return None
    return _Call(value.target, tuple(args), tuple(kwargs.items()))


def _chosen(value: Node, mask: Node, skipped: int) -> Node | None:
    """The tensor of which a node is what this mask chooses."""
    if value.target is aten.masked_select.default:
        source, own = value.args
        read: tuple[Any, int] | None = (own, 0)
        if len(own.meta["val"].shape) != len(source.meta["val"].shape):  # type: ignore[union-attr]
            return None
    elif value.target is aten.index.Tensor:
        source, read = value.args[0], _read_mask(value.args[1])
    else:
        return None
    assert isinstance(source, Node)
    if read is None or read[1] != skipped or not _same(read[0], mask, 0):
        return None
    return source if static(*source.meta["val"].shape) and _fits(source.meta["val"].shape, mask, skipped) else None


def _same(one: Any, other: Any, depth: int) -> bool:
    """Whether two values are computed alike from the same ones."""
    if one is other:
        return True
    if is_tuple(one) and is_tuple(other):
        return len(one) == len(other) and all(_same(a, b, depth) for a, b in zip(one, other, strict=True))
    if not isinstance(one, Node) or not isinstance(other, Node):
        return type(one) is type(other) and bool(one == other)
    overload = overload_of(one)
    if depth > _DEEPEST or one.target is not other.target or overload is None:
        return False
    if torch.Tag.nondeterministic_seeded in overload.tags or one.kwargs.keys() != other.kwargs.keys():
        return False
    return _same(one.args, other.args, depth + 1) and all(
        _same(arg, other.kwargs[name], depth + 1) for name, arg in one.kwargs.items()
    )


def _drop_counts(program: CapturedProgram) -> CapturedProgram:
    """The program without checks of how many elements a mask chooses, where nothing else asks."""
    editor = ProgramEditor(program)
    for node in reversed(list(editor.graph.nodes)):
        counted = node.target in (aten.index.Tensor, aten.masked_select.default) and node.meta.get("unbacked_bindings")
        if not counted:
            continue
        users = _all_users(node)
        checks = [user for user in users if operator_name(user) in _CHECKS]
        # What asks for it ends in a check: sizes and comparisons, and no tensor.
        if users and all(user in checks or _is_number(user) for user in users):
            for check in checks:
                editor.graph.erase_node(check)
    return editor.finish()


def _is_number(node: Node) -> bool:
    return node.op == "call_function" and not isinstance(node.meta.get("val"), torch.Tensor | tuple | list)


def _all_users(node: Node) -> set[Node]:
    """Whatever reads a node, directly or through others."""
    found: set[Node] = set()
    pending = [node]
    while pending:
        for user in pending.pop().users:
            if user not in found:
                found.add(user)
                pending.append(user)
    return found
