"""Which values of an exported graph its operators write to, read off the operators' schemas."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from edgex.delegates.graph.schema import given_arguments, named_arguments, operator_name, overload_of, schema_of
from edgex.delegates.graph.torch_internals import pytree

# Operators in place that are the same out of place.
_ALIKE = frozenset(
    (
        *("relu", "hardtanh", "relu6", "leaky_relu", "elu", "silu", "mish", "hardswish", "hardsigmoid", "sigmoid"),
        *("tanh", "exp", "clamp", "clamp_min", "clamp_max", "add", "sub", "mul", "div", "masked_fill"),
    )
)


def write_out_of_place(graph: Graph) -> None:
    """Let activations in place give new values, where nobody else sees what they write over; changed in place.

    ```
    before:  y = aten.linear.default(table, p_weight); z = aten.relu_.default(y)
    after:   y = aten.linear.default(table, p_weight); z = aten.relu.default(y)
    ```

    What reads the graph need not fear then that a value is another one later, and computes constants once.
    """
    for node in graph.nodes:
        overload = overload_of(node)
        namespace, _, name = (operator_name(node) or "").partition("::")
        if overload is None or namespace != "aten" or not name.endswith("_") or name[:-1] not in _ALIKE:
            continue
        values = [source.meta.get("val") for source in node.all_input_nodes]
        floats = [isinstance(value, torch.Tensor) and value.dtype.is_floating_point for value in values]
        if _is_fresh(node.args[0]) and floats[0] and _same_dtypes(values, floats, name):
            packet = getattr(torch.ops.aten, name[:-1])
            node.target = getattr(packet, schema_of(overload).overload_name or "default")


def _same_dtypes(values: list[Any], floats: list[bool], name: str) -> bool:
    """Whether nothing is converted on the way; a mask is boolean."""
    return all(
        value.dtype == values[0].dtype if is_float else name == "masked_fill_"
        for value, is_float in zip(values, floats, strict=True)
    )


def _is_fresh(value: Any) -> bool:
    """Whether a value is an operator's own result, and one other operator reads it."""
    if not isinstance(value, Node) or len(value.users) != 1:
        return False
    overload = overload_of(value)
    if overload is None or operator_name(value) in _MAY_RETURN_INPUT:
        return False
    return all(result.alias_info is None for result in schema_of(overload).returns)


# What gives the same tensor back where nothing is converted.
_SAME = frozenset(f"aten::{name}" for name in ("to", "contiguous", "type_as"))


def drop_copies_to_itself(graph: Graph) -> None:
    """Take out writes of a tensor into itself, as `self.table = self.table.to(x.device)` is traced; changed in place.

    ```
    before:  t = aten.to.device(b_table, "cpu", float32); aten.copy_.default(b_table, t); y = aten.add.Tensor(x, t)
    after:   t = aten.to.device(b_table, "cpu", float32); y = aten.add.Tensor(x, t)
    ```

    Otherwise a table that never changes would be state, which inputs cannot show.
    """
    for node in [node for node in graph.nodes if operator_name(node) == "aten::copy_"]:
        target, source = node.args[:2]
        while isinstance(source, Node) and operator_name(source) in _SAME and _converts_nothing(source):
            source = source.args[0]
        if source is target:
            node.replace_all_uses_with(target)
            graph.erase_node(node)


def _converts_nothing(node: Node) -> bool:
    """Whether a result is as its operand is: memory in another order would be another tensor."""
    given, result = node.all_input_nodes[0].meta["val"], node.meta["val"]
    alike = (given.dtype, given.device, given.stride()) == (result.dtype, result.device, result.stride())
    # A copy that is asked for keeps what was there before a write.
    return alike and not named_arguments(node).get("copy")


# Their result may be their input itself, and their schema does not say so.
_MAY_RETURN_INPUT = frozenset(
    f"aten::{name}"
    for name in ("dropout", "contiguous", "to", "reshape", "type_as", "expand_as", "flatten", "broadcast_tensors")
)


def find_written_placeholders(graph: Graph, module: torch.nn.Module) -> dict[str, Node]:
    """Placeholders that some operator writes to, also through a view, with the first node that does.

    An operator that may return a view counts as returning one, so that a name too many is possible, never one too
    few. Higher-order operators (a region under autocast, a branch) are followed into their graphs.

    Args:
        graph: The exported graph.
        module: Holds the graphs that it refers to.
    """
    roots: dict[Node, frozenset[str]] = {}
    written: dict[str, Node] = {}
    for node in graph.nodes:
        if node.op == "placeholder":
            roots[node] = frozenset([node.name])
        elif node.op != "call_function":
            roots[node] = frozenset()
        elif node.target is operator.getitem:
            roots[node] = roots[node.args[0]]
        elif overload_of(node) is not None:
            aliased: set[str] = set()
            for argument, value in given_arguments(node):
                if argument.alias_info is None:
                    continue
                touched = _roots_of(value, roots)
                aliased |= touched
                if argument.alias_info.is_write:
                    for name in sorted(touched):
                        written.setdefault(name, node)
            roots[node] = frozenset(aliased)
        else:
            operands, regions = _operands(node, module)
            roots[node] = _roots_of(operands, roots)
            for region in regions:
                inner = [n.name for n in region.graph.nodes if n.op == "placeholder"]
                changed = find_written_placeholders(region.graph, region)
                outer = operands[len(operands) - len(inner) :]
                for name, operand in zip(inner, outer, strict=False):
                    if name in changed:
                        for root in sorted(_roots_of(operand, roots)):
                            written.setdefault(root, changed[name])
    return written


def _operands(node: Node, module: torch.nn.Module) -> tuple[list[Node], list[GraphModule]]:
    """Of a higher-order operator's node: the nodes among its arguments that are values, and the graphs."""
    operands: list[Node] = []
    regions: list[GraphModule] = []
    for value in pytree.tree_leaves((node.args, node.kwargs)):
        if not isinstance(value, Node):
            continue
        region = getattr(module, str(value.target), None) if value.op == "get_attr" else None
        if isinstance(region, GraphModule):
            regions.append(region)
        else:
            operands.append(value)
    return operands, regions


def _roots_of(value: Any, roots: dict[Node, frozenset[str]]) -> frozenset[str]:
    if isinstance(value, Node):
        return roots[value]
    if isinstance(value, (list, tuple)):
        return frozenset().union(*(_roots_of(item, roots) for item in value))
    return frozenset()
