"""Sizes that a constant mask decides are numbers: what it chooses is the same in every run.

torch.export traces every boolean index as one whose number of results is known only at run time:

```
before:  y = aten.index.Tensor(x, [None, mask])                 # mask: constant [True, False, True]; y: [2, u0]
         n = aten.sym_size.int(y, 1); aten._assert_scalar(n >= 0)
         z = aten.mul.Tensor(y, 2)                              # [2, u0]
after:   y = aten.index.Tensor(x, [None, places])               # places: constant [0, 2]; y: [2, 2]
         z = aten.mul.Tensor(y, 2)                              # [2, 2]
```

The same for `nonzero` of a constant. Engines without sizes of their own at run time take such models then.
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec, TensorArgument
from torch.fx import Node

from edgex.delegates.graph.schema import given_arguments, leaves_of, operator_name, overload_of
from edgex.delegates.graph.torch_internals import FakeTensor, HigherOrderOperator, pytree
from edgex.export.capture.mutation import find_written_placeholders

aten = torch.ops.aten

_CONSTANTS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
_CHOOSING = (aten.index.Tensor, aten.nonzero.default, aten.where.default)
# Operators that make a tensor of numbers alone.
_FACTORIES = (
    *(aten.arange.default, aten.arange.start, aten.arange.start_step, aten.eye.default),
    *(aten.ones.default, aten.zeros.default, aten.full.default),
)
# A mask of 1024 x 1024.
_LARGEST = 1 << 20
_ASSERTIONS = frozenset(
    f"aten::{name}"
    for name in ("_assert_scalar", "_assert_async", "sym_constrain_range", "sym_constrain_range_for_size")
)


def fix_constant_masks(exported: ExportedProgram) -> None:
    """Write each constant mask as places, and what follows with the sizes that are known then, in place.

    A program with branches or loops, or with operators that change a tensor's shape in place, stays as it is.
    """
    if not any(node.target in _CHOOSING for node in exported.graph.nodes):
        return
    if all(map(_is_plain, exported.graph.nodes)):
        _Fixing(exported).run()


class _Fixing:
    """One pass through a program."""

    def __init__(self, exported: ExportedProgram) -> None:
        self._exported = exported
        self._known: dict[Any, torch.Tensor | None] = dict(_constants_of(exported))
        self._written = _written_later(exported)
        self._numbers: dict[Node, Any] = {}
        self._changed: set[Node] = set()

    def run(self) -> None:
        graph = self._exported.graph
        for node in list(graph.nodes):
            if node.op == "output" and self._numbers:
                node.args = torch.fx.map_arg(node.args, lambda arg: self._numbers.get(arg, arg))
            elif node.op == "call_function" and node not in self._numbers:
                self._visit(node)
        for node in reversed(list(graph.nodes)):
            if node in self._numbers:
                graph.erase_node(node)
        if self._changed:
            self._exported.graph_module.recompile()

    def _visit(self, node: Node) -> None:
        if node.target is aten.index.Tensor and any(self._is_mask(index) for index in node.args[1]):  # type: ignore[union-attr]
            self._index_by_places(node)
        elif node.target in (aten.nonzero.default, aten.where.default) and self._value(node.args[0]) is not None:
            self._replace(node, node.target(self._value(node.args[0])))
        elif any(arg in self._changed or arg in self._numbers for arg in node.all_input_nodes):
            self._compute_again(node)

    def _is_mask(self, index: Any) -> bool:
        return (
            isinstance(index, Node)
            and index.meta["val"].dtype == torch.bool
            and index.meta["val"].numel() <= _LARGEST
            and self._value(index) is not None
        )

    def _value(self, node: Any) -> torch.Tensor | None:
        """A tensor that is the same in every run, or None."""
        if node not in self._known:
            self._known[node] = self._evaluate(node) if isinstance(node, Node) else None
        return self._known[node]

    def _evaluate(self, node: Node) -> torch.Tensor | None:
        overload = overload_of(node)
        if overload is None or node in self._written or torch.Tag.nondeterministic_seeded in overload.tags:
            return None
        if not node.all_input_nodes and overload not in _FACTORIES:
            return None
        if any(self._value(source) is None for source in node.all_input_nodes):
            return None
        args, kwargs = torch.fx.map_arg((node.args, node.kwargs), self._value)
        with torch.no_grad():
            # The original is the model's own: an operator in place (`detach_`) gets a copy.
            found = overload(*pytree.tree_map_only(torch.Tensor, torch.Tensor.clone, args), **kwargs)
        return found if isinstance(found, torch.Tensor) else None

    def _index_by_places(self, node: Node) -> None:
        indices: list[Node | None] = []
        for index in node.args[1]:  # type: ignore[union-attr]
            if self._is_mask(index):
                places = self._value(index).nonzero(as_tuple=True)  # type: ignore[union-attr]
                indices += [self._add_constant(node, place) for place in places]
            else:
                indices.append(index)  # type: ignore[arg-type]
        node.args = (node.args[0], indices)
        self._compute_again(node)

    def _compute_again(self, node: Node) -> None:
        """The node's value from those of its arguments, which have numbers for sizes now."""
        node.args, node.kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda arg: self._numbers.get(arg, arg))
        self._forget_size(node)
        if operator_name(node) in _ASSERTIONS and not node.all_input_nodes:
            self._numbers[node] = None
            return
        args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda arg: arg.meta["val"])
        with torch.no_grad(), self._fake_mode():
            value = node.target(*args, **kwargs)  # type: ignore[operator]
        if isinstance(value, (bool, int, float)):
            self._numbers[node] = value
        else:
            node.meta["val"] = value
            self._changed.add(node)

    def _replace(self, node: Node, found: Any) -> None:
        """Put constants in the place of what an operator gives: one tensor, or several."""
        self._forget_size(node)
        if isinstance(found, torch.Tensor):
            uses = [(node, found)]
        else:
            uses = [(user, found[user.args[1]]) for user in node.users]
        for use, tensor in uses:
            constant = self._add_constant(node, tensor)
            self._known[constant] = tensor
            use.replace_all_uses_with(constant)
            self._numbers[use] = None
            self._changed.add(constant)
        self._numbers[node] = None

    def _forget_size(self, node: Node) -> None:
        """A size of its own, which the program has no more."""
        for symbol in node.meta.pop("unbacked_bindings", {}):
            self._exported.range_constraints.pop(symbol, None)

    def _add_constant(self, node: Node, tensor: torch.Tensor) -> Node:
        """A lifted constant, behind the others, in the usual order: ExecuTorch takes columns of `nonzero` for rows."""
        # Not `contiguous`, for which the stride of a column does not count.
        tensor = torch.empty(tensor.shape, dtype=tensor.dtype).copy_(tensor)
        name = f"places_{sum(key.startswith('places_') for key in self._exported.constants)}"
        specs = self._exported.graph_signature.input_specs
        at = next((at for at, spec in enumerate(specs) if spec.kind not in _CONSTANTS), len(specs))
        placeholders = self._exported.graph.find_nodes(op="placeholder")
        following = placeholders[at] if at < len(placeholders) else node
        with self._exported.graph.inserting_before(following):
            placed: Node = self._exported.graph.placeholder(f"c_{name}")
        mode: Any = self._fake_mode()
        placed.meta["val"] = mode.from_tensor(tensor, static_shapes=True)
        specs.insert(at, InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(placed.name), name))
        self._exported.constants[name] = tensor
        return placed

    def _fake_mode(self) -> contextlib.AbstractContextManager[Any]:
        values = (node.meta.get("val") for node in self._exported.graph.nodes)
        return next(value.fake_mode for value in values if isinstance(value, FakeTensor))


