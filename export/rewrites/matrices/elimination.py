"""Gaussian elimination with row exchanges, as LAPACK does it, without a step that depends on the numbers.

```
rows = eliminate(m).rows            # m: [..., 3, columns]
    size    = abs(m[:, 0])                                       # step 0: which row begins with the largest number?
    place   = where(size >= amax(size), [3, 2, 1], 0)            # the first of several
    chosen  = place == amax(place)                               # one True among False
    pivot   = sum(where(chosen, m, 0), rows)                     # nothing is added to it: the sum is exact
    others  = where(chosen, m[0], m)[1:]                         # row 0 takes the place of the one that is gone
    m       = others - others[:, 0] / pivot[0] * pivot           # step 1 goes on with these two rows
    rows    = [pivot, ...]
```

Every step is on all rows of all matrices at once. Without the exchange a pivot near zero would take the digits of all
others with it. The numbers differ from eager's as two good algorithms do: by float32's precision times the condition.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Eliminated:
    """Where elimination ended.

    Attributes:
        rows: Row `k` of the result, [..., 1, columns]; what stands before its element `k` is to be taken for zeros.
        stayed: By step, whether no rows changed places, [..., 1, 1].
    """

    rows: tuple[torch.Tensor, ...]
    stayed: tuple[torch.Tensor, ...]


def eliminate(matrix: torch.Tensor, *, singular: bool = False) -> Eliminated:
    """Make a matrix upper triangular.

    Args:
        matrix: As many columns as rows, and any number of columns behind them, which take part.
        singular: Let columns of zeros be: elsewhere they end in NaN, where eager raises an error.
    """
    # Tensors, since a literal beside one becomes an operator that makes a tensor of it in every run.
    zero, one = (torch.full((), value, dtype=matrix.dtype, device=matrix.device) for value in (0.0, 1.0))
    rest, rows, stayed = matrix, [], []
    for k in range(int(matrix.shape[-2]) - 1):
        count = int(rest.shape[-2]) - 1
        chosen = _largest(rest.narrow(-1, k, 1), zero)
        pivot = torch.sum(torch.where(chosen, rest, zero), -2, keepdim=True)
        others = torch.where(chosen, rest.narrow(-2, 0, 1), rest).narrow(-2, 1, count)
        divisor = pivot.narrow(-1, k, 1)
        if singular:
            divisor = torch.where(divisor == zero, one, divisor)
        rest = others - others.narrow(-1, k, 1) / divisor * pivot
        rows.append(pivot)
        stayed.append(chosen.narrow(-2, 0, 1))
    return Eliminated((*rows, rest), tuple(stayed))


def _largest(column: torch.Tensor, zero: torch.Tensor) -> torch.Tensor:
    """Where the first of the largest elements of a column is: one True."""
    size = torch.abs(column)
    order = torch.arange(int(column.shape[-2]), 0, -1, dtype=column.dtype, device=column.device).unsqueeze(-1)
    place = torch.where(size >= torch.amax(size, -2, keepdim=True), order, zero)
    return place == torch.amax(place, -2, keepdim=True)
