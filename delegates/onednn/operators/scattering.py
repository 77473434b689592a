"""Elements and rows that numbers add at their places: the backend's own, since oneDNN has no such operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from edgex.delegates.graph.schema import named_arguments
from edgex.delegates.onednn.layout.sizes import shape_of
from edgex.delegates.onednn.plan.region import RegionBuilder, is_indices
from edgex.delegates.onednn.plan.values import ADD_ROWS, SCATTER_ADD, Refused, Value

if TYPE_CHECKING:
    from torch.fx import Node


def _scatter_add(builder: RegionBuilder, node: Node) -> Value:
    """Elements, each to the place that a number of its own names."""
    given = named_arguments(node)
    x, source = builder.value(given["self"]), builder.value(given["src"])
    indices = builder.indices(_integers(given["index"]))
    if indices.shape != source.shape:
        raise Refused("attribute", "each element has a number here, and there are other sizes of both")
    return _scatter(builder, node, SCATTER_ADD, [x, indices, source], given["dim"] % len(x.shape))


def _index_put(builder: RegionBuilder, node: Node) -> Value:
    """Whole rows along one dimension, which are added to what is there."""
    given = named_arguments(node)
    if not given["accumulate"]:
        raise Refused("attribute", "what is replaced is written in place by ExecuTorch, and would be a copy here")
    chosen = [(axis, index) for axis, index in enumerate(given["indices"]) if index is not None]
    if len(chosen) != 1 or chosen[0][1].meta["val"].dim() != 1:
        raise Refused("attribute", "whole rows are added here, by numbers along one dimension")
    axis, index = chosen[0]
    x, source = builder.value(given["self"]), builder.value(given["values"])
    indices = builder.indices(_integers(index))
    if source.shape != (*x.shape[:axis], indices.shape[0], *x.shape[axis + 1 :]):
        raise Refused("attribute", "a row for each number is added here, and not one that is repeated")
    return _scatter(builder, node, ADD_ROWS, [x, indices, source], axis)


def _integers(index: Node) -> Node:
    if not is_indices(index.meta["val"]):
        raise Refused("dtype", f"places are named by integers, not by {index.meta['val'].dtype}")
    return index


def _scatter(builder: RegionBuilder, node: Node, kind: str, inputs: list[Value], axis: int) -> Value:
    x, _, source = inputs
    if x.dtype != source.dtype:
        raise Refused("dtype", f"numbers of one dtype are scattered, not {source.dtype} among {x.dtype}")
    return builder.op(kind, inputs, shape_of(node.meta["val"]), axis=axis)


SCATTERING_OPERATORS: dict[str, Callable[[RegionBuilder, Node], Any]] = {
    "aten.scatter_add.default": _scatter_add,
    "aten.index_put.default": _index_put,
}
