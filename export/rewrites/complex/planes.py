"""Numbers that are stacked and taken apart again stay apart: real and imaginary parts behind `view_as_real`.

```
before:  z = aten.stack.default([re, im], -1)                                           # z: [4, 501, 2]
         p = aten.pow.Tensor_Scalar(aten.mul.Tensor(z, w), 2)                           # w: [4, 501, 2], constant
         y = aten.sum.dim_IntList(p, [-1])
after:   y = (re * w[..., 0]) ** 2 + (im * w[..., 1]) ** 2
```

Neighbours in memory that belong to different values make every engine copy number by number. Between the stack and
where all of it is read plane by plane (an index, a slice of one, `unbind`, a sum), operators that compute single
elements or move them along other dimensions (`plane_moves`) work on the planes. Where anything else reads the stacked
numbers, the stack stays.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import named_arguments, operator_name, overload_of
from edgex.export.rewrites.base import Rewrite, locations_of
from edgex.export.rewrites.complex.plane_moves import MOVES, SAME, Stacked, rank_of, source_of
from edgex.export.rewrites.editing.building import Replacement
from edgex.export.rewrites.editing.editor import ProgramEditor, constant_tensors
from edgex.export.rewrites.editing.mutation import mutated_nodes
from edgex.export.rewrites.editing.substitution import static

_aten = torch.ops.aten
_STACK = "aten::stack"
_READERS = ("aten::select", "aten::slice", "aten::unbind", "aten::sum")
# Their planes are those that they read.
_GIVEN = (_STACK, *(f"aten::{name}" for name in SAME))
# Each operator becomes as many as there are planes.
_MOST_PLANES = 4


def keep_planes(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Compute with planes wherever every reader wants them; the same program comes back where none does."""
    constants = constant_tensors(program)
    # What is written to may share its memory with a plane, which a stack copies.
    written = mutated_nodes(program.exported)
    found = _without_other_readers(_follow(program, constants, written), written)
    stacks = [node for node in found if operator_name(node) == _STACK]
    if not stacks:
        return program, None
    editor = ProgramEditor(program)
    work = _Work(editor, found, constants, {})
    for node in program.exported.graph.nodes:
        if node in found:
            work.planes[node] = work.make(node)
        elif any(value in found for value in node.all_input_nodes):
            work.read(node)
    for node in reversed(found):
        editor.graph.erase_node(editor.node(node))
    detail = f"{len(stacks)} stack(s) of values that are read apart stay apart"
    return editor.finish(), Rewrite("keep_planes", len(stacks), detail, locations_of(stacks, program.source_root))


def _follow(
    program: CapturedProgram, constants: Mapping[Node, torch.Tensor], written: Collection[Node]
) -> dict[Node, Stacked]:
    """Every stack of few values, and what is computed of it plane by plane."""
    found: dict[Node, Stacked] = {}
    for node in program.exported.graph.nodes:
        value = node.meta.get("val")
        if node.op != "call_function" or not isinstance(value, torch.Tensor) or not static(*value.shape):
            continue
        if node in written or any(read in written for read in node.all_input_nodes):
            continue
        where = (
            _where(node, value, found, constants) if value.is_floating_point() or value.dtype == torch.bool else None
        )
        if where is not None:
            found[node] = where
    return found


def _where(
    node: Node, value: torch.Tensor, found: Mapping[Node, Stacked], constants: Mapping[Node, torch.Tensor]
) -> Stacked | None:
    """Where an operator's result has planes; None if it has none."""
    if operator_name(node) == _STACK:
        dim = named_arguments(node)["dim"] % value.dim()
        # Planes of no dimension would count as numbers where dtypes meet.
        if value.dim() < 2 or any(read.meta["val"].dtype != value.dtype for read in node.all_input_nodes):
            return None
        return Stacked(dim, value.shape[dim]) if 2 <= value.shape[dim] <= _MOST_PLANES else None
    if not any(read in found for read in node.all_input_nodes):
        return None
    if _is_elementwise(node):
        return _shared(node, value, found, constants)
    move = MOVES.get(str(operator_name(node)))
    whole = all(read in found for read in node.all_input_nodes) and value.dim() > 1
    return move.where(node, found) if move is not None and whole and node.args[0] in found else None


def _is_elementwise(node: Node) -> bool:
    overload = overload_of(node)
    return overload is not None and torch.Tag.pointwise in overload.tags


def _shared(
    node: Node, value: torch.Tensor, found: Mapping[Node, Stacked], constants: Mapping[Node, torch.Tensor]
) -> Stacked | None:
    """The planes' place if stacked operands agree on it, and others are constants or repeated over it."""
    dtypes = {tensor.dtype for read in node.all_input_nodes if isinstance(tensor := read.meta["val"], torch.Tensor)}
    if len(dtypes - {torch.bool}) > 1 or value.dim() < 2:
        return None
    ends = {(rank_of(read) - found[read].dim, found[read].count) for read in node.all_input_nodes if read in found}
    if len(ends) != 1 or any(isinstance(argument, list | tuple) for argument in node.args):
        return None
    end, count = ends.pop()
    for read in node.all_input_nodes:
        if read in found or rank_of(read) < end:
            continue
        if read.meta["val"].shape[-end] != 1 and read not in constants:
            return None
    return Stacked(value.dim() - end, count) if value.shape[-end] == count else None


