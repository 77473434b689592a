"""Attention as one operator of the backend's own; short ones of bfloat16 as operators that oneDNN fuses.

A row whose mask is -inf throughout leaves nothing to look at: PyTorch gives 0, a softmax alone NaN. The backend's own
operator sees that. Where oneDNN computes it, such rows are found at export in a mask that is known there; in one that
is computed, while the model runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from edgex.delegates.onednn.layout.repetition import is_whole
from edgex.delegates.onednn.layout.sizes import Reshape, Size, broadcasts
from edgex.delegates.onednn.plan.region import RegionBuilder
from edgex.delegates.onednn.plan.values import GUARDED_ATTENTION, Refused, Value

# Above the smallest normal number of float32 and bfloat16, so that no processor takes it for 0: exp(x * _TINY) is 0 for
# -inf alone, and 0.001 for the most negative finite number.
_TINY = 2e-38
_ALIVE = 1e4
# Scores of this many bytes in float32 stay in a processor's cache between oneDNN's partitions. More are computed in
# blocks; in float32, where the backend's products are as quick as oneDNN's, all are.
_CACHED_BYTES = 4 << 20


def emit_attention(
    builder: RegionBuilder,
    query: Value,
    swapped_key: Value,
    value: Value,
    scale: float,
    mask: Value | None,
    *,
    causal: bool,
    reducible: bool = True,
) -> Value:
    """The operators of one attention.

    Args:
        builder: The region.
        query: Shape (..., length, size).
        swapped_key: Shape (..., size, other length).
        value: Shape (..., other length, value size).
        scale: Multiplied to the scores.
        mask: Added to the scores, or None.
        causal: Leave out what comes later; without a mask only.
        reducible: Whether the other length is known to be more than 1, where it is not fixed.

    Raises:
        Refused: The mask is none that oneDNN adds.
    """
    import torch

    scores_shape = (*query.shape[:-1], swapped_key.shape[-1])
    result_shape = (*query.shape[:-1], value.shape[-1])
    alive = None
    if causal:
        rows, columns = scores_shape[-2:]
        if not isinstance(rows, int) or not isinstance(columns, int):
            raise Refused("dynamic_shape", f"a causal mask of the sizes {rows} and {columns}, known only when it runs")
        table = torch.full((1,) * (len(scores_shape) - 2) + (rows, columns), float("-inf")).triu(1)
        mask = builder.constant(table, query.dtype)
    elif mask is not None:
        if mask.dtype != query.dtype:
            raise Refused("dtype", f"oneDNN adds a mask of the scores' dtype {query.dtype}, not {mask.dtype}")
        if not broadcasts(mask.shape, scores_shape):
            raise Refused("attribute", f"oneDNN repeats no scores {list(scores_shape)} for a mask {list(mask.shape)}")
    shared = any(
        len(one.shape) != len(query.shape) or one.shape[:-2] != query.shape[:-2] for one in (swapped_key, value)
    )
    if query.dtype == "f32" or shared or _is_long(scores_shape) or _is_repeated_oddly(mask, scores_shape):
        if mask is not None and len(mask.shape) < 2:
            mask = builder.view(mask, Reshape((1, *mask.shape)), (1, *mask.shape))
        inputs = [query, swapped_key, value, *([] if mask is None else [mask])]
        return builder.op(GUARDED_ATTENTION, inputs, result_shape, alpha=scale)
    if mask is not None and not causal:
        mask, alive = _living_rows(builder, mask, len(scores_shape), result_shape[-1], reducible)
    scores = builder.op("matmul", [query, swapped_key], scores_shape)
    scores = builder.op("multiply", [scores, builder.constant(scale, query.dtype)], scores_shape)
    if mask is not None:
        scores = builder.op("add", [scores, mask], scores_shape)
    weights = builder.op("softmax", [scores], scores_shape, axis=len(scores_shape) - 1)
    result = builder.op("matmul", [weights, value], result_shape)
    return result if alive is None else builder.op("multiply", [result, alive], result_shape)


def _is_long(scores: Sequence[Size]) -> bool:
    """Whether the backend's own attention is quicker: oneDNN 3.2 writes all scores to memory, and reads them twice."""
    sizes = [size for size in scores if isinstance(size, int)]
    return len(sizes) == len(scores) and 4 * math.prod(sizes) > _CACHED_BYTES


