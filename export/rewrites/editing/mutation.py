"""Which values a program changes in place, directly or through a view.

An exported program keeps the model's in-place operators:

```
select = aten.select.int(b_cache, 0, 0)      # a view of b_cache
copy_  = aten.copy_.default(select, x)       # changes b_cache: {b_cache, select, copy_} are mutated
```
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind
from torch.fx import GraphModule, Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.retracing import retry_stale_symbols
from edgex.delegates.graph.schema import (
    given_arguments,
    higher_order_name,
    leaves_of,
    named_arguments,
    nodes_in,
    operator_name,
    overload_of,
    schema_of,
)
from edgex.delegates.graph.torch_internals import storage_of
from edgex.runtime.support.dependency_messages import quiet_dependencies

# Operators that update running statistics without saying so in their schema, where this argument is true.
_UPDATES_STATISTICS = {
    "aten::batch_norm": "training",
    "aten::native_batch_norm": "training",
    "aten::cudnn_batch_norm": "training",
    "aten::instance_norm": "use_input_stats",
}

# Operators that may return an input itself without saying so in their schema.
_MAY_RETURN_INPUT = frozenset(
    f"aten::{name}"
    for name in ("type_as", "sum_to_size", "broadcast_tensors", "meshgrid", "atleast_1d", "atleast_2d", "atleast_3d")
)


class DisjointNodes:
    """Sets of nodes that only ever merge (union-find)."""

    def __init__(self) -> None:
        self._parent: dict[Node, Node] = {}

    def find(self, node: Node) -> Node:
        """The node that stands for the set of `node`."""
        while (parent := self._parent.get(node, node)) is not node:
            self._parent[node] = self._parent.get(parent, parent)
            node = parent
        return node

    def union(self, one: Node, other: Node) -> None:
        """Merge the sets of two nodes."""
        self._parent[self.find(one)] = self.find(other)


def mutated_nodes(exported: ExportedProgram) -> set[Node]:
    """The nodes whose storage some operator of the program writes to, or whose buffer the signature updates."""
    signature = exported.graph_signature
    updated = {
        str(spec.target)
        for spec in signature.output_specs
        if spec.kind in (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION, OutputKind.USER_INPUT_MUTATION)
    }
    placeholders = exported.graph.find_nodes(op="placeholder")
    written = {
        node
        for node, spec in zip(placeholders, signature.input_specs, strict=True)
        if spec.target in updated or node.name in updated
    }
    written |= {arg for node in exported.graph.nodes for arg in written_arguments(node, exported.graph_module)}
    if not written:
        return set()
    classes = alias_classes(exported)
    roots = {classes.find(node) for node in written}
    return {node for node in exported.graph.nodes if classes.find(node) in roots}


def writes_in_place(exported: ExportedProgram) -> bool:
    """Whether some operator of the program says in its schema that it writes to an argument."""
    overloads = (overload_of(node) for node in exported.graph.nodes if node.op == "call_function")
    return any(overload is not None and schema_of(overload).is_mutable for overload in overloads)


def without_writes(program: CapturedProgram) -> CapturedProgram:
    """The program with operators that return what they wrote in place of those that write.

    ```
    before:  add_ = aten.add_.Tensor(b_total, x)      outputs: add_
    after:   add = aten.add.Tensor(b_total, x)        outputs: add (the new value of b_total), add
    ```

    Returns:
        The same object where none writes. Else nodes are traced again, and a name may be that of another value.
    """
    if not writes_in_place(program.exported):
        return program
    with quiet_dependencies():
        functional = retry_stale_symbols(lambda: program.exported.run_decompositions({}))
    return replace(program, exported=functional)


def overwritten_views(exported: ExportedProgram) -> set[Node]:
    """The nodes whose storage some operator writes to before their last use: a copy in their place is another value."""
    graph = exported.graph
    at = {node: position for position, node in enumerate(graph.nodes)}
    writers = [(at[node], arg) for node in graph.nodes for arg in written_arguments(node, exported.graph_module)]
    if not writers:
        return set()
    classes = alias_classes(exported)
    last: dict[Node, int] = {}
    for node in reversed(graph.nodes):
        views = (last[user] for user in node.users if classes.find(user) is classes.find(node))
        last[node] = max([at[node], *(at[user] for user in node.users), *views])
    written: dict[Node, list[int]] = {}
    for position, arg in writers:
        written.setdefault(classes.find(arg), []).append(position)
    return {
        node
        for node in graph.nodes
        if any(at[node] < position <= last[node] for position in written.get(classes.find(node), ()))
    }


def written_arguments(node: Node, module: GraphModule) -> Iterator[Node]:
    """What an operator writes to, of its arguments; all of a higher-order operator that writes to one.

    Args:
        node: The operator.
        module: Its graph's, which holds the regions of higher-order operators.
    """
    if higher_order_name(node):
        if any(_has_mutation(region) for region in _regions(node, module)):
            yield from node.all_input_nodes
        return
    for argument, value in given_arguments(node):
        if argument.alias_info is not None and argument.alias_info.is_write:
            yield from nodes_in(value)
    flag = _UPDATES_STATISTICS.get(operator_name(node) or "")
    if flag:
        arguments = named_arguments(node)
        if arguments[flag]:
            yield from nodes_in([arguments["running_mean"], arguments["running_var"]])


def _has_mutation(module: GraphModule) -> bool:
    return any(
        next(written_arguments(node, part), None) is not None
        for part in module.modules()
        if isinstance(part, GraphModule)
        for node in part.graph.nodes
    )


def _regions(node: Node, module: GraphModule) -> list[GraphModule]:
    targets = [arg.target for arg in node.all_input_nodes if arg.op == "get_attr"]
    found = [operator.attrgetter(str(target))(module) for target in targets]
    return [region for region in found if isinstance(region, GraphModule)]


def alias_classes(exported: ExportedProgram) -> DisjointNodes:
    """The nodes grouped by the storage that they may share."""
    classes = DisjointNodes()
    storages: dict[int, Node] = {}
    for node in exported.graph.nodes:
        for source in _aliased_arguments(node):
            classes.union(node, source)
        # The tracer's fake tensors share storage where the real ones do, also for tied weights.
        for value in leaves_of(node.meta.get("val")):
            if isinstance(value, torch.Tensor) and value.layout is torch.strided:
                classes.union(node, storages.setdefault(storage_of(value), node))
    return classes


def _aliased_arguments(node: Node) -> Iterator[Node]:
    if node.target is operator.getitem:
        yield from nodes_in(node.args[0])
    elif overload := overload_of(node):
        name = operator_name(node)
        undeclared = name in _MAY_RETURN_INPUT or (
            torch.Tag.maybe_aliasing_or_mutating in overload.tags and name not in _UPDATES_STATISTICS
        )
        for argument, value in given_arguments(node):
            if undeclared or argument.alias_info is not None:
                yield from nodes_in(value)
    elif higher_order_name(node):
        yield from node.all_input_nodes
