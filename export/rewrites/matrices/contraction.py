"""A product over some dimensions of two tensors as one product of matrices, or of as many as both of them have."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import torch
from torch.nn import functional as F

# What one product of matrices costs before it begins, in numbers that are copied meanwhile (XNNPACK, AVX-512).
CALL_NUMBERS = 256


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

    def orders(self, *, turned: bool) -> tuple[str, str, str]:
        """In which order `contract` reads the left factor and the right one, and makes the product.

        Args:
            turned: Whether a linear layer has the left factor as its weight.
        """
        if turned:
            return self.rows + self.summed, self.columns + self.summed, self.columns + self.rows
        return (
            self.batch + self.rows + self.summed,
            self.batch + self.summed + self.columns,
            self.batch + self.rows + self.columns,
        )

    def moved(self, sizes: dict[str, int], *, turned: bool) -> tuple[bool, bool, bool]:
        """Whether the left factor, the right one and the product are copied into another order."""
        left, right, out = self.orders(turned=turned)
        pairs = ((self.left, left), (self.right, right), (self.out, out))
        first, second, third = (_lasting(one, sizes) != _lasting(other, sizes) for one, other in pairs)
        return first, second, third


def _lasting(word: str, sizes: dict[str, int]) -> list[str]:
    return [letter for letter in word if sizes[letter] > 1]


def contract(
    one: Contraction, left: torch.Tensor, right: torch.Tensor, *, left_is_weight: bool, right_is_weight: bool
) -> torch.Tensor:
    """Compute a product with `bmm`, or with a linear layer where a factor is a weight and there is one matrix.

    Args:
        one: Which dimensions are which.
        left: The left factor.
        right: The right factor, of the same dtype.
        left_is_weight: Whether it is the same in every run.
        right_is_weight: Likewise.

    Returns:
        The product, with the dimensions that `one.out` names.
    """
    sizes = dict(zip(one.left + one.right, (*left.shape, *right.shape), strict=True))
    batch, rows, columns, summed = (
        [sizes[letter] for letter in word] for word in (one.batch, one.rows, one.columns, one.summed)
    )
    count, high, wide, deep = prod(batch), prod(rows), prod(columns), prod(summed)
    turned = left_is_weight and count == 1
    first, second, order = one.orders(turned=turned)
    x, y = order_dimensions(left, one.left, first), order_dimensions(right, one.right, second)
    if turned:
        product = F.linear(y.reshape(wide, deep), x.reshape(high, deep))
    elif right_is_weight and count == 1:
        product = F.linear(x.reshape(high, deep), y.reshape(deep, wide).t())
    else:
        product = torch.bmm(x.reshape(count, high, deep), y.reshape(count, deep, wide))
    return order_dimensions(product.reshape([sizes[letter] for letter in order]), order, one.out)


def order_dimensions(x: torch.Tensor, before: str, after: str) -> torch.Tensor:
    """A tensor whose dimensions have these letters, in another order."""
    order = [before.index(letter) for letter in after]
    return x if order == sorted(order) else x.permute(order)
