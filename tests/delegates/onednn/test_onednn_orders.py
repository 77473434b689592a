"""Orders of dimensions: which one a value lies in, and which one operands share."""

from __future__ import annotations

import pytest

from edgex.delegates.onednn.layout.orders import (
    channels_last,
    find_order,
    forgets_zero_points,
    innermost,
    order_of_strides,
    row_major,
    settle_order,
)
from edgex.delegates.onednn.layout.sizes import Layout, dense_strides
from edgex.delegates.onednn.plan.values import Value

SHAPE = (2, 3, 4, 5)


def value(order: tuple[int, ...] | None = None, shape: tuple[int, ...] = SHAPE, *, opaque: bool = False) -> Value:
    return Value("f32", shape, layout=Layout(shape, dense_strides(shape, order)), opaque=opaque)


def test_names_of_orders() -> None:
    assert row_major(value()) == (0, 1, 2, 3)
    assert channels_last(value()) == (0, 2, 3, 1)
    assert innermost(value(), [1]) == (0, 2, 3, 1)
    assert innermost(value(), [-1, 0]) == (1, 2, 0, 3)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 3, 1), (3, 1, 0, 2)])
def test_the_order_is_found(order: tuple[int, ...]) -> None:
    assert find_order(value(order)) == order


def test_a_slice_has_no_order() -> None:
    assert find_order(Value("f32", SHAPE, layout=Layout(SHAPE, dense_strides((2, 3, 4, 10))))) is None


def test_a_slice_lies_in_the_order_of_its_strides() -> None:
    wide = dense_strides((2, 6, 4, 5), (0, 2, 3, 1))
    assert order_of_strides(Value("f32", SHAPE, layout=Layout(SHAPE, wide))) == (0, 2, 3, 1)
    assert order_of_strides(value((3, 1, 0, 2))) == (3, 1, 0, 2)


def test_of_several_orders_the_wanted_one_is_found() -> None:
    thin = value(shape=(2, 1, 4, 5))
    assert find_order(thin, (0, 2, 3, 1)) == (0, 2, 3, 1)
    assert find_order(thin) == (0, 1, 2, 3)


def test_operands_settle_on_one_order() -> None:
    images, rows = value((0, 2, 3, 1)), value()
    assert settle_order([value(opaque=True)], []) is None
    assert settle_order([images, value(opaque=True)], []) == (0, 2, 3, 1)
    assert settle_order([images, rows], []) == (0, 1, 2, 3)


def test_what_is_repeated_decides_too() -> None:
    images = value((0, 2, 3, 1))
    assert settle_order([images], [value(shape=(3, 1, 1))]) == (0, 2, 3, 1)
    assert settle_order([images], [value(shape=(1, 1, 4, 5))]) == (0, 1, 2, 3)


def test_where_zero_points_are_lost() -> None:
    rows, images = (0, 1, 2, 3), (0, 2, 3, 1)
    # 7 x 7 places with 512 channels side by side, to rows; what moves nothing, and other sizes, keep them.
    assert forgets_zero_points((1, 512, 7, 7), images, rows)
    assert not forgets_zero_points((1, 512, 7, 7), images, images)
    assert not forgets_zero_points((1, 512, 7, 7), rows, images)
    assert not forgets_zero_points((1, 512, 14, 14), images, rows)
    assert not forgets_zero_points((1, 3, 224, 224), rows, images)
    assert forgets_zero_points((1, 18, 56, 56), rows, images)
    assert not forgets_zero_points((1, 50, 64), (0, 1, 2), (1, 0, 2))
    assert forgets_zero_points((1, 50, 64), (0, 1, 2), (0, 2, 1))
    # 32 of 128 and of 96 channels: what counts is the step from place to place.
    assert forgets_zero_points((1, 32, 7, 7), images, rows, (6272, 1, 896, 128))
    assert not forgets_zero_points((1, 32, 7, 7), images, rows, (4704, 1, 672, 96))
