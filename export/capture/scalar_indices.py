"""Indices that a run finds: rows are read and written at tensors, not at numbers that an exported program lacks.

```
table[t]                 # t: int64[], a time step or a position
before:  n = aten.item(t);  row = aten.select.int(table, 0, n)          # n: a size that no engine can compute with
after:   row = aten.index.Tensor(table, [t])

cache[:, t] = row        # torch.export: "Could not extract specialized integer from data-dependent expression u0"
after:   aten.index_put_(cache, [None, t], row)

cache[t : t + 4] = rows
after:   aten.index_put_(cache, [t + aten.arange(4)], rows)

x[(t, u), :]             # torch.export reads the two numbers: "its data is not allocated yet"
after:   aten.index.Tensor(x, [aten.stack([t, u])])
```
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import has_free_unbacked_symbols
from torch.overrides import TorchFunctionMode

from edgex.delegates.graph.schema import given_arguments, nodes_in, operator_name, overload_of, schema_of
from edgex.export.rewrites.editing.mutation import overwritten_views

_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8)


class IndicesOfTensors(TorchFunctionMode):
    """Makes a tensor of indices that are tensors without dimensions, so that torch.export need not read numbers.

    `x[…, t] = y` is written as `index_put_`, and sequences of such tensors (`x[(t, u), :]`, `torch.as_tensor([t, u])`)
    are stacked.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """As torch calls it."""
        if func is torch.as_tensor and args and _has_tensors(args[0]):
            return _stack(args[0], *args[1:], **(kwargs or {}))
        if func is torch.Tensor.__getitem__ and isinstance(args[1], tuple) and any(map(_has_tensors, args[1])):
            args = (args[0], _stack_sequences(args[1]))
        if func is torch.Tensor.__setitem__:
            target, key, value = args
            if isinstance(key, tuple) and any(map(_has_tensors, key)):
                key = _stack_sequences(key)
                args = (target, key, value)
            items = list(key) if isinstance(key, tuple) else [key]
            if any(map(_is_found, items)) and all(map(_is_basic, items)) and _write(target, items, value):
                return None
        return func(*args, **(kwargs or {}))


def _has_tensors(item: Any) -> bool:
    """Whether it is a sequence of numbers of which a run finds at least one."""
    return (
        isinstance(item, list | tuple)
        and any(isinstance(one, torch.Tensor) for one in item)
        and all(one.dim() == 0 if isinstance(one, torch.Tensor) else isinstance(one, int | float) for one in item)
    )


