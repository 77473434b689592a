"""Invert triangles of many rows, or of as many as only a run knows, all blocks of their diagonals at a time.

```
x = solve_by_inverse(l, b)                          # l: [16, 16], lower
    p, q = inverses of l[:8, :8] and l[8:, 8:]      # one operator a row, for all blocks together
    r    = -q @ l[8:, :8] @ p
    x    = [[p, 0], [r, q]] @ b                     # as often as the rows double

l: [n, n], 1 <= n <= 100                            # a chunk of a text
    l = pad(l, (0, 129 - n, 0, 129 - n), value=1)   # rows behind n read those before, and not the other way round
    b = pad(b, (0, 0, 0, 129 - n))                  # both without their last row
    x = solve_by_inverse(l, b)[:n]
```

Blocks on and beside the diagonal are cut out of all rows at once: in memory with `width` more numbers a row of blocks
than there are, each begins where the one before it ends.
"""

from __future__ import annotations

import torch
from torch.nn import functional as F

from edgex.export.rewrites.matrices.triangles import solve_triangle

# Rows of the blocks that are inverted one row after the other.
_ROWS = 8


def solve_by_inverse(
    triangle: torch.Tensor, b: torch.Tensor, largest: int, *, upper: bool, ones: bool = False
) -> torch.Tensor:
    """`x` with `triangle @ x = b`.

    Args:
        triangle: [..., n, n]; what it holds on the other side of its diagonal is not read.
        b: [..., n, k], with the triangle's dimensions before them.
        largest: What n is at most, where only a run knows it.
        upper: Whether the triangle is the upper one.
        ones: Take the diagonal for ones, whatever it holds.
    """
    rows, padded = triangle.shape[-1], _ROWS
    while padded < largest:
        padded *= 2
    whole = isinstance(rows, int) and rows == padded
    lower = triangle.transpose(-2, -1) if upper else triangle
    if not whole:
        # One row more than is kept: tracing asks whether there is anything to pad, and whether all rows are taken, and
        # goes by the example's answer where the bounds of n have none.
        missing = padded + 1 - rows
        lower = F.pad(lower, (0, missing, 0, missing), value=1.0).narrow(-2, 0, padded).narrow(-1, 0, padded)
        b = F.pad(b, (0, 0, 0, missing)).narrow(-2, 0, padded)
    inverse = _invert(lower.reshape(-1, padded, padded), ones).reshape(lower.shape)
    found = (inverse.transpose(-2, -1) if upper else inverse) @ b
    return found if whole else F.pad(found, (0, 0, 0, 1)).narrow(-2, 0, rows)


def _invert(lower: torch.Tensor, ones: bool) -> torch.Tensor:
    """Of [batch, m, m] with m a power of two times `_ROWS`."""
    identity = torch.eye(_ROWS, dtype=lower.dtype, device=lower.device)
    blocks = _blocks(lower, _ROWS, 0)
    found = solve_triangle(blocks, identity.expand(blocks.shape), upper=False, ones=ones)
    while (size := int(found.shape[-1])) < lower.shape[-1]:
        first, second = found.reshape(-1, int(found.shape[1]) // 2, 2, size, size).unbind(2)
        below = -(second @ (_blocks(lower, 2 * size, size) @ first))
        found = torch.cat([F.pad(first, (0, size)), torch.cat([below, second], -1)], -2)
    return found.squeeze(1)


def _blocks(lower: torch.Tensor, step: int, skipped: int) -> torch.Tensor:
    """Every `step` rows, those behind the `skipped` first ones, in as many columns from the diagonal on.

    Returns:
        [batch, m / step, step - skipped, step - skipped], or with `skipped` at its half the block beside the diagonal.
    """
    width = int(lower.shape[-1])
    count, size = width // step, step - skipped
    rows = lower.reshape(-1, count, step, width).narrow(2, skipped, size).transpose(1, 2)
    skewed = F.pad(rows.flatten(2), (0, count * step))
    return skewed.reshape(-1, size, count, width + step).narrow(-1, 0, size).transpose(1, 2)