def _without_other_readers(found: Mapping[Node, Stacked], written: Collection[Node]) -> dict[Node, Stacked]:
    """Leave out what is connected with a value that somebody reads as it is stacked."""
    kept = dict(found)
    spoiled = [
        node
        for node in found
        if not all(user not in written and _takes_planes(user, node, found) for user in node.users)
    ]
    while spoiled:
        node = spoiled.pop()
        if kept.pop(node, None) is None:
            continue
        # Its operands are read as they are stacked then. A stack's own are no planes of it.
        spoiled += [] if operator_name(node) == _STACK else [read for read in node.all_input_nodes if read in kept]
        spoiled += [user for user in node.users if user in kept and operator_name(user) != _STACK]
    return kept


def _takes_planes(user: Node, node: Node, found: Mapping[Node, Stacked]) -> bool:
    """Whether an operator is computed plane by plane, or takes planes apart or adds them up."""
    name, where = operator_name(user), found[node]
    if user in found:
        return name != _STACK
    if user.op != "call_function" or user.all_input_nodes != [node] or name not in _READERS:
        return False
    results = user.users if name == "aten::unbind" else [user]
    given = operator_name(node) in _GIVEN and name in ("aten::select", "aten::unbind")
    if given and any(reader.op == "output" for result in results for reader in result.users):
        return False  # a plane may be an input of the program, and no program returns its input
    values, rank = named_arguments(user), rank_of(node)
    if name == "aten::sum":
        dims = values.get("dim")
        if not node.meta["val"].is_floating_point():
            return False
        return (
            isinstance(dims, list | tuple) and [dim % rank for dim in dims] == [where.dim] and values["dtype"] is None
        )
    return values["dim"] % rank == where.dim and (name != "aten::slice" or len(_chosen(values, where)) == 1)


def _chosen(given: Mapping[str, Any], where: Stacked) -> range:
    return range(where.count)[given["start"] : given["end"] : given["step"]]


@dataclass
class _Work:
    """The operators that are made of planes so far."""

    editor: ProgramEditor
    found: Mapping[Node, Stacked]
    constants: Mapping[Node, torch.Tensor]
    planes: dict[Node, tuple[Node, ...]]

    def make(self, node: Node) -> tuple[Node, ...]:
        """An operator once for each plane."""
        replacement, where = Replacement(self.editor, node), self.found[node]
        if operator_name(node) == _STACK:
            tensors = node.args[0]
            assert isinstance(tensors, list | tuple)
            return tuple(replacement.read(tensor) for tensor in tensors if isinstance(tensor, Node))
        return tuple(self._plane(replacement, node, where, index) for index in range(where.count))

    def _plane(self, replacement: Replacement, node: Node, where: Stacked, index: int) -> Node:
        if _is_elementwise(node):
            end = rank_of(node) - where.dim
            args, kwargs = torch.fx.map_arg(
                (node.args, node.kwargs), lambda read: self._operand(replacement, read, end, index)
            )
            return replacement.call(node.target, *args, **kwargs)
        planes = {read: self.planes[read][index] for read in node.all_input_nodes if read in self.found}
        move = MOVES[str(operator_name(node))]
        return move.plane(replacement.call, node, self.found[source_of(node)], where, planes)

    def _operand(self, replacement: Replacement, read: Node, end: int, index: int) -> Node:
        """What takes an operand's place, `end` being the planes' dimension counted from the end."""
        if read in self.found:
            return self.planes[read][index]
        copy = replacement.read(read)
        if rank_of(read) < end:
            return copy
        shape = list(read.meta["val"].shape)
        if shape[-end] != 1:
            chosen = self.constants[read].select(len(shape) - end, index).contiguous()
            return replacement.constant(f"{read.name}_plane_{index}", chosen)
        del shape[-end]
        return replacement.call(_aten.reshape.default, copy, shape)

    def read(self, node: Node) -> None:
        """Give a reader its planes."""
        source, replacement = node.all_input_nodes[0], Replacement(self.editor, node)
        planes, where = self.planes[source], self.found[source]
        name, given, call = operator_name(node), named_arguments(node), replacement.call
        if name == "aten::unbind":
            replacement.finish(planes)
            return
        if name == "aten::select":
            result = planes[given["index"]]
        elif name == "aten::slice":
            result = call(_aten.unsqueeze.default, planes[_chosen(given, where)[0]], where.dim)
        else:
            result = planes[0]
            for plane in planes[1:]:
                result = call(_aten.add.Tensor, result, plane)
            result = call(_aten.unsqueeze.default, result, where.dim) if given["keepdim"] else result
        replacement.finish(result)
