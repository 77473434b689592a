"""Operators that move stacked numbers along other dimensions than the planes: where these are then, and one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.graph.schema import named_arguments, overload_of, schema_of

_aten = torch.ops.aten


@dataclass(frozen=True)
class Stacked:
    """Where a value's planes lie: the dimension, counted from the front, and how many there are."""

    dim: int
    count: int


@dataclass(frozen=True)
class Move:
    """What becomes of stacked values in an operator.

    Attributes:
        where: Given the operator and where the planes of its operands are: where they are in its result, or None.
        plane: Given `call`, the operator, where the first operand's planes are, where the result's, and one plane of
            each stacked operand: that plane of the result.
    """

    where: Callable[[Node, Mapping[Node, Stacked]], Stacked | None]
    plane: Callable[[Callable[..., Node], Node, Stacked, Stacked, Mapping[Node, Node]], Node]


def rank_of(node: Node) -> int:
    """How many dimensions a tensor has; 0 for what is none."""
    value = node.meta.get("val")
    return value.dim() if isinstance(value, torch.Tensor) else 0


def source_of(node: Node) -> Node:
    """The operand that is moved."""
    first = node.args[0]
    assert isinstance(first, Node)
    return first


def _order(node: Node) -> list[int]:
    """The order of dimensions that `permute` and `transpose` make."""
    given, rank = named_arguments(node), rank_of(node)
    if "dims" in given:
        return [dim % rank for dim in given["dims"]]
    order, one, other = list(range(rank)), given["dim0"] % rank, given["dim1"] % rank
    order[one], order[other] = other, one
    return order


def _ordered(node: Node, planes: Mapping[Node, Stacked]) -> Stacked | None:
    source = planes[source_of(node)]
    return Stacked(_order(node).index(source.dim), source.count)


def _order_plane(
    call: Callable[..., Node], node: Node, source: Stacked, _where: Stacked, planes: Mapping[Node, Node]
) -> Node:
    order = [_lower(dim, source.dim) for dim in _order(node) if dim != source.dim]
    return call(_aten.permute.default, planes[source_of(node)], order)


def _lower(dim: int, gone: int) -> int:
    """A dimension's number without the one that is gone."""
    return dim - (dim > gone)


def _viewed(node: Node, planes: Mapping[Node, Stacked]) -> Stacked | None:
    """A view that leaves the planes' dimension as it is: as many numbers ahead of it and behind it."""
    source, shape = planes[source_of(node)], node.meta["val"].shape
    if node.meta["val"].dtype != source_of(node).meta["val"].dtype:
        return None
    ahead = source_of(node).meta["val"].shape[: source.dim].numel()
    for dim, size in enumerate(shape):
        if size == source.count and shape[:dim].numel() == ahead:
            return Stacked(dim, source.count)
    return None


def _view_plane(
    call: Callable[..., Node], node: Node, _source: Stacked, where: Stacked, planes: Mapping[Node, Node]
) -> Node:
    shape = list(node.meta["val"].shape)
    del shape[where.dim]
    return call(_aten.reshape.default, planes[source_of(node)], shape)


def _same(node: Node, planes: Mapping[Node, Stacked]) -> Stacked | None:
    return planes[source_of(node)]


def _same_plane(
    _call: Callable[..., Node], node: Node, _source: Stacked, _where: Stacked, planes: Mapping[Node, Node]
) -> Node:
    return planes[source_of(node)]


def _along(node: Node, planes: Mapping[Node, Stacked]) -> Stacked | None:
    """One other dimension is cut or repeated, and goes where the operator is `select`."""
    source, value = planes[source_of(node)], source_of(node).meta["val"]
    dim = named_arguments(node)["dim"]
    if dim is None or dim % value.dim() == source.dim:
        return None
    gone = rank_of(node) < value.dim() and dim % value.dim() < source.dim
    return Stacked(source.dim - gone, source.count)


def _scattered(node: Node, planes: Mapping[Node, Stacked]) -> Stacked | None:
    """`slice_scatter` and `select_scatter` of stacked values into such."""
    given = named_arguments(node)
    whole, part = planes.get(given["self"]), planes.get(given["src"])
    if whole is None or part is None or given["dim"] % rank_of(node) == whole.dim:
        return None
    gone = rank_of(given["src"]) < rank_of(node) and given["dim"] % rank_of(node) < whole.dim
    return whole if part == Stacked(whole.dim - gone, whole.count) else None


def _along_plane(
    call: Callable[..., Node], node: Node, source: Stacked, _where: Stacked, planes: Mapping[Node, Node]
) -> Node:
    given = named_arguments(node)
    rank = rank_of(source_of(node))
    return _again(call, node, {**given, "dim": _lower(given["dim"] % rank, source.dim)}, planes)


def _padded(node: Node, planes: Mapping[Node, Stacked]) -> Stacked | None:
    source, pad = planes[source_of(node)], named_arguments(node)["pad"]
    at = 2 * (rank_of(node) - 1 - source.dim)
    # Reflection counts dimensions from the end.
    constant = named_arguments(node).get("mode", "constant") == "constant"
    return source if constant and not any(pad[at : at + 2]) else None


def _pad_plane(
    call: Callable[..., Node], node: Node, source: Stacked, _where: Stacked, planes: Mapping[Node, Node]
) -> Node:
    given, at = named_arguments(node), 2 * (rank_of(node) - 1 - source.dim)
    return _again(call, node, {**given, "pad": [*given["pad"][:at], *given["pad"][at + 2 :]]}, planes)


def _again(call: Callable[..., Node], node: Node, given: Mapping[str, Any], planes: Mapping[Node, Node]) -> Node:
    """The operator with other arguments, stacked ones replaced by their planes."""
    overload = overload_of(node)
    assert overload is not None
    args = [given[argument.name] for argument in schema_of(overload).arguments if not argument.kwarg_only]
    return call(node.target, *(planes.get(arg, arg) if isinstance(arg, Node) else arg for arg in args))


_VIEWS = ("view", "reshape", "_unsafe_view", "unsqueeze", "squeeze", "flatten", "unflatten")
SAME = ("contiguous", "clone", "detach", "alias", "lift_fresh_copy")
MOVES: dict[str, Move] = {
    **{f"aten::{name}": Move(_ordered, _order_plane) for name in ("permute", "transpose")},
    **{f"aten::{name}": Move(_viewed, _view_plane) for name in _VIEWS},
    **{f"aten::{name}": Move(_same, _same_plane) for name in SAME},
    **{f"aten::{name}": Move(_along, _along_plane) for name in ("select", "slice", "repeat_interleave")},
    **{f"aten::{name}": Move(_scattered, _along_plane) for name in ("select_scatter", "slice_scatter")},
    **{f"aten::{name}": Move(_padded, _pad_plane) for name in ("pad", "constant_pad_nd")},
}
