"""Floating-point operations of one operator: what `work_fraction` weighs an operator with.

Formulas are those of `torch.utils.flop_counter` (a multiply and an add are two operations; only matrix products,
convolutions and attention count). That registry knows operators after decomposition; the few that delegates keep
whole (`aten.linear`, `aten.conv2d`, `aten.matmul`, ...) are added here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.fx import Node

Shape = tuple[int, ...]


def count_flops(node: Node) -> int | None:
    """Floating-point operations of one node for the example's sizes.

    Args:
        node: A call_function node of an ATen or edge graph whose meta holds `val` (real or fake tensors).

    Returns:
        None where there is no formula for the operator, or a size is not known.
    """
    found = _count(node, _size)
    return None if found is None else int(found)


def express_flops(node: Node) -> Any | None:
    """The same for any sizes: an int, or a SymPy expression over torch's symbols.

    Returns:
        None also where a formula does not hold for symbols.
    """
    try:
        return _count(node, _expression)
    except (AssertionError, TypeError):
        # The registry's formulas compare sizes, which symbols do not always allow.
        return None


def _count(node: Node, size: Callable[[Any], Any]) -> Any | None:
    from edgex.delegates.graph.schema import overload_of

    overload = overload_of(node)
    if overload is None:
        return None
    packet = overload.overloadpacket
    own, registered = _own_formulas(), _registered_formulas()
    if packet not in own and packet not in registered:
        return None
    args = [_shapes(argument, size) for argument in node.args]
    out = _shapes(node.meta.get("val"), size)
    if _unknown(args) or _unknown([out]):
        return None
    if packet in own:
        return own[packet](args, out)
    kwargs = {name: _shapes(value, size) for name, value in node.kwargs.items()}
    # The registry's formulas take shapes where they would take tensors.
    return registered[packet](*args, out_val=out, **kwargs)


def sum_flops(nodes: Iterable[Node]) -> int | None:
    """The sum over nodes; None where not one of them has a count."""
    return add_flops(count_flops(node) for node in nodes)


def add_flops(counts: Iterable[int | None]) -> int | None:
    """The sum of the known counts; None where none is known."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


@cache
def _registered_formulas() -> Mapping[Any, Callable[..., Any]]:
    from torch.utils.flop_counter import flop_registry

    return flop_registry


@cache
def _own_formulas() -> Mapping[Any, Callable[[list[Any], Any], int | None]]:
    """Operators that decomposition would replace: formula of (argument shapes, output shape)."""
    import torch

    from edgex.delegates.graph.recurrences.steps import steps_operator

    aten = torch.ops.aten
    convolutions = (aten.conv1d, aten.conv2d, aten.conv3d)
    transposed = (aten.conv_transpose1d, aten.conv_transpose2d, aten.conv_transpose3d)
    return {
        aten.linear: lambda args, out: 2 * math.prod(out) * args[1][-1],
        aten.matmul: lambda args, out: 2 * math.prod(out) * args[0][-1],
        aten.scaled_dot_product_attention: _attention,
        **{steps_operator(states).overloadpacket: _recurrence for states in (1, 2)},
        **dict.fromkeys(convolutions, _convolution),
        **dict.fromkeys(transposed, _transposed_convolution),
    }


def _convolution(args: list[Any], out: Shape) -> int:
    # weight [C_out, C_in / groups, *kernel]: one product for each output element, input channel and tap.
    weight: Shape = args[1]
    return 2 * math.prod(out) * math.prod(weight[1:])


def _transposed_convolution(args: list[Any], out: Shape) -> int:
    # weight [C_in, C_out / groups, *kernel]: one product for each input element, output channel and tap.
    del out
    inputs: Shape = args[0]
    weight: Shape = args[1]
    return 2 * math.prod(inputs) * math.prod(weight[1:])


def _recurrence(args: list[Any], out: list[Shape]) -> int:
    # steps [time, batch, hidden]: one product with each weight of a matrix for each step and sequence.
    weights: list[Shape] = args[-2]
    return 2 * math.prod(out[-1][:2]) * sum(math.prod(weight) for weight in weights if len(weight) > 1)


def _attention(args: list[Any], out: Shape) -> int:
    # query [..., L, E], key [..., S, E], value [..., S, E_v]: two matrix products for each head.
    del out
    query: Shape = args[0]
    key: Shape = args[1]
    value: Shape = args[2]
    return 2 * math.prod(query[:-1]) * key[-2] * (query[-1] + value[-1])


def _shapes(value: Any, size: Callable[[Any], Any]) -> Any:
    """`value` with every node and tensor replaced by its shape, each size as `size` gives it."""
    import torch
    from torch.fx import Node

    if isinstance(value, Node):
        return _shapes(value.meta.get("val"), size)
    if isinstance(value, torch.Tensor):
        return tuple(size(one) for one in value.shape)
    if isinstance(value, (list, tuple)):
        return type(value)(_shapes(item, size) for item in value)
    return value


def _size(size: Any) -> int | None:
    """A size as an int; a symbolic one as the example's value, without adding a guard; None where it has none."""
    if isinstance(size, int):
        return size
    hint = getattr(size.node, "hint", None)
    return hint if isinstance(hint, int) else None


def _expression(size: Any) -> Any:
    """A size as an int, or as the expression of its symbols."""
    return size if isinstance(size, int) else size.node.expr


def _unknown(shapes: list[Any]) -> bool:
    return any(isinstance(shape, tuple) and None in shape for shape in shapes)
