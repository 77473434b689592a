"""Who reads a quantized tensor, and whether in integers: that decides which quantize and dequantize do anything.

Answers are about the graph at hand, the whole program or one region; what leaves a region is kept as it is.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from edgex.delegates.executorch.exir import operator_name
from edgex.delegates.onednn.operators.views import VIEW_OPERATORS

if TYPE_CHECKING:
    from torch.fx import Node

QUANTIZE = "quantized_decomposed.quantize_per_tensor.default"
DEQUANTIZE = "quantized_decomposed.dequantize_per_tensor.default"
DEQUANTIZE_CHANNELS = "quantized_decomposed.dequantize_per_channel.default"

# Operators that oneDNN computes with integers, and where their two factors are.
_PRODUCTS = {
    "aten.convolution.default": (0, 1),
    "aten.linear.default": (0, 1),
    "aten.mm.default": (0, 1),
    "aten.addmm.default": (1, 2),
}
_SUM, _CONCATENATION = "aten.add.Tensor", "aten.cat.default"
# What oneDNN computes behind a product before it quantizes the result.
_ACTIVATIONS = tuple(
    f"aten.{name}.default"
    for name in (
        *("relu", "sigmoid", "tanh", "gelu", "elu", "leaky_relu", "hardswish", "hardsigmoid", "mish", "silu"),
        *("hardtanh", "clamp"),
    )
)


def same_encoding(one: Node, other: Node) -> bool:
    """Whether two quantize or dequantize mean the same integers; views between them change nothing."""
    source = _before_views(one)
    return _name(source) in (QUANTIZE, DEQUANTIZE) and source.args[1:6] == other.args[1:6]


def needs_quantized(quantize: Node) -> bool:
    """Whether anything reads the integers of a quantize."""
    return any(user is quantize or _computes_integers(user, operand) for user, operand in _readers(quantize))


def is_computed_in_float(dequantize: Node) -> bool:
    """Whether a dequantize may give what was quantized: its readers want float32, and it is in memory anyway."""
    quantize: Any = dequantize.args[0]
    if any(_computes_integers(user, operand) for user, operand in _readers_of_float(dequantize)):
        return False
    return not _is_fused_away(quantize.args[0])


def _readers(quantize: Node) -> Iterator[tuple[Node, Node]]:
    """What reads it, and as which operand; the quantize itself where the integers are wanted as they are."""
    for user in quantize.users:
        if _name(user) == DEQUANTIZE:
            yield from _readers_of_float(user)
        else:
            yield quantize, quantize


def _readers_of_float(node: Node) -> Iterator[tuple[Node, Node]]:
    for user in node.users:
        if _is_view(user):
            yield from _readers_of_float(user)
        elif _name(user) == QUANTIZE and same_encoding(node, user):
            for reader, operand in _readers(user):
                yield (node, node) if reader is user and not _is_dequantized(user) else (reader, operand)
        else:
            yield user, node


def _is_dequantized(quantize: Node) -> bool:
    return all(_name(user) == DEQUANTIZE for user in quantize.users)


def _computes_integers(user: Node, operand: Node) -> bool:
    name = _name(user)
    if name in _PRODUCTS:
        return all(_is_dequantize(user.args[place]) for place in _PRODUCTS[name])
    if name == _SUM:
        kept = fused_operand(user)
        return kept is not None and operand is not kept and _is_quantized_later(user)
    return name == _CONCATENATION and _joins_integers(user)


def fused_operand(add: Node) -> Node | None:
    """The operand of a sum whose product oneDNN computes together with the sum, in float32 and without rounding."""
    if add.kwargs.get("alpha", 1) != 1:
        return None
    for operand in add.args[:2]:
        if _name(operand) != DEQUANTIZE or len(operand.users) != 1:  # type: ignore[union-attr]
            continue
        quantize: Any = operand.args[0]  # type: ignore[union-attr]
        if _name(quantize) != QUANTIZE or len(quantize.users) != 1:
            continue
        product = quantize.args[0]
        same_shape = add.meta["val"].shape == product.meta["val"].shape
        if _name(product) in _PRODUCTS and len(product.users) == 1 and same_shape:
            return operand  # type: ignore[return-value]
    return None


def _is_quantized_later(node: Node) -> bool:
    """Whether the result, through activations, goes into a quantize alone, and that one is wanted."""
    while len(node.users) == 1:
        node = next(iter(node.users))
        if _name(node) == QUANTIZE:
            return needs_quantized(node)
        if _name(node) not in _ACTIVATIONS:
            return False
    return False


def _joins_integers(node: Node) -> bool:
    """Whether a concatenation can be one of integers: all mean the same, and so does the result."""
    items: Any = node.args[0]
    users = list(node.users)
    if len(users) != 1 or _name(users[0]) != QUANTIZE or not needs_quantized(users[0]):
        return False
    return all(_is_dequantize(item) and same_encoding(item, users[0]) for item in items)


def _is_fused_away(node: Any) -> bool:
    """Whether a value that is quantized never is in memory itself: oneDNN quantizes as it computes."""
    while len(node.users) == 1:
        name = _name(node)
        if name in _PRODUCTS:
            return True
        if name == _CONCATENATION:
            return _joins_integers(node)
        if name == _SUM:
            node = fused_operand(node)
            if node is None:
                return False
            node = node.args[0].args[0]
        elif name in _ACTIVATIONS:
            node = node.args[0]
        elif name == DEQUANTIZE and _name(node.args[0]) == QUANTIZE and not needs_quantized(node.args[0]):
            node = node.args[0].args[0]
        else:
            return False
    return False


def _is_dequantize(node: Any) -> bool:
    return _name(_before_views(node)) in (DEQUANTIZE, DEQUANTIZE_CHANNELS)


def _before_views(node: Any) -> Any:
    while _is_view(node):
        node = node.args[0]
    return node


def _is_view(node: Any) -> bool:
    """Whether it only looks at what it reads; the pieces of a split are taken out of a list."""
    return _name(node) in VIEW_OPERATORS or getattr(node, "target", None) is operator.getitem


def _name(node: Any) -> str:
    if getattr(node, "op", "") != "call_function" or node.target is operator.getitem:
        return ""
    return operator_name(node)
