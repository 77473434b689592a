"""Attention as the operators that oneDNN fuses: product, scale, mask, softmax, product.

A row whose mask is -inf throughout gives NaN here and 0 in PyTorch, so masks that are inputs are refused.
"""

from __future__ import annotations

from edgex.delegates.onednn.region import Refused, RegionBuilder, Value


def emit_attention(
    builder: RegionBuilder,
    query: Value,
    swapped_key: Value,
    value: Value,
    scale: float,
    mask: Value | None,
    *,
    causal: bool,
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

    Raises:
        Refused: The mask is none that oneDNN adds.
    """
    import torch

    scores_shape = (*query.shape[:-1], swapped_key.shape[-1])
    scores = builder.op("matmul", [query, swapped_key], scores_shape)
    scores = builder.op("multiply", [scores, builder.constant(scale, query.dtype)], scores_shape)
    if causal:
        rows, columns = scores_shape[-2:]
        if not isinstance(rows, int) or not isinstance(columns, int):
            raise Refused("dynamic_shape", f"a causal mask of the sizes {rows} and {columns}, known only when it runs")
        table = torch.full((1,) * (len(scores_shape) - 2) + (rows, columns), float("-inf")).triu(1)
        mask = builder.constant(table, query.dtype)
    if mask is not None:
        if mask.dtype != query.dtype:
            raise Refused("dtype", f"oneDNN adds a mask of the scores' dtype {query.dtype}, not {mask.dtype}")
        if not mask.is_constant:
            raise Refused(
                "non_constant_weight", "a row that the mask leaves empty would be NaN, and the mask is computed"
            )
        if len(mask.shape) != len(scores_shape):
            raise Refused("rank", f"oneDNN adds a mask with as many dimensions as the scores, not {list(mask.shape)}")
        scores = builder.op("add", [scores, mask], scores_shape)
    weights = builder.op("softmax", [scores], scores_shape, axis=len(scores_shape) - 1)
    return builder.op("matmul", [weights, value], (*query.shape[:-1], value.shape[-1]))
