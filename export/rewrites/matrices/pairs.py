"""Einstein sums as products of two factors each, of no more dimensions than the factors have.

```
before:  y = aten.einsum.default("bclhn,bcshn,bhcls,bcshp->bclhp", [c, b, decay, x])            # Mamba 2
after:   scores = aten.bmm.default(c' [b c h, l, n], b' [b c h, n, s])
         scores = aten.mul.Tensor(scores, decay' [b, c, h, l, s])
         y      = aten.bmm.default(scores, x' [b c h, s, p])                      # and in the order that is asked for
```

PyTorch's decomposition gives both factors of each product all letters, with dimensions of one element: seven here, and
XNNPACK has six. ExecuTorch's kernels copied 40 such tensors, a third of the time of a Mamba 2. The order of the pairs
is the one that costs least: numbers that are made and multiplied, and products. Of sizes that only a run knows, the
decomposition takes thirteen operators for a product of two, five of which are permutations: those are written here too,
whatever letters they have. Left alone: two factors of known sizes and six letters together, letters that stand twice,
and more than four factors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rule, Rules, static, substitute
from edgex.export.rewrites.matrices.contraction import (
    CALL_NUMBERS,
    Contraction,
    Layer,
    contract,
    form,
    order_dimensions,
)
from edgex.export.rewrites.matrices.equations import Use, read_equation, weights_of

aten = torch.ops.aten

# What engines hold.
_LETTERS = 6
_FACTORS = 4
# How many numbers are multiplied and added while one is copied: an estimate, which keeps low ranks apart.
_MULTIPLIED = 16


def pair_factors(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such sum; the same program comes back without one."""
    weights = weights_of(program)

    def terms(node: Node) -> tuple[Any, ...]:
        equation, operands = node.args[:2]
        assert isinstance(operands, Sequence)
        return equation, operands, tuple(map(weights.use, operands))

    rules: Rules = {aten.einsum.default: Rule(_sum, operands=terms)}
    return substitute(program, "pair_factors", rules, "{count} einsum(s) became products of two factors")


@dataclass(frozen=True)
class _Term:
    letters: str
    value: torch.Tensor
    is_weight: bool = False


def _sum(equation: str, operands: Sequence[torch.Tensor], uses: tuple[Use, ...]) -> Any:
    sum_of = read_equation(equation, operands, varying=True)
    if sum_of is None or not 2 <= len(operands) <= _FACTORS or Use.SHARED in uses:
        return NotImplemented
    words, out, sizes = sum_of
    varies = not all(static(*one.shape) for one in operands)
    if len(operands) == 2 and len(sizes) <= _LETTERS and not varies:
        return NotImplemented
    terms = [_Term(*term) for term in zip(words, operands, (use is Use.WEIGHT for use in uses), strict=True)]
    order, _ = _cheapest([term.letters for term in terms], out, sizes)
    for first, second in order:
        one, other = terms[first], terms[second]
        rest = [term for at, term in enumerate(terms) if at not in (first, second)]
        kept = _kept(one.letters, other.letters, [term.letters for term in rest], out)
        terms = [*rest, _pair(one, other, kept, sizes)]
    (last,) = terms
    return order_dimensions(last.value, last.letters, out)


def _kept(one: str, other: str, rest: Sequence[str], out: str) -> str:
    """The letters of a pair's product: those that are read later, in an order that needs no copy of a product."""
    later = set(out).union(*rest)
    kept = [letter for letter in dict.fromkeys(one + other) if letter in later]
    if set(kept) == set(out):
        return out
    if set(kept) == set(one + other):  # nothing is summed: the larger factor stays as it is
        for word in (one, other):
            if set(word) == set(kept):
                return word
    both = [letter for letter in kept if letter in one and letter in other]
    return "".join(both + [letter for letter in kept if letter not in both])


def _cheapest(words: list[str], out: str, sizes: dict[str, int]) -> tuple[list[tuple[int, int]], int]:
    """The pairs to multiply, by their places among what is left, and what they cost in numbers."""
    if len(words) == 1:
        return [], 0
    found: tuple[list[tuple[int, int]], int] | None = None
    for first, second in combinations(range(len(words)), 2):
        rest = [word for at, word in enumerate(words) if at not in (first, second)]
        kept = _kept(words[first], words[second], rest, out)
        later, cost = _cheapest([*rest, kept], out, sizes)
        one = Contraction(words[first], words[second], kept)
        cost += prod(sizes[letter] for letter in kept)
        cost += prod(sizes[letter] for letter in one.batch + one.rows + one.columns + one.summed) // _MULTIPLIED
        if set(words[first] + words[second]) != set(kept):
            cost += min(one.copied(sizes, Layer.NONE), one.swapped().copied(sizes, Layer.NONE))
            cost += CALL_NUMBERS * prod(sizes[letter] for letter in one.batch)
        if found is None or cost < found[1]:
            found = [(first, second), *later], cost
    assert found is not None
    return found


def _pair(one: _Term, other: _Term, kept: str, sizes: dict[str, int]) -> _Term:
    # What one of them alone has and nobody reads is summed first.
    values = [
        (_summed(term, set(kept) | set(mate.letters)), term.is_weight) for term, mate in ((one, other), (other, one))
    ]
    (left, _), (right, _) = values
    if not Contraction(left.letters, right.letters, kept).summed:
        return _Term(kept, _spread(left, kept) * _spread(right, kept))
    ways: list[tuple[Any, ...]] = []
    for (left, left_is_weight), (right, right_is_weight) in (values, values[::-1]):
        way = Contraction(left.letters, right.letters, kept)
        layer = way.layer(left_is_weight=left_is_weight, right_is_weight=right_is_weight)
        ways.append((way.copied(sizes, layer), way.is_transposed(), len(ways), (way, left.value, right.value, layer)))
    return _Term(kept, contract(*min(ways)[-1]))


def _summed(term: _Term, read: set[str]) -> _Term:
    gone = [at for at, letter in enumerate(term.letters) if letter not in read]
    if not gone:
        return term
    return _Term("".join(letter for letter in term.letters if letter in read), term.value.sum(gone))


def _spread(term: _Term, kept: str) -> torch.Tensor:
    """A factor with a dimension for each letter, of one element where it lacks it."""
    own = "".join(letter for letter in kept if letter in term.letters)
    value = order_dimensions(term.value, term.letters, own)
    shape = [value.shape[own.index(letter)] if letter in own else 1 for letter in kept]
    return form(value, shape)
