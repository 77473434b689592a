"""A product over some dimensions of two tensors as one product of matrices, or of as many as both of them have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from math import prod
from typing import Any

import torch
from torch.nn import functional as F

# What a product of matrices or a copy costs before it begins, in numbers that are copied meanwhile: an estimate.
CALL_NUMBERS = 256


class Layer(Enum):
    """Which factor is the weight of a linear layer."""

    NONE = "none"
    LEFT = "left"
    RIGHT = "right"


@dataclass(frozen=True)
class Contraction:
    """Which dimensions of two factors are which, by letters as in an equation of `einsum`.

    Attributes:
        left: The letters of the left factor's dimensions.
        right: Those of the right one's.
        out: Those of the product's: each stands in a factor, those of both in both.
    """

    left: str
    right: str
    out: str

    @property
    def batch(self) -> str:
        """Letters of both factors and the product: as many matrices there are."""
        return "".join(letter for letter in self.out if letter in self.left and letter in self.right)

    @property
    def rows(self) -> str:
        """Letters of the left factor and the product."""
        return "".join(letter for letter in self.out if letter not in self.right)

    @property
    def columns(self) -> str:
        """Letters of the right factor and the product."""
        return "".join(letter for letter in self.out if letter not in self.left)

    @property
    def summed(self) -> str:
        """Letters of both factors alone, in the left one's order."""
        return "".join(letter for letter in self.left if letter not in self.out)

    def swapped(self) -> Contraction:
        """The same product with its factors in the other order."""
        return Contraction(self.right, self.left, self.out)

    def is_plain(self) -> bool:
        """Whether no letter stands twice in a factor, and none is summed over in one of them alone."""
        words = (self.left, self.right, self.out)
        known = set(self.out) <= set(self.left + self.right) and set(self.left) ^ set(self.right) <= set(self.out)
        return known and all(len(set(word)) == len(word) for word in words)

    def orders(self, layer: Layer) -> tuple[str, str, str]:
        """In which order `contract` reads the left factor and the right one, and makes the product."""
        rows, columns, summed = self.rows, self.columns, self.summed
        if layer is Layer.NONE:
            return self.batch + rows + summed, self.batch + summed + columns, self.batch + rows + columns
        made = columns + rows if layer is Layer.LEFT else rows + columns
        return rows + summed, columns + summed, made

    def is_transposed(self) -> bool:
        """Whether the right factor is as `orders` has it for no layer, but for its last two groups of dimensions.

        Such a matrix is transposed, which engines do while they read it, and is not copied.
        """
        return self.right == self.batch + self.columns + self.summed

    def copied(self, sizes: dict[str, int], layer: Layer) -> int:
        """What `contract` brings into another order, in numbers that are copied meanwhile: an estimate."""
        first, second, third = self.moved(sizes, layer)
        second = second and (layer is not Layer.NONE or not self.is_transposed())
        words = ((self.left, first), (self.right, second), (self.out, third))
        return sum(CALL_NUMBERS + prod(sizes[letter] for letter in word) for word, moves in words if moves)

    def moved(self, sizes: dict[str, int], layer: Layer) -> tuple[bool, bool, bool]:
        """Whether the left factor, the right one and the product are copied into another order."""
        left, right, out = self.orders(layer)
        pairs = ((self.left, left), (self.right, right), (self.out, out))
        first, second, third = (_lasting(one, sizes) != _lasting(other, sizes) for one, other in pairs)
        return first, second, third

    def layer(self, *, left_is_weight: bool, right_is_weight: bool) -> Layer:
        """Which factor is the weight of a linear layer."""
        if self.batch:
            return Layer.NONE
        return Layer.LEFT if left_is_weight else Layer.RIGHT if right_is_weight else Layer.NONE


def _lasting(word: str, sizes: dict[str, int]) -> list[str]:
    return [letter for letter in word if sizes[letter] > 1]


def contract(one: Contraction, left: torch.Tensor, right: torch.Tensor, layer: Layer) -> torch.Tensor:
    """Compute a product with `bmm`, or with a linear layer where a factor is its weight.

    Args:
        one: Which dimensions are which.
        left: The left factor.
        right: The right factor, of the same dtype.
        layer: Which of them is the weight of a layer; one of several matrices is none.

    Returns:
        The product, with the dimensions that `one.out` names.
    """
    sizes = dict(zip(one.left + one.right, (*left.shape, *right.shape), strict=True))
    count, high, wide, deep = (
        prod(sizes[letter] for letter in word) for word in (one.batch, one.rows, one.columns, one.summed)
    )
    first, second, order = one.orders(layer)
    x = order_dimensions(left, one.left, first)
    if layer is Layer.NONE and one.is_transposed():
        product = torch.bmm(form(x, [count, high, deep]), form(right, [count, wide, deep]).transpose(1, 2))
    elif layer is Layer.NONE:
        y = order_dimensions(right, one.right, second)
        product = torch.bmm(form(x, [count, high, deep]), form(y, [count, deep, wide]))
    else:
        x, y = form(x, [high, deep]), form(order_dimensions(right, one.right, second), [wide, deep])
        product = F.linear(y, x) if layer is Layer.LEFT else F.linear(x, y)
    return order_dimensions(form(product, [sizes[letter] for letter in order]), order, one.out)


def order_dimensions(x: torch.Tensor, before: str, after: str) -> torch.Tensor:
    """A tensor whose dimensions have these letters, in another order."""
    order = [before.index(letter) for letter in after]
    return x if order == sorted(order) else x.permute(order)


def form(x: torch.Tensor, sizes: Sequence[Any]) -> torch.Tensor:
    """The tensor in a form; itself where it has it: a weight stays the weight that it is.

    A size that only a run knows is inferred where it is the only one, as engines can.
    """
    if len(sizes) == x.dim() and all(map(same_size, x.shape, sizes)):
        return x
    known = [isinstance(size, int) for size in sizes]
    infers = known.count(False) == 1
    return x.reshape([-1 if infers and not is_known else size for size, is_known in zip(sizes, known, strict=True)])


def same_size(one: Any, other: Any) -> bool:
    """Whether two sizes are the same; those that only a run knows, by their symbols: no question is asked of them."""
    fixed = isinstance(one, int) and isinstance(other, int)
    return bool(one == other) if fixed else str(one) == str(other)