def _stack_sequences(key: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(_stack(item) if _has_tensors(item) else item for item in key)


def _stack(items: Sequence[Any], dtype: torch.dtype | None = None, device: Any = None) -> torch.Tensor:
    """As `torch.tensor` types a sequence: what all its members promote to."""
    beside = next(one for one in items if isinstance(one, torch.Tensor))
    if dtype is None:
        own = [one.dtype if isinstance(one, torch.Tensor) else torch.tensor(one).dtype for one in items]
        dtype = functools.reduce(torch.promote_types, own)
    device = device or beside.device
    return torch.stack(
        [
            one.to(dtype=dtype, device=device)
            if isinstance(one, torch.Tensor)
            else torch.scalar_tensor(one, dtype=dtype, device=device)
            for one in items
        ]
    )


def _write(target: torch.Tensor, items: Sequence[Any], value: Any) -> bool:
    """Write what an assignment writes; False where the length of a slice is not known."""
    view = target[tuple(slice(None) if _is_found(item) else item for item in items)]
    kept = [item for item in items if _is_found(item) or not isinstance(item, int | torch.SymInt)]
    whole = view.dim() - sum(item is not Ellipsis for item in kept)
    spread = [part for item in kept for part in ([None] * whole if item is Ellipsis else [item])]
    places: list[Any] = [item if _is_found(item) else None for item in spread]
    value = value if isinstance(value, torch.Tensor) else torch.scalar_tensor(value, dtype=target.dtype)
    # As an assignment has it: leading dimensions of one are none.
    rank = view.dim() - sum(not isinstance(place, slice) and place is not None for place in places)
    while value.dim() > rank and value.shape[0] == 1:
        value = value[0]
    slices = [at for at, place in enumerate(places) if isinstance(place, slice)]
    if len(slices) > 1:
        return False
    for at in slices:
        behind = sum(place is None or isinstance(place, slice) for place in places[at:]) + view.dim() - len(places)
        if value.dim() < behind or (length := value.shape[value.dim() - behind]) == 1:
            return False
        others = [place for place in places if place is not None and not isinstance(place, slice)]
        # Dimensions that are indexed apart from each other move to the front.
        if others and not all(place is None for place in places[: at + 1 - len(others)]):
            return False
        if value.dim() < rank:
            value = value.expand([1] * (rank - value.dim()) + list(value.shape))
        places[at] = _as_tensor(places[at].start, target) + torch.arange(length, device=target.device)
    tensors = [None if place is None else _as_tensor(place, target) for place in places]
    same = value.dtype == target.dtype  # `to` would be in the program all the same
    torch.ops.aten.index_put_(view, tensors, value if same else value.to(target.dtype))
    return True


def _is_found(item: Any) -> bool:
    """Whether a run finds an index: a tensor without dimensions, a number read from one, a slice that begins there."""
    if isinstance(item, slice):
        return item.step in (None, 1) and item.stop is not None and _is_found(item.start)
    if isinstance(item, torch.Tensor):
        return item.dim() == 0 and item.dtype in _INTEGERS  # uint8 is a mask, as bool is
    return isinstance(item, torch.SymInt) and has_free_unbacked_symbols(item)


def _is_basic(item: Any) -> bool:
    if _is_found(item):
        return True
    if isinstance(item, slice):
        return not any(map(_is_found, (item.start, item.stop, item.step)))
    return item is None or item is Ellipsis or (isinstance(item, int | torch.SymInt) and not isinstance(item, bool))


def _as_tensor(item: Any, beside: torch.Tensor) -> torch.Tensor:
    if isinstance(item, torch.Tensor):
        return item if item.dtype == torch.int64 else item.to(torch.int64)
    found: torch.Tensor = torch.ops.aten.scalar_tensor(item, dtype=torch.int64, device=beside.device)
    return found


def read_at_tensors(exported: ExportedProgram) -> None:
    """Let `select` read at the tensor behind a number; changed in place.

    A row that is written to, or over while it is in use, is read and written back where each operator stands.

    Args:
        exported: As torch.export made it.
    """
    graph = exported.graph
    if not any(operator_name(node) == "aten::item" for node in graph.nodes):
        return
    overwritten = overwritten_views(exported)
    for node in list(graph.nodes):
        name = operator_name(node)
        if name == "aten::select" and (place := _tensor_behind(node.args[2])) is not None:
            if node not in overwritten:
                node.replace_all_uses_with(_read(node, place, node))
            elif not _read_by_each(node, place):
                continue
        elif name == "aten::scalar_tensor" and (place := _tensor_behind(node.args[0])) is not None:
            if node.meta["val"].dtype != torch.int64:
                continue
            node.replace_all_uses_with(place)
        else:
            continue
        graph.erase_node(node)
    for node in reversed(graph.nodes):
        if operator_name(node) == "aten::item" and not node.users:
            graph.erase_node(node)
    exported.graph_module.recompile()


def _read(select: Node, place: Node, before: Node) -> Node:
    """A row, as it is where another operator stands."""
    table, places = _place_in_table(select, place)
    with select.graph.inserting_before(before):
        row = select.graph.call_function(torch.ops.aten.index.Tensor, (table, places))
    row.meta = {key: value for key, value in select.meta.items() if key != "unbacked_bindings"}
    return row


def _read_by_each(select: Node, place: Node) -> bool:
    """Give each user a row of its own, and write back what one changes; False where a view of the row is in use."""
    users = list(select.users)
    writes = [user for user in users if _in_place_of(user, select) is not None]
    users += [user for write in writes for user in write.users]
    if any(_may_alias(user, select) or _may_alias(user, *writes) for user in users if user not in writes):
        return False
    for write in writes:
        write.replace_all_uses_with(select)
    for user in list(select.users):
        row = _read(select, place, user)
        operator = _in_place_of(user, select)
        user.replace_input_with(select, row)
        if operator is not None:
            user.target = operator
            table, places = _place_in_table(select, place)
            with select.graph.inserting_after(user):
                put = select.graph.call_function(torch.ops.aten.index_put_.default, (table, places, user))
            put.meta = {**user.meta, "val": table.meta["val"]}
    return True


def _place_in_table(select: Node, place: Node) -> tuple[Node, list[Node | None]]:
    table, dim = select.args[0], select.args[1]
    assert isinstance(table, Node) and isinstance(dim, int)
    return table, [*[None] * (dim % table.meta["val"].dim()), place]


def _in_place_of(user: Node, row: Node) -> Any:
    """The operator that gives what another one writes into a row; None where it writes nothing."""
    name = (operator_name(user) or "").removeprefix("aten::")
    overload = overload_of(user)
    if overload is None or not name.endswith("_") or user.args[:1] != (row,) or row in user.args[1:]:
        return None
    packet = getattr(torch.ops.aten, name[:-1], None)
    return getattr(packet, schema_of(overload).overload_name or "default", None)


def _may_alias(user: Node, *rows: Node) -> bool:
    """Whether a user's result shares memory with a row that it is given."""
    if overload_of(user) is None:
        return any(row in user.all_input_nodes for row in rows)
    shared = (value for argument, value in given_arguments(user) if argument.alias_info is not None)
    return any(row in nodes_in(value) for value in shared for row in rows)


def _tensor_behind(number: Any) -> Node | None:
    """The int64 tensor that a number was read from."""
    if not isinstance(number, Node) or operator_name(number) != "aten::item":
        return None
    tensor = number.args[0]
    assert isinstance(tensor, Node)
    value = tensor.meta["val"]
    return tensor if value.dim() == 0 and value.dtype == torch.int64 else None
