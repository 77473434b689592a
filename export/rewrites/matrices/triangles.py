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

From 9 rows on a matrix is factored, and a triangle solved, in halves, one after the other. A triangle of weights is
solved in blocks of 32 rows, whose inverses are computed here:

```
x = solve_blocks(l, b, upper=False)                 # l: [64, 64]
    first  = inverse(l[:32, :32]) @ b[:32]
    second = inverse(l[32:, 32:]) @ (b[32:] - l[32:, :32] @ first)
    x      = [first, second]
```

Only the triangle in question is read, as LAPACK does: what is on the other side may be anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch.nn import functional as F

# Solved row by row, and by an inverse.
_ROWS, _BLOCK = 8, 32


def factor(symmetric: torch.Tensor) -> torch.Tensor:
    """The lower triangle `l` with `l @ l.T` as the matrix, of which the lower triangle is read."""
    size = int(symmetric.shape[-1])
    if size > _ROWS:
        half, others = size // 2, size - size // 2
        rows = symmetric.narrow(-2, half, others)
        first = factor(symmetric.narrow(-2, 0, half).narrow(-1, 0, half))
        left = solve_triangle(first, rows.narrow(-1, 0, half).transpose(-2, -1), upper=False)
        last = factor(rows.narrow(-1, half, others) - left.transpose(-2, -1) @ left)
        return torch.cat([F.pad(first, (0, others)), torch.cat([left.transpose(-2, -1), last], -1)], -2)
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
    if size > _ROWS:
        parts = (0, size // 2), (size // 2, size - size // 2)
        return _solve_parts(
            a, b, parts, upwards, lambda part, rest: solve_triangle(part, rest, upper=upwards, ones=ones)
        )
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


def solve_blocks(triangle: torch.Tensor, b: torch.Tensor, *, upper: bool, ones: bool = False) -> torch.Tensor:
    """`x` with `triangle @ x = b`, for a triangle of weights: what is made of it alone is computed at export."""

    def solve(part: torch.Tensor, rest: torch.Tensor) -> torch.Tensor:
        identity = torch.eye(int(part.shape[-1]), dtype=part.dtype, device=part.device)
        inverse: torch.Tensor = torch.linalg.solve_triangular(part, identity, upper=upper, unitriangular=ones)
        return inverse @ rest

    size = int(triangle.shape[-1])
    parts = [(start, min(_BLOCK, size - start)) for start in range(0, size, _BLOCK)]
    return _solve_parts(triangle, b, parts, upper, solve)


def _solve_parts(
    a: torch.Tensor,
    b: torch.Tensor,
    parts: Sequence[tuple[int, int]],
    upwards: bool,
    solve: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Solve with the blocks on the diagonal, each for what those before it leave of its rows."""
    found: dict[int, torch.Tensor] = {}
    for start, count in reversed(parts) if upwards else parts:
        rows, rest = a.narrow(-2, start, count), b.narrow(-2, start, count)
        if found:
            known = torch.cat([found[at] for at in sorted(found)], -2) if len(found) > 1 else next(iter(found.values()))
            behind = start + count if upwards else 0
            rest = rest - rows.narrow(-1, behind, int(known.shape[-2])) @ known
        found[start] = solve(rows.narrow(-1, start, count), rest)
    return torch.cat([found[at] for at in sorted(found)], -2)
