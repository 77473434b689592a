"""Attention over a cache: the backend's own operator, which writes the cache where the program keeps it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from edgex.delegates.graph.schema import named_arguments
from edgex.delegates.onednn.plan.region import RegionBuilder
from edgex.delegates.onednn.plan.values import CACHED_ATTENTION, CACHED_ATTENTION_INT8, Refused, Value

if TYPE_CHECKING:
    from torch.fx import Node

_TENSORS = ("query", "keys", "values")
_CACHES, _SCALES = ("key_cache", "value_cache"), ("key_scales", "value_scales")


def _cached_attention(builder: RegionBuilder, node: Node) -> tuple[Value | None, ...]:
    """The caches are inputs that it changes: `keep_caches_in_place` took away what read them as results."""
    given = named_arguments(node)
    return _lower(builder, given, CACHED_ATTENTION, _read_floats(builder, given, (*_TENSORS, *_CACHES)), _CACHES)


def _cached_attention_int8(builder: RegionBuilder, node: Node) -> tuple[Value | None, ...]:
    """Rows are integers by themselves: no quantize that the region knows made them."""
    given = named_arguments(node)
    rows = [builder.integers(given[name]) for name in _CACHES]
    tensors = [*_read_floats(builder, given, _TENSORS), *rows, *_read_floats(builder, given, _SCALES)]
    return _lower(builder, given, CACHED_ATTENTION_INT8, tensors, (*_CACHES, *_SCALES))


def _read_floats(builder: RegionBuilder, given: Mapping[str, Any], names: Sequence[str]) -> list[Value]:
    tensors = [builder.value(given[name]) for name in names]
    if any(value.dtype != "f32" for value in tensors):
        raise Refused("dtype", "attention over a cache is of float32 here")
    return tensors


def _lower(
    builder: RegionBuilder, given: Mapping[str, Any], kind: str, tensors: Sequence[Value], caches: Sequence[str]
) -> tuple[Value | None, ...]:
    if any(builder.is_constant(given[name]) for name in caches):
        raise Refused("attribute", "a cache that is a constant cannot be written")
    inputs = [*tensors, builder.indices(given["end"])]
    shape = (*tensors[0].shape[:3], tensors[2].shape[3])
    made = builder.op(kind, inputs, shape, alpha=float(given["scale"]), window=int(given["window"]))
    return made, *[None] * len(caches)


CACHE_OPERATORS: dict[str, Callable[[RegionBuilder, Node], Any]] = {
    "edgex.cached_attention.default": _cached_attention,
    "edgex.cached_attention_int8.default": _cached_attention_int8,
}