def _is_repeated_oddly(mask: Value | None, scores: Sequence[Size]) -> bool:
    """Whether oneDNN has no fast kernel for the sum: it has one where the mask is a matrix for all, or whole."""
    return (
        mask is not None
        and len([size for size in mask.shape[:-2] if size != 1]) > 0
        and not is_whole(mask.shape, scores)
    )


def _living_rows(
    builder: RegionBuilder, mask: Value, rank: int, width: Size, reducible: bool
) -> tuple[Value, Value | None]:
    """The mask without rows of -inf only, and for each row 0 where it was one, else 1; made once for each mask.

    The factors are repeated over rows of the result's width, by a product with ones: oneDNN 3.2 has but a reference
    kernel for one number a row, which is far slower. None instead of them where the mask is known and has no such
    row.
    """
    if (mask, width) not in builder.prepared_masks:
        if not isinstance(mask.shape[-1], int) and not reducible:
            raise Refused("dynamic_shape", f"oneDNN reduces no dimension that may be 1: {mask.shape[-1]}")
        if not isinstance(width, int):
            raise Refused("dynamic_shape", f"rows of the size {width}, known only when it runs")
        prepare = _prepare_constant if mask.tensor is not None else _prepare
        builder.prepared_masks[mask, width] = prepare(builder, mask, rank, width)
    return builder.prepared_masks[mask, width]


def _prepare_constant(builder: RegionBuilder, mask: Value, rank: int, width: int) -> tuple[Value, Value | None]:
    from edgex.delegates.graph.torch_internals import FakeTensor

    read = mask.tensor
    assert read is not None
    shape = (1,) * (rank - len(mask.shape)) + mask.shape

    def living() -> Any:
        return (read() > float("-inf")).any(-1, keepdim=True)

    def lifted() -> Any:
        return read().masked_fill(~living(), 0.0)

    def factor() -> Any:
        return living().to(read().dtype).repeat_interleave(width, dim=-1)

    content = living()
    if not isinstance(content, FakeTensor) and bool(content.all()):
        return builder.derived_constant(mask, read, shape), None
    return builder.derived_constant(mask, lifted, shape), builder.derived_constant(mask, factor, (*shape[:-1], width))


def _prepare(builder: RegionBuilder, mask: Value, rank: int, width: int) -> tuple[Value, Value]:
    import torch

    def apply(kind: str, inputs: Sequence[Value], **attributes: Any) -> Value:
        return builder.op(kind, inputs, inputs[0].shape, **attributes)

    def number(content: float) -> Value:
        return builder.constant(content, mask.dtype)

    def widened(factors: Value, to: int) -> Value:
        ones = builder.constant(torch.ones((1,) * (rank - 1) + (to,)), mask.dtype)
        return builder.op("matmul", [factors, ones], (*factors.shape[:-1], to))

    if len(mask.shape) < rank:
        shape = (1,) * (rank - len(mask.shape)) + mask.shape
        mask = builder.view(mask, Reshape(shape), shape)
    largest = apply("exp", [apply("multiply", [mask, number(_TINY)])])
    if mask.shape[-1] != 1:
        rows = (*mask.shape[:-1], 1)
        largest = builder.op("reduce_max", [largest], rows, axes=[rank - 1], keep_dims=True)
    alive = apply("clamp", [apply("multiply", [largest, number(_ALIVE)])], min=0.0, max=1.0)
    dead = apply("add", [apply("multiply", [alive, number(-1.0)]), number(1.0)])
    if isinstance(mask.shape[-1], int):
        dead = widened(dead, mask.shape[-1])
    # The logarithm is 0 for a row of -inf, which becomes a row of equals, and -inf for the others, which stay.
    return apply("maximum", [mask, apply("log", [dead])]), widened(alive, width)
