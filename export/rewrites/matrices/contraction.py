"""A product over some dimensions of two tensors as one product of matrices, or of as many as both of them have."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import prod

import torch
from torch.nn import functional as F

# What one product of matrices costs before it begins, in numbers that are copied meanwhile: an estimate.
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
    x, y = order_dimensions(left, one.left, first), order_dimensions(right, one.right, second)
    if layer is Layer.NONE:
        product = torch.bmm(form(x, [count, high, deep]), form(y, [count, deep, wide]))
    else:
        x, y = form(x, [high, deep]), form(y, [wide, deep])
        product = F.linear(y, x) if layer is Layer.LEFT else F.linear(x, y)
    return order_dimensions(form(product, [sizes[letter] for letter in order]), order, one.out)


def order_dimensions(x: torch.Tensor, before: str, after: str) -> torch.Tensor:
    """A tensor whose dimensions have these letters, in another order."""
    order = [before.index(letter) for letter in after]
    return x if order == sorted(order) else x.permute(order)


def form(x: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """The tensor in a form; itself where it has it: a weight stays the weight that it is."""
    return x if list(x.shape) == sizes else x.reshape(sizes)
