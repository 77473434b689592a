"""Factor symmetric matrices into triangles, and solve with a triangle, a row or a column of all matrices at a time.

```
l = factor(s)                       # s: [..., 2, 2]
    first  = s[:, 0] / sqrt(s[0, 0])
    rest   = s[1:, 1:] - first[1:] * first[1:].T
    second = rest[:, 0] / sqrt(rest[0, 0])
    l      = [first, [0, second]], side by side

x = solve_triangle(l, b, upper=False)
    first  = b[0] / l[0, 0]
    rest   = b[1:] - l[1:, 0] * first
    second = rest[0] / l[1, 1]
    x      = [first, second]
```

Only the triangle in question is read, as LAPACK does: what is on the other side may be anything.
"""

from __future__ import annotations

import torch
from torch.nn import functional as F


def factor(symmetric: torch.Tensor) -> torch.Tensor:
    """The lower triangle `l` with `l @ l.T` as the matrix, of which the lower triangle is read."""
    rest, columns = symmetric, []
    for k in range(int(symmetric.shape[-1])):
        count = int(rest.shape[-1]) - 1
        column = rest.narrow(-1, 0, 1)
        column = column / torch.sqrt(column.narrow(-2, 0, 1))
        columns.append(F.pad(column, (0, 0, k, 0)) if k else column)
        if count:
            below = column.narrow(-2, 1, count)
            rest = rest.narrow(-2, 1, count).narrow(-1, 1, count) - below * below.transpose(-2, -1)
    return torch.cat(columns, -1)


def solve_triangle(
    triangle: torch.Tensor, b: torch.Tensor, *, upper: bool, transposed: bool = False, ones: bool = False
) -> torch.Tensor:
    """`x` with `triangle @ x = b`.

    Args:
        triangle: What it holds on the other side of its diagonal is not read.
        b: A matrix for every triangle: only the triangles may be repeated for several of them.
        upper: Whether the triangle is the upper one.
        transposed: Solve with the triangle's transpose.
        ones: Take the diagonal for ones, whatever it holds.
    """
    size = int(triangle.shape[-1])
    a, upwards = (triangle.transpose(-2, -1), not upper) if transposed else (triangle, upper)
    rest, found = b, []
    for k in reversed(range(size)) if upwards else range(size):
        # `rest` ends with row k, or begins with it: the others need it.
        count = int(rest.shape[-2]) - 1
        row = rest.narrow(-2, count if upwards else 0, 1)
        row = row if ones else row / a.narrow(-2, k, 1).narrow(-1, k, 1)
        found.append(row)
        if count:
            column = a.narrow(-1, k, 1).narrow(-2, 0 if upwards else k + 1, count)
            rest = rest.narrow(-2, 0 if upwards else 1, count) - column * row
    return torch.cat(found[::-1] if upwards else found, -2)
