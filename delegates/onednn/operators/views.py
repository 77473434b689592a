"""Operators that only look at memory in another way: no operator of oneDNN, a view with other strides."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from edgex.delegates.graph.schema import named_arguments
from edgex.delegates.onednn.layout.sizes import Expand, Permute, Reshape, Size, Slice, broadcasts, shape_of, size_of
from edgex.delegates.onednn.plan.region import RegionBuilder, same_size
from edgex.delegates.onednn.plan.values import Refused, Value

if TYPE_CHECKING:
    from torch.fx import Node


def _reshape(builder: RegionBuilder, node: Node) -> Value:
    value, shape = builder.value(node.args[0]), shape_of(node.meta["val"])
    if value.shape == shape:
        return identity(builder, node)
    if not same_size(value.shape, shape):
        raise Refused("dynamic_shape", f"{list(shape)} cannot be told to hold as much as {list(value.shape)}")
    return builder.view(value, Reshape(shape), shape)


def identity(builder: RegionBuilder, node: Node) -> Value:
    """The same value under another node: copies mean nothing inside a region."""
    value = builder.value(node.args[0])
    return builder.view(value, Permute(tuple(range(len(value.shape)))), value.shape)


def _expand(builder: RegionBuilder, node: Node) -> Value:
    value, shape = builder.value(node.args[0]), shape_of(node.meta["val"])
    if value.shape == shape:
        return identity(builder, node)
    if not broadcasts(value.shape, shape):
        raise Refused("dynamic_shape", f"{list(value.shape)} cannot be told to be repeated to {list(shape)}")
    return builder.view(value, Expand(shape), shape)


def _permute(builder: RegionBuilder, node: Node) -> Value:
    value = builder.value(node.args[0])
    rank = len(value.shape)
    return _permuted(builder, value, tuple(dim % rank for dim in named_arguments(node)["dims"]))


def _transpose(builder: RegionBuilder, node: Node) -> Value:
    value, given = builder.value(node.args[0]), named_arguments(node)
    dims = list(range(len(value.shape)))
    one, other = given["dim0"], given["dim1"]
    dims[one], dims[other] = dims[other], dims[one]
    return _permuted(builder, value, tuple(dims))


def _t(builder: RegionBuilder, node: Node) -> Value:
    value = builder.value(node.args[0])
    return _permuted(builder, value, tuple(reversed(range(len(value.shape)))))


def _permuted(builder: RegionBuilder, value: Value, dims: tuple[int, ...]) -> Value:
    return builder.view(value, Permute(dims), tuple(value.shape[dim] for dim in dims))


def _slice(builder: RegionBuilder, node: Node) -> Value:
    given = named_arguments(node)
    value = builder.value(given["self"])
    dim, start, step = given["dim"] % len(value.shape), given["start"] or 0, given["step"]
    start, size = _number(start), value.shape[dim]
    if isinstance(size, int) and isinstance(start, int):
        start = max(0, start + size) if start < 0 else start
    elif start != 0:
        # Where it starts may depend on the size at run time: whether a number below zero or above the size was meant.
        raise Refused("dynamic_shape", f"a slice from {start} of a size known only when the model runs, {size}")
    return _sliced(builder, value, dim, start, step, shape_of(node.meta["val"])[dim])


def _select(builder: RegionBuilder, node: Node) -> Value:
    given = named_arguments(node)
    value = builder.value(given["self"])
    dim, index = given["dim"] % len(value.shape), _number(given["index"])
    if not isinstance(index, int):
        raise Refused("dynamic_shape", f"the index {index} is known only when the model runs")
    start = value.shape[dim] + index if index < 0 else index
    one, shape = _sliced(builder, value, dim, start, 1, 1), shape_of(node.meta["val"])
    return builder.view(one, Reshape(shape), shape)


def _split(builder: RegionBuilder, node: Node) -> tuple[Value, ...]:
    given = named_arguments(node)
    value = builder.value(given["self"])
    dim = given["dim"] % len(value.shape)
    start: Size = 0
    pieces = []
    for piece in node.meta["val"]:
        length = shape_of(piece)[dim]
        pieces.append(_sliced(builder, value, dim, start, 1, length))
        start = start + length
    return tuple(pieces)


def _sliced(builder: RegionBuilder, value: Value, dim: int, start: Size, step: int, length: Size) -> Value:
    if length == 0:
        raise Refused("attribute", "oneDNN takes no empty tensor, and the slice is empty")
    shape = (*value.shape[:dim], length, *value.shape[dim + 1 :])
    return builder.view(value, Slice(dim, start, step, length), shape)


def _number(argument: Any) -> Size:
    """An argument that is an int, or a node that gives one at run time."""
    return argument if isinstance(argument, int) else size_of(argument.meta["val"])


VIEW_OPERATORS: dict[str, Callable[[RegionBuilder, Node], Any]] = {
    "aten.view_copy.default": _reshape,
    "aten._unsafe_view.default": _reshape,
    "aten.unsqueeze_copy.default": _reshape,
    "aten.squeeze_copy.dims": _reshape,
    "aten.squeeze_copy.dim": _reshape,
    "aten.expand_copy.default": _expand,
    "aten.permute_copy.default": _permute,
    "aten.transpose_copy.int": _transpose,
    "aten.t_copy.default": _t,
    "aten.slice_copy.Tensor": _slice,
    "aten.select_copy.int": _select,
    "aten.split_with_sizes_copy.default": _split,
    "aten.split_copy.Tensor": _split,
    "aten.alias_copy.default": identity,
    "aten.clone.default": identity,
    "dim_order_ops._clone_dim_order.default": identity,
}
