"""Read an operator call by the names of its schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.fx import Node
from torch.utils import _pytree as pytree


def operator_name(node: Node) -> str | None:
    """Name of the operator without its overload, for example `aten::conv2d`; None for anything else."""
    return str(node.target._schema.name) if isinstance(node.target, torch._ops.OpOverload) else None


def given_arguments(node: Node) -> Iterator[tuple[torch.Argument, Any]]:
    """The schema's arguments that the call gives, each with its value; nothing for what is no operator."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return
    for position, argument in enumerate(node.target._schema.arguments):
        if position < len(node.args):
            yield argument, node.args[position]
        elif argument.name in node.kwargs:
            yield argument, node.kwargs[argument.name]


def named_arguments(node: Node) -> dict[str, Any]:
    """Every argument of an operator call by name, with its default where the call gives none."""
    assert isinstance(node.target, torch._ops.OpOverload)
    values = {argument.name: argument.default_value for argument in node.target._schema.arguments}
    return values | {argument.name: value for argument, value in given_arguments(node)}


def nodes_in(value: Any) -> Iterator[Node]:
    """The nodes in an argument, which may be a list."""
    return (leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, Node))
