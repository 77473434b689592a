"""Elements that masks or numbers choose: the backend's own, since oneDNN reads neither."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from edgex.delegates.graph.schema import named_arguments
from edgex.delegates.onednn.layout.sizes import shape_of
from edgex.delegates.onednn.plan.region import RegionBuilder, is_indices, is_mask, make_value
from edgex.delegates.onednn.plan.values import GATHER, WHERE, Refused, Value

if TYPE_CHECKING:
    from torch.fx import Node


def _where(builder: RegionBuilder, node: Node) -> Value:
    condition, chosen, otherwise = node.args
    if not is_mask(condition.meta["val"]):  # type: ignore[union-attr]
        raise Refused("dtype", f"a mask is of bool here, not {condition.meta['val'].dtype}")  # type: ignore[union-attr]
    left, right = builder.value(chosen), builder.value(otherwise)
    if left.dtype != right.dtype:
        raise Refused("dtype", f"it chooses between numbers of one dtype, not of {left.dtype} and {right.dtype}")
    mask = builder.mask(condition)  # type: ignore[arg-type]
    return builder.op(WHERE, [mask, left, right], shape_of(node.meta["val"]), dtype=left.dtype)


def _gather(builder: RegionBuilder, node: Node) -> Value:
    given = named_arguments(node)
    if not is_indices(given["index"].meta["val"]):
        raise Refused("dtype", f"what is gathered has integers for numbers, not {given['index'].meta['val'].dtype}")
    table, indices, shape = builder.value(given["self"]), builder.indices(given["index"]), shape_of(node.meta["val"])
    axis = given["dim"] % len(shape)
    return builder.op(GATHER, [table, indices], shape, axis=axis)


def _number(builder: RegionBuilder, node: Node) -> Value:
    """A number as a tensor without dimensions: what masks choose instead."""
    number, wanted = node.args[0], make_value(node.meta["val"])
    if not isinstance(number, (int, float)):
        raise Refused("attribute", f"a number known only when the model runs: {number}")
    return builder.constant(float(number), wanted.dtype)


CHOOSING_OPERATORS: dict[str, Callable[[RegionBuilder, Node], Any]] = {
    "aten.where.self": _where,
    "aten.gather.default": _gather,
    "aten.scalar_tensor.default": _number,
}
