"""Strides that oneDNN does not take as they are, or reads more from than is meant."""

from __future__ import annotations

from dataclasses import replace

from edgex.delegates.onednn.layout.sizes import Size, product
from edgex.delegates.onednn.plan.values import Value


def repeats(value: Value) -> bool:
    """Whether elements lie in several places of it at once, which oneDNN takes in a copy only."""
    assert value.layout is not None
    return any(stride == 0 and size != 1 for size, stride in zip(value.shape, value.layout.strides, strict=True))


def is_interleaved(value: Value) -> bool:
    """Whether oneDNN 3.2 takes its rows to overlap: every other of 17 numbers end for it where 18 would."""
    assert value.layout is not None
    pairs = zip(value.layout.strides, value.shape, strict=True)
    known = [(stride, size) for stride, size in pairs if size != 1]
    if not all(isinstance(number, int) for pair in known for number in pair):
        return False
    least = 1
    for stride, size in sorted(known):
        if stride < least:
            return True
        least = stride * size
    return False


def settle_ones(value: Value) -> None:
    """Give sizes of 1 the strides that they have by rows, where the others lie so: oneDNN 3.2 tells orders by them."""
    assert value.layout is not None
    shape, strides = value.shape, list(value.layout.strides)
    kept = [stride for size, stride in zip(shape, strides, strict=True) if size != 1]
    if not all(isinstance(stride, int) for stride in kept) or kept != sorted(kept, reverse=True):
        return
    step: Size = 1
    for dim in reversed(range(len(shape))):
        if shape[dim] == 1:
            strides[dim] = step
        step = product([strides[dim], shape[dim]])
    value.layout = replace(value.layout, strides=tuple(strides))
