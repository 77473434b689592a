"""Take Einstein sums apart: into products of matrices, which ONNX Runtime multiplies sooner, and reads right.

And those of one tensor that sum nothing are what they are, another order of its dimensions: quantizers know that such
an operator only moves numbers.

```
before:  y = aten.einsum.default("byixjhd->bhyxijd", [x])
after:   y = aten.permute.default(x, [0, 5, 1, 3, 2, 4, 6])

before:  y = aten.einsum.default("bhid,bhjd->bhij", [a, b])                # a, b: [1, 8, 1024, 32]
after:   y = aten.bmm.default(a.reshape(8, 1024, 32), b.reshape(8, 1024, 32).permute(0, 2, 1)).view(1, 8, 1024, 1024)
```

ONNX Runtime's own operator copies its factors and multiplies one matrix after another: 15.5 ms for the second where a
product takes 7.0, 1.3 and 0.3 for `bhnd,bhne->bhde` (one thread of a Zen without AVX-512). An ellipsis that stands for
several sizes it reads wrongly. Left alone: sizes that only a run knows, where no ellipsis is.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rule, Rules, static, substitute
from edgex.export.rewrites.matrices.contraction import Contraction, order_dimensions
from edgex.export.rewrites.matrices.equations import read_equation


def split_einsum(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Take every such sum apart; the same program comes back without one."""
    rules: Rules = {torch.ops.aten.einsum.default: Rule(_einsum, apart=True)}
    return substitute(program, "split_einsum", rules, "{count} einsum(s) became products of matrices")


def permute_einsum(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every sum that only puts dimensions in order as a permutation; the same program comes back without one."""
    rules: Rules = {torch.ops.aten.einsum.default: Rule(_permutation)}
    return substitute(program, "permute_einsum", rules, "{count} einsum(s) that sum nothing became permutations")


def _permutation(equation: str, operands: Sequence[torch.Tensor], path: Sequence[int] | None) -> Any:
    del path
    given, arrow, wanted = equation.replace(" ", "").partition("->")
    if not arrow:
        wanted = "".join(sorted(given))
    distinct = len(set(given)) == len(given) == len(wanted)
    if len(operands) != 1 or "." in given or not distinct or set(given) != set(wanted) or given == wanted:
        return NotImplemented
    return operands[0].permute([given.index(letter) for letter in wanted])


def _einsum(equation: str, operands: Sequence[torch.Tensor], path: Sequence[int] | None) -> Any:
    del path
    if not all(static(*operand.shape) for operand in operands) and "..." not in equation:
        return NotImplemented
    sum_of = read_equation(equation, operands)
    if sum_of is not None and len(operands) == 2:
        (left, right), out, _ = sum_of
        contraction = Contraction(left, right, out)
        if contraction.is_plain() and contraction.summed:
            return _product(contraction, *operands)
    return torch.einsum(equation, *operands)


def _product(one: Contraction, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """One product of matrices, whose factors are turned behind a reshape, not before it: ONNX Runtime fuses that."""
    sizes = dict(zip(one.left + one.right, (*left.shape, *right.shape), strict=True))
    x = _as_groups(left, one.left, [one.batch, one.rows, one.summed], sizes)
    y = _as_groups(right, one.right, [one.batch, one.summed, one.columns], sizes)
    groups = [one.batch, one.rows, one.columns]
    product = torch.bmm(x, y) if one.batch else torch.mm(x[0], y[0])[None]
    return _from_groups(product, groups, one.out, sizes)


def _as_groups(x: torch.Tensor, word: str, groups: list[str], sizes: dict[str, int]) -> torch.Tensor:
    """A tensor with a dimension for each group of letters."""
    extents = [prod(sizes[letter] for letter in group) for group in groups]
    present = sorted(range(len(groups)), key=lambda at: word.index(groups[at][0]) if groups[at] else -1)
    if "".join(groups[at] for at in present) != word:
        return order_dimensions(x, word, "".join(groups)).reshape(extents)
    merged = x.reshape([extents[at] for at in present])
    order = [present.index(at) for at in range(len(groups))]
    return merged if order == sorted(order) else merged.permute(order)


def _from_groups(x: torch.Tensor, groups: list[str], word: str, sizes: dict[str, int]) -> torch.Tensor:
    """A tensor with a dimension for each letter again."""
    present = sorted(range(len(groups)), key=lambda at: word.index(groups[at][0]) if groups[at] else -1)
    extents = [sizes[letter] for letter in word]
    if "".join(groups[at] for at in present) != word:
        letters = "".join(groups)
        return order_dimensions(x.reshape([sizes[letter] for letter in letters]), letters, word)
    return (x if present == sorted(present) else x.permute(present)).reshape(extents)