def _constants_of(exported: ExportedProgram) -> dict[Node, torch.Tensor]:
    """The placeholders whose value is there and never changes."""
    written = find_written_placeholders(exported.graph, exported.graph_module)
    written |= set(exported.graph_signature.buffers_to_mutate.values())
    known: dict[Node, torch.Tensor] = {}
    nodes = exported.graph.find_nodes(op="placeholder")
    for node, spec in zip(nodes, exported.graph_signature.input_specs, strict=True):
        target = str(spec.target)
        tensor = exported.state_dict.get(target, exported.constants.get(target))
        if spec.kind not in _CONSTANTS or node.name in written or target in written:
            continue
        if isinstance(tensor, torch.Tensor) and not isinstance(tensor, FakeTensor) and tensor.device.type == "cpu":
            known[node] = tensor
    return known


def _written_later(exported: ExportedProgram) -> set[Node]:
    """The operators whose result another one may write to, itself or through a view of it."""
    found: set[Node] = set()
    for node in exported.graph.nodes:
        if overload_of(node) is None or node.target is aten.detach_.default:
            continue
        for argument, value in given_arguments(node):
            if argument.alias_info is not None and argument.alias_info.is_write:
                pending = [leaf for leaf in leaves_of(value) if isinstance(leaf, Node)]
                while pending:
                    found.add(one := pending.pop())
                    pending += [leaf for leaf in one.all_input_nodes[:1] if leaf not in found]
    return found


def _is_plain(node: Node) -> bool:
    """Whether an operator can be computed again from its arguments' fake values."""
    if node.op != "call_function":
        return node.op != "get_attr"
    if isinstance(node.target, HigherOrderOperator):
        return False
    return torch.Tag.inplace_view not in getattr(node.target, "tags", ()) or node.target is aten.detach_.default
