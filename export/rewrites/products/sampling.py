"""Write linear sampling as rows of a table for each place, four or of a volume eight, and products with their weights.

```
before:  y = aten.grid_sampler.default(x, grid, 0, 0, False)            # x: [8, 32, 40, 40], grid: [8, 300, 4, 2]
after:   table = x.permute(0, 2, 3, 1).reshape(12800, 32)
         rows = aten.index_select.default(table, 0, places)             # [38400, 32], of the corners around each place
         y = the sum over corners of rows * weights                     # then back to [8, 32, 300, 4]
```

ExecuTorch's kernel computes the place and the weights anew for every channel. Places are computed as floating-point
numbers, in XNNPACK, and are whole and exact up to 2 ** 24. Corners outside of the image have the weight zero. For
volumes (tables of colours, bilateral grids, VoxelMorph) it has no kernel. Left alone: images of few channels, for which
it is slower (RAFT's correlations have one), sampling of the nearest element, bicubic, with reflections, and sizes that
only a run knows.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rules, static, substitute

aten = torch.ops.aten

# Whole numbers that float32 has without gaps.
_MOST_PLACES = 2**24
_FEWEST_CHANNELS = 8
_LINEAR, _ZEROS, _BORDER = 0, 0, 1


def gather_samples(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such sampling; the same program comes back without one."""
    names = ("grid_sampler", "grid_sampler_2d", "grid_sampler_3d")
    rules: Rules = {getattr(aten, name).default: _sampled for name in names}
    return substitute(program, "gather_samples", rules, "{count} sampling(s) of places became rows of a table")


def _sampled(x: torch.Tensor, grid: torch.Tensor, mode: int, padding: int, corners: bool) -> Any:
    fits = x.dim() in (4, 5) and x.dtype == grid.dtype == torch.float32 and static(*x.shape, *grid.shape)
    if not fits or mode != _LINEAR or padding not in (_ZEROS, _BORDER):
        return NotImplemented
    (count, channels), sizes = x.shape[:2], x.shape[2:]
    elements, places = math.prod(sizes), math.prod(grid.shape[1:-1])
    if (channels < _FEWEST_CHANNELS and len(sizes) == 2) or count * elements > _MOST_PLACES:
        return NotImplemented
    flat = grid.reshape(count, places, len(sizes))
    # The last coordinate is that of the outermost dimension.
    corners_of = [
        _neighbours(flat[:, :, at : at + 1], size, corners, padding == _BORDER)
        for at, size in zip(range(len(sizes) - 1, -1, -1), sizes, strict=True)
    ]
    first = torch.arange(count, dtype=torch.float32).view(count, 1, 1) * elements
    numbers, weights = [], []
    for (number, weight), *inner in itertools.product(*corners_of):
        for (behind, by), size in zip(inner, sizes[1:], strict=True):
            number, weight = number * float(size) + behind, weight * by
        numbers.append(number + first if count > 1 else number)
        weights.append(weight)
    table = x.movedim(1, -1).reshape(count * elements, channels)
    # As integers they are bounded once more: NaN passes the bounds of floating-point numbers, and becomes a far place.
    numbered = torch.cat(numbers).view(-1).to(torch.int64).clamp(0, count * elements - 1)
    # Corner by corner: of all corners at once each sum would copy its halves.
    found = [
        torch.index_select(table, 0, places_of) * weight.view(-1, 1)
        for places_of, weight in zip(torch.split(numbered, count * places), weights, strict=True)
    ]
    while len(found) > 1:
        found = [one + other for one, other in zip(found[::2], found[1::2], strict=True)]
    (y,) = found
    return y.view(count, *grid.shape[1:-1], channels).movedim(-1, 1)


def _neighbours(
    place: torch.Tensor, size: int, corners: bool, border: bool
) -> tuple[tuple[torch.Tensor, torch.Tensor], ...]:
    """The elements before and behind a place between -1 and 1, as whole numbers in the image, and their weights."""
    at = (place + 1.0) * ((size - 1) / 2) if corners else (place + 1.0) * (size / 2) - 0.5
    at = torch.clamp(at, 0.0, float(size - 1)) if border else at
    before = torch.floor(at)
    behind, part = before + 1.0, at - before
    return (_inside(before, size), (1.0 - part) * _is_inside(before, size)), (
        _inside(behind, size), part * _is_inside(behind, size)
    )  # fmt: skip


def _inside(number: torch.Tensor, size: int) -> torch.Tensor:
    return torch.clamp(number, 0.0, float(size - 1))


def _is_inside(number: torch.Tensor, size: int) -> torch.Tensor:
    """1 for whole numbers from 0 to below the size, 0 for others."""
    return torch.clamp(number + 1.0, 0.0, 1.0) * torch.clamp(float(size) - number, 0.0, 1.0)
