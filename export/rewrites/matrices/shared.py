"""Products in which one matrix serves several of the other factor: once, with more rows or columns, not repeated.

```
before:  y = aten.matmul.default(x, weights)                    # x: [2, 1, 196, 384], weights: [8, 384, 64]
after:   y = aten.linear.default(x.reshape(392, 384), weights.permute(0, 2, 1).reshape(512, 384))
         y = y.reshape(2, 196, 8, 64).permute(0, 2, 1, 3)

before:  y = aten.matmul.default(votes, x)                      # votes: [10, 576, 16, 8], x: [2, 1, 576, 8, 1]
after:   y = aten.bmm.default(votes' [576, 160, 8], x' [576, 8, 2]), in the order of before
```

ExecuTorch repeats both factors in memory and multiplies as many small matrices: 11,520 for a layer of capsules, 10.1
ms, and 1.3 like this (one thread of a Xeon). oneDNN repeats nothing, but reads a matrix again for each vector: 0.43 ms
for 16 vectors and a weight of 256 x 256, and 0.05 as a linear layer. It is given only what leaves all numbers in place.

Einstein sums of two factors, one of which is a weight, are the same question:

```
before:  y = aten.einsum.default("bnd,hde->bhne", [x, weights])
```

Left alone: sizes that only a run knows, stacks of matrices whose repetition costs less than another order of the other
factor and the result, and large weights that others read, which would be stored in two orders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rule, Rules, static, substitute
from edgex.export.rewrites.matrices.contraction import CALL_NUMBERS, Contraction, Layer, contract, form
from edgex.export.rewrites.matrices.equations import Use, read_equation, weights_of

aten = torch.ops.aten

_BATCH = "abcdefgh"


def share_factors(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every product that is quicker for it, and every sum with a weight; the same program without one."""
    return _share(program, "share_factors", _is_quicker, lambda _: True)


def share_weights(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write those with a weight for which nothing is copied; the same program comes back without one."""
    return _share(program, "share_weights", _copies_nothing, _copies_nothing)


def _share(
    program: CapturedProgram, name: str, of_products: Callable[[_Factors], bool], of_sums: Callable[[_Factors], bool]
) -> tuple[CapturedProgram, Rewrite | None]:
    weights = weights_of(program)

    def factors(node: Node) -> tuple[Any, ...]:
        left, right = node.args
        return left, right, weights.use(left), weights.use(right)

    def terms(node: Node) -> tuple[Any, ...]:
        equation, operands = node.args[:2]
        assert isinstance(operands, Sequence)
        return equation, operands, tuple(map(weights.use, operands))

    rules: Rules = {
        aten.matmul.default: Rule(partial(_product, of_products), operands=factors),
        aten.einsum.default: Rule(partial(_sum, of_sums), operands=terms),
    }
    return substitute(program, name, rules, "{count} product(s) repeat no factor")


@dataclass(frozen=True)
class _Factors:
    """Two factors, what their dimensions are, and which of them are weights."""

    one: Contraction
    left: torch.Tensor
    right: torch.Tensor
    left_use: Use
    right_use: Use

    @property
    def has_weight(self) -> bool:
        return self.left_use is not Use.COMPUTED or self.right_use is not Use.COMPUTED

    @property
    def layer(self) -> Layer:
        return self.one.layer(
            left_is_weight=self.left_use is not Use.COMPUTED, right_is_weight=self.right_use is not Use.COMPUTED
        )

    @property
    def sizes(self) -> dict[str, int]:
        return dict(zip(self.one.left + self.one.right, (*self.left.shape, *self.right.shape), strict=True))

    @property
    def doubles(self) -> bool:
        """Whether a weight that others read is stored a second time, in another order."""
        left, right, _ = self.one.moved(self.sizes, self.layer)
        return (left and self.left_use is Use.SHARED) or (right and self.right_use is Use.SHARED)

    @property
    def moved(self) -> int:
        """How many numbers are copied in every run."""
        copied = zip(
            (self.left_use is Use.COMPUTED, self.right_use is Use.COMPUTED, True),
            self.one.moved(self.sizes, self.layer),
            (self.left.numel(), self.right.numel(), self._count(self.one.out)),
            strict=True,
        )
        return sum(number for in_runs, is_moved, number in copied if in_runs and is_moved)

    @property
    def repeated(self) -> int:
        """How many numbers of stacks of matrices that are repeated were copied."""
        return sum(
            factor.numel() * self._count(lacks)
            for factor, word in ((self.left, self.one.left), (self.right, self.one.right))
            if (lacks := [letter for letter in self.one.out[:-2] if letter not in word])
        )

    @property
    def matrices(self) -> tuple[int, int]:
        """How many products of matrices there are, and were, of stacks."""
        return self._count(self.one.batch), self._count(self.one.out[:-2])

    def contract(self) -> torch.Tensor:
        return contract(self.one, self.left, self.right, self.layer)

    def _count(self, letters: Iterable[str]) -> int:
        sizes = self.sizes
        return prod(sizes[letter] for letter in letters)


def _is_quicker(factors: _Factors) -> bool:
    now, before = factors.matrices
    return factors.moved + CALL_NUMBERS * now < factors.repeated + CALL_NUMBERS * before


def _copies_nothing(factors: _Factors) -> bool:
    return factors.has_weight and not factors.moved


def _product(
    gains: Callable[[_Factors], bool],
    left: torch.Tensor,
    right: torch.Tensor,
    left_use: Use,
    right_use: Use,
) -> Any:
    rank = max(left.dim(), right.dim())
    if min(left.dim(), right.dim()) < 2 or rank < 3 or rank - 2 > len(_BATCH):
        return NotImplemented
    if not static(*left.shape, *right.shape) or not left.is_floating_point() or 0 in (*left.shape, *right.shape):
        return NotImplemented
    letters = _BATCH[: rank - 2]
    over = [_outer(x, rank) for x in (left, right)]
    if over[0] == over[1]:
        return NotImplemented
    whole = [max(pair) for pair in zip(*over, strict=True)]
    # Dimensions of one element belong to neither, and come back with the result's form.
    mine = ["".join(letter for letter, size in zip(letters, sizes, strict=True) if size > 1) for sizes in over]
    out = "".join(letter for letter, size in zip(letters, whole, strict=True) if size > 1)
    one = Contraction(f"{mine[0]}mk", f"{mine[1]}kn", f"{out}mn")
    x, y = (
        form(tensor, [*(size for size in sizes if size > 1), *tensor.shape[-2:]])
        for tensor, sizes in zip((left, right), over, strict=True)
    )
    factors = _Factors(one, x, y, left_use, right_use)
    if factors.doubles or not gains(factors):
        return NotImplemented
    return factors.contract().reshape(*whole, left.shape[-2], right.shape[-1])


def _outer(x: torch.Tensor, rank: int) -> list[int]:
    return [1] * (rank - x.dim()) + list(x.shape[:-2])


def _sum(
    gains: Callable[[_Factors], bool], equation: str, operands: Sequence[torch.Tensor], uses: tuple[Use, ...]
) -> Any:
    sum_of = read_equation(equation, operands)
    if sum_of is None or len(operands) != 2 or sum(use is Use.COMPUTED for use in uses) != 1:
        return NotImplemented
    words, out, _ = sum_of
    one = Contraction(words[0], words[1], out)
    if not one.is_plain() or not one.summed:
        return NotImplemented
    factors = _Factors(one, operands[0], operands[1], uses[0], uses[1])
    return factors.contract() if gains(factors) and not factors.doubles else NotImplemented
