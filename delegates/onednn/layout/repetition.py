"""Along which dimensions an operand is repeated, and for which of these oneDNN 3.2 has a fast kernel.

Found by asking its primitives for every repetition of 2 to 5 dimensions and every operator before it (AVX-512, AVX2):
what is not named here runs in its reference kernel, 100 to 1000 times slower.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgex.delegates.onednn.layout.sizes import Size


def kept_dims(shape: Sequence[Size], result: Sequence[Size]) -> set[int]:
    """The dimensions of the result along which a tensor of that shape is not repeated; those of size 1 left out."""
    missing = len(result) - len(shape)
    return {missing + dim for dim, size in enumerate(shape) if size != 1}


def is_whole(shape: Sequence[Size], result: Sequence[Size]) -> bool:
    """Whether it is not repeated at all."""
    return kept_dims(shape, result) == {dim for dim, size in enumerate(result) if size != 1}


def is_fast_alone(shape: Sequence[Size], result: Sequence[Size]) -> bool:
    """Whether an operator of two tensors, with nothing before it, is fast."""
    kept, rank = kept_dims(shape, result), len(result)
    if rank <= 2 or not kept or is_whole(shape, result) or kept in ({1}, {0, 1}):
        return True
    # The innermost dimensions without a gap, whichever the first one is.
    inner = kept - {0} if kept != set(range(rank)) else kept
    return inner == set(range(rank - len(inner), rank)) and rank - 1 in inner


def is_fast_behind_product(shape: Sequence[Size], result: Sequence[Size], *, folded: bool) -> bool:
    """Whether oneDNN may fuse it into a product.

    Args:
        shape: The operand's.
        result: The product's.
        folded: The product is one of two matrices, all dimensions but the last being rows.
    """
    kept, rank = kept_dims(shape, result), len(result)
    return not kept or is_whole(shape, result) or (kept == {rank - 1} and (folded or rank <= 4))


def is_fast_behind_convolution(shape: Sequence[Size], result: Sequence[Size]) -> bool:
    """Whether oneDNN may fuse it into a convolution."""
    return not kept_dims(shape, result) or is_whole(shape, result) or kept_dims(shape, result) == {1}
