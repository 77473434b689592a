"""Sizes: integers, or sympy expressions over the sizes of the inputs, and what memory layouts make of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# An int, or a sympy.Expr. Equality is structural: two sizes that are equal for a deeper reason count as different,
# which costs a copy and never a wrong result.
Size = Any


@dataclass(frozen=True)
class Layout:
    """How a tensor lies in memory, in elements."""

    shape: tuple[Size, ...]
    strides: tuple[Size, ...]
    offset: Size = 0


def size_of(value: Any) -> Size:
    """A size of a fake tensor (int or SymInt) as int or expression."""
    if isinstance(value, int):
        return value
    expression = value.node.expr
    return int(expression) if expression.is_Integer else expression


def at_least_two(value: Any) -> bool:
    """Whether a size of a fake tensor is never below 2, by the bounds that the user gave."""
    if isinstance(value, int):
        return value >= 2
    return bool(value.node.shape_env.bound_sympy(value.node.expr).lower >= 2)


def may_be_none(value: Any, ranges: Mapping[Any, Any]) -> bool:
    """Whether a size that is computed of others is 0 at their least: `n - 1` where n may be 1.

    Args:
        value: Of a fake tensor; a number is none that is computed.
        ranges: An ExportedProgram's `range_constraints`, where a size of 1 is one that may be: its fake tensors have 2.
    """
    expression = 1 if isinstance(value, int) else value.node.expr
    if isinstance(expression, int) or expression.is_symbol:
        return False
    least = expression.subs({symbol: ranges[symbol].lower for symbol in expression.free_symbols if symbol in ranges})
    return bool(least.is_number and least <= 0)


def shape_of(tensor: Any) -> tuple[Size, ...]:
    """The shape of a (fake) tensor; a scalar is a vector of one."""
    return tuple(size_of(value) for value in tensor.shape) or (1,)


def product(sizes: Sequence[Size]) -> Size:
    """Their product in one normal form, so that equal products compare equal."""
    result: Size = 1
    for size in sizes:
        result = result * size
    return result if isinstance(result, int) else result.expand()


def dense_strides(shape: Sequence[Size], order: Sequence[int] | None = None) -> tuple[Size, ...]:
    """Strides without gaps.

    Args:
        shape: Sizes.
        order: Dimensions from the outermost to the innermost; None is the order in which they stand.
    """
    strides: list[Size] = [1] * len(shape)
    inner: list[Size] = []
    for dim in reversed(range(len(shape)) if order is None else order):
        strides[dim] = product(inner)
        inner.append(shape[dim])
    return tuple(strides)


def broadcasts(shape: Sequence[Size], to: Sequence[Size]) -> bool:
    """Whether a tensor of `shape` is repeated to exactly `to`."""
    missing = len(to) - len(shape)
    return missing >= 0 and all(a in (1, b) for a, b in zip(shape, to[missing:], strict=True))


def same_layout(shape: Sequence[Size], one: Sequence[Size], other: Sequence[Size]) -> bool:
    """Whether two strides mean the same places; where a size is 1 the stride does not matter."""
    return all(size == 1 or a == b for size, a, b in zip(shape, one, other, strict=True))


@dataclass(frozen=True)
class Permute:
    """Dimension `dims[i]` becomes dimension i."""

    dims: tuple[int, ...]

    def apply(self, layout: Layout) -> Layout | None:
        """The view's layout on the same memory."""
        shape = tuple(layout.shape[dim] for dim in self.dims)
        return Layout(shape, tuple(layout.strides[dim] for dim in self.dims), layout.offset)


@dataclass(frozen=True)
class Slice:
    """Every `step`-th element of a dimension from `start` on, `length` in all."""

    dim: int
    start: Size
    step: int
    length: Size

    def apply(self, layout: Layout) -> Layout | None:
        """The view's layout on the same memory."""
        shape, strides = list(layout.shape), list(layout.strides)
        offset = layout.offset + self.start * strides[self.dim]
        shape[self.dim] = self.length
        strides[self.dim] = strides[self.dim] * self.step
        return Layout(tuple(shape), tuple(strides), offset)


@dataclass(frozen=True)
class Reshape:
    """The same elements, in the same order, under another shape."""

    shape: tuple[Size, ...]

    def apply(self, layout: Layout) -> Layout | None:
        """The view's layout on the same memory, or None where only a copy has it."""
        strides = _reshaped_strides(layout, self.shape)
        return None if strides is None else Layout(self.shape, strides, layout.offset)


@dataclass(frozen=True)
class Expand:
    """Dimensions of size 1 repeated, and new ones before the first: steps of 0."""

    shape: tuple[Size, ...]

    def apply(self, layout: Layout) -> Layout | None:
        """The view's layout on the same memory."""
        missing = len(self.shape) - len(layout.shape)
        kept = [
            stride if old == new else 0
            for old, new, stride in zip(layout.shape, self.shape[missing:], layout.strides, strict=True)
        ]
        return Layout(self.shape, (*[0] * missing, *kept), layout.offset)


View = Permute | Slice | Reshape | Expand


def _reshaped_strides(layout: Layout, shape: Sequence[Size]) -> tuple[Size, ...] | None:
    """Match stretches of dimensions that lie densely against the new dimensions, from the innermost outwards."""
    old = [(size, stride) for size, stride in zip(layout.shape, layout.strides, strict=True) if size != 1]
    strides: list[Size] = [1] * len(shape)
    new = len(shape) - 1
    while old:
        size, stride = old.pop()
        inner, total = stride, [size]
        while old and old[-1][1] == product([inner, *total]):
            total.append(old.pop()[0])
        # Dimensions of the view until they hold as many elements as the stretch does.
        taken: list[Size] = []
        while new >= 0 and (product(taken) != product(total) or shape[new] == 1):
            strides[new] = product([inner, *taken])
            taken.append(shape[new])
            new -= 1
        if product(taken) != product(total):
            return None
    return tuple(strides) if all(size == 1 for size in shape[: new + 1]) else None
