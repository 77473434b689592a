"""Read operator calls by the names of their schema, in PyTorch's graphs and in ExecuTorch's edge graphs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeGuard

import torch
from torch.fx import Node

from edgex.delegates.graph.torch_internals import HigherOrderOperator, OpOverload


def torch_operator(target: Any) -> Any:
    """PyTorch's operator behind an edge operator; PyTorch's own have an `_op` too, which is something else."""
    return target if isinstance(target, OpOverload) else getattr(target, "_op", target)


def overload_of(node: Node) -> OpOverload | None:
    """The operator that a node calls, or None: not an operator call, or one without a schema."""
    target = torch_operator(node.target)
    return target if isinstance(target, OpOverload) else None


def schema_of(operator: OpOverload) -> torch.FunctionSchema:
    """What an operator declares: its name, arguments and results, and which of them it writes to."""
    return operator._schema


def higher_order_name(node: Node) -> str | None:
    """Name of the higher-order operator that a node calls, for example `cond`; None for anything else."""
    return str(node.target) if isinstance(node.target, HigherOrderOperator) else None


def operator_name(node: Node) -> str | None:
    """Name of the operator without its overload, for example `aten::conv2d`; None for anything else."""
    overload = overload_of(node)
    return None if overload is None else schema_of(overload).name


def arguments_of(node: Node) -> list[torch.Argument]:
    """The arguments that the schema declares, in order; none for what is no operator."""
    overload = overload_of(node)
    return [] if overload is None else list(schema_of(overload).arguments)


def given_arguments(node: Node) -> Iterator[tuple[torch.Argument, Any]]:
    """The schema's arguments that the call gives, each with its value; nothing for what is no operator."""
    for position, argument in enumerate(arguments_of(node)):
        if position < len(node.args):
            yield argument, node.args[position]
        elif argument.name in node.kwargs:
            yield argument, node.kwargs[argument.name]


def named_arguments(node: Node) -> dict[str, Any]:
    """Every argument of an operator call by name, with its default where the call gives none."""
    values = {argument.name: argument.default_value for argument in arguments_of(node)}
    return values | {argument.name: value for argument, value in given_arguments(node)}


def leaves_of(value: Any) -> list[Any]:
    """What an argument or a result holds: the elements of lists, tuples and dicts in order, else the value itself."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [leaf for element in value for leaf in leaves_of(element)]
    return [value]


def content_of(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of a tensor's numbers in row-major order, uint8[bytes]; those of the tensor itself where they lie so.

    `tensor.contiguous().reshape(-1).view(torch.uint8)` raises for a single number whose size of 1 has a stride.
    """
    plain = tensor.detach().resolve_conj().resolve_neg().contiguous()
    return plain.as_strided((plain.numel(),), (1,)).view(torch.uint8)


def nodes_in(value: Any) -> list[Node]:
    """The nodes in an argument, which may be a list."""
    return [leaf for leaf in leaves_of(value) if isinstance(leaf, Node)]


def is_tuple(value: Any) -> TypeGuard[tuple[Any, ...] | list[Any]]:
    """Whether an operator's result is several values, which getitem picks."""
    return isinstance(value, tuple | list)
