"""Attention over a cache: the backend's own operator, which writes the cache where the program keeps it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from edgex.delegates.graph.schema import named_arguments
from edgex.delegates.onednn.plan.region import RegionBuilder
from edgex.delegates.onednn.plan.values import CACHED_ATTENTION, Refused, Value

if TYPE_CHECKING:
    from torch.fx import Node

_TENSORS = ("query", "keys", "values", "key_cache", "value_cache")


def _cached_attention(builder: RegionBuilder, node: Node) -> tuple[Value | None, ...]:
    """The caches are inputs that it changes: `keep_caches_in_place` took away what read them as results."""
    given = named_arguments(node)
    tensors = [builder.value(given[name]) for name in _TENSORS]
    if any(value.dtype != "f32" for value in tensors):
        raise Refused("dtype", "attention over a cache is of float32 here")
    if any(builder.is_constant(given[name]) for name in ("key_cache", "value_cache")):
        raise Refused("attribute", "a cache that is a constant cannot be written")
    inputs = [*tensors, builder.indices(given["end"])]
    shape = (*tensors[0].shape[:3], tensors[4].shape[3])
    made = builder.op(CACHED_ATTENTION, inputs, shape, alpha=float(given["scale"]), window=int(given["window"]))
    return made, None, None


CACHE_OPERATORS: dict[str, Callable[[RegionBuilder, Node], Any]] = {
    "edgex.cached_attention.default": _cached_attention,
}
