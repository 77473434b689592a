"""Resize large images as sums of rows, where an engine has no operator for it and a product would be of zeros mostly.

```
before:  y = aten.upsample_bicubic2d.vec(x, [1024, 64], True, None)         # x: [1, 1, 1001, 64]
after:   y = index_select(x, 2, rows_0) * weights_0 + ... + index_select(x, 2, rows_3) * weights_3
```

A row of the result is one, two or four of the image's, each with its weight; of columns the same between two
transpositions. Lowering otherwise gathers sixteen copies of the image number by number: 5.8 ms where that took 649, two
images of 65,536 and 1,050,000 numbers on XNNPACK (one thread of a Zen processor without AVX-512). Smaller images are
products with matrices (`write_resizes`). Left alone: sizes that only a run knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import named_arguments
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rule, Rules, static, substitute

aten = torch.ops.aten

# How many rows one of the result is made of.
_TAPS: dict[Any, int] = {
    aten.upsample_bicubic2d.vec: 4,
    aten.upsample_linear1d.vec: 2,
    aten.upsample_trilinear3d.vec: 2,
    aten.upsample_nearest3d.vec: 1,
    aten._upsample_nearest_exact1d.vec: 1,
    aten._upsample_nearest_exact2d.vec: 1,
    aten._upsample_nearest_exact3d.vec: 1,
}
# Numbers of the matrix that the weights are read off: 64 MiB.
_MOST = 1 << 24

# Of each row of the result: the image's rows and their weights, tap by tap.
Rows = tuple[tuple[tuple[int, ...], tuple[float, ...]], ...]


def resize_by_rows(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such resize; the same program comes back without one."""
    rules: Rules = {target: Rule(_sum_rows, where=_is_known, operands=_rows_of) for target in _TAPS}
    detail = "{count} resize(s) became sums of rows"
    return substitute(program, "resize_by_rows", rules, detail, keeps_float=True)


def _is_known(node: Node) -> bool:
    x, y = node.args[0].meta["val"], node.meta["val"]  # type: ignore[union-attr]
    fits = x.dtype == torch.float32 and static(*x.shape, *y.shape)
    return fits and max(old * new for old, new in zip(x.shape[2:], y.shape[2:], strict=True)) <= _MOST


def _rows_of(node: Node) -> tuple[Any, ...]:
    """The image, and for each direction its rows; None where it keeps its size."""
    given = named_arguments(node)
    x, y = given["input"], node.meta["val"]
    sizes = zip(x.meta["val"].shape[2:], y.shape[2:], strict=True)
    return x, tuple(_rows_along(node, at, old, new) for at, (old, new) in enumerate(sizes))


def _rows_along(node: Node, at: int, old: int, new: int) -> Rows | None:
    """What PyTorch itself makes of images whose only row has a 1 in one place: the weights of that place."""
    given = named_arguments(node)
    scales = given["scale_factors"]
    if old == new and (scales is None or scales[at] == 1):
        return None
    ones = [1] * (node.meta["val"].dim() - 3)
    to = None if given["output_size"] is None else [*ones, new]
    by = None if scales is None else [*(float(one) for one in ones), scales[at]]
    corners = [given["align_corners"]] if "align_corners" in given else []
    matrix = node.target(torch.eye(old).view(1, old, *ones, old), to, *corners, by)  # type: ignore[operator]
    weights, places = _largest(matrix.view(old, new), _TAPS[node.target])
    return tuple((tuple(place.tolist()), tuple(weight.tolist())) for place, weight in zip(places, weights, strict=True))


def _largest(matrix: torch.Tensor, taps: int) -> tuple[torch.Tensor, torch.Tensor]:
    taps = min(taps, matrix.shape[0])
    places = matrix.abs().topk(taps, 0).indices.sort(0).values
    return matrix.gather(0, places), places


def _sum_rows(x: torch.Tensor, directions: Sequence[Rows | None]) -> torch.Tensor:
    y = x
    # Columns first, as `write_resizes`: rows are then computed of as many as the result has.
    for at in reversed(range(len(directions))):
        rows = directions[at]
        if rows is not None:
            y = _sum_along(y, at + 2, rows)
    return y


def _sum_along(x: torch.Tensor, dim: int, rows: Rows) -> torch.Tensor:
    if dim == x.dim() - 1:
        return _sum_along(x.transpose(-2, -1), dim - 1, rows).transpose(-2, -1)
    behind = [1] * (x.dim() - dim - 1)
    parts = []
    for places, weights in rows:
        chosen = x.index_select(dim, torch.tensor(places))
        whole = all(weight == 1 for weight in weights)
        parts.append(chosen if whole else chosen * torch.tensor(weights).view(-1, *behind))
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total
