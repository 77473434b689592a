"""In which order of dimensions tensors lie, and which one an operator that works element by element is given.

oneDNN 3.2 has fast kernels for such an operator where every operand lies without gaps and all lie in one order. For a
slice, or for two operands in different orders, it takes its reference kernel without a word: 28 x 28 x 32 numbers take
3 ms and more instead of 0.02. So it does for a softmax or a reduction over dimensions that are not innermost.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from edgex.delegates.onednn.layout.sizes import Size, dense_strides, product, same_layout
from edgex.delegates.onednn.plan.values import Value

Order = tuple[int, ...]
# All orders are tried, 120 of them for five dimensions; more dimensions have been permuted for a copy anyway.
_MOST_DIMENSIONS = 5


def row_major(value: Value) -> Order:
    """The last dimension innermost."""
    return tuple(range(len(value.shape)))


def channels_last(value: Value) -> Order:
    """Dimension 1 innermost."""
    return (0, *range(2, len(value.shape)), 1)


def innermost(value: Value, dims: Sequence[int]) -> Order:
    """Those dimensions innermost, the others in their order outside."""
    rank = len(value.shape)
    inside = sorted(dim % rank for dim in dims)
    return (*(dim for dim in range(rank) if dim not in inside), *inside)


def find_order(value: Value, first: Order | None = None) -> Order | None:
    """The order in which the value lies without gaps, or None where there are some.

    Args:
        value: Its layout is known.
        first: Preferred where several fit, since sizes of 1 lie anywhere.
    """
    assert value.layout is not None
    strides = value.layout.strides
    rows = row_major(value)
    tried = [rows if first is None else first, rows]
    if len(rows) <= _MOST_DIMENSIONS:
        tried.extend(permutations(rows))
    fits = (order for order in tried if same_layout(value.shape, strides, dense_strides(value.shape, order)))
    return next(fits, None)


def order_of_strides(value: Value) -> Order | None:
    """The order in which the value lies, gaps or not; None where only the run knows it."""
    assert value.layout is not None
    strides = value.layout.strides
    found = find_order(value)
    if found is None and all(isinstance(stride, int) for stride in strides):
        return tuple(sorted(range(len(strides)), key=lambda dim: -strides[dim]))
    return found


def settle_order(operands: Sequence[Value], repeated: Sequence[Value]) -> Order | None:
    """The one order for all operands of the result's shape, or None where oneDNN may choose.

    Args:
        operands: Those of the result's shape; what is opaque takes any order.
        repeated: Those that are repeated along the others. oneDNN repeats them quickly where all lies row by row, and a
            number for each channel, or for all, also where channels are innermost.
    """
    known = [value for value in operands if not value.opaque]
    if not known:
        return None
    rows = row_major(known[0])
    order = find_order(known[0])
    agreed = order is not None and all(find_order(value, order) == order for value in known)
    if order is None or not agreed or (repeated and order != channels_last(known[0])):
        return rows
    rank = len(rows)
    others = {dim + rank - len(value.shape) for value in repeated for dim, size in enumerate(value.shape) if size != 1}
    return order if others <= {1} else rows


def forgets_zero_points(
    shape: Sequence[Size], source: Order, target: Order, strides: Sequence[Size] | None = None
) -> bool:
    """Whether oneDNN 3.2 loses zero points where it quantizes or dequantizes and moves numbers to another order.

    Its kernel did in 186 of 19,600 transpositions of two sizes up to 140, and computed nonsense: with a multiple of 64
    numbers from one row of the source to the next, and more than 16 side by side in the target that are no multiple of
    4, as of 7 x 7 places with 512 channels, or with 32 of 128. Sizes that are known at run time only count as such.

    Args:
        shape: Of the value.
        source: The order in which it lies.
        target: The order in which the result is to lie.
        strides: Of the source, where it may have gaps.
    """
    moved = [[dim for dim in order if shape[dim] != 1] for order in (source, target)]
    if moved[0] == moved[1]:
        return False
    row, other = (_side_by_side(one, two) for one, two in (moved, reversed(moved)))
    step = product([shape[dim] for dim in row]) if strides is None else strides[moved[0][-len(row) - 1]]
    inside = product([shape[dim] for dim in other])
    known = isinstance(step, int) and isinstance(inside, int)
    return not known or (step % 64 == 0 and inside > 16 and inside % 4 != 0)


def _side_by_side(order: Sequence[int], other: Sequence[int]) -> list[int]:
    """The innermost dimensions of one order that are neighbours in the other, too."""
    found = [order[-1]]
    for dim in reversed(order[:-1]):
        place = other.index(found[-1])
        if place == 0 or other[place - 1] != dim:
            break
        found.append(dim)
    return found
