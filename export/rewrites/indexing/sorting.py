"""Write sorting and what picks by rank as top-k, for engines that have top-k alone.

```
before:  values, indices = aten.sort.default(x, -1, True)               # x: [3, 8]
after:   values, indices = aten.topk.default(x, 8, -1, True)

before:  y, _ = aten.kthvalue.default(x, 2)
after:   y = aten.topk.default(x, 2, -1, False)[0][..., 1]

before:  y = aten.quantile.scalar(x, 0.3, -1)                            # between the places 2 and 3 of 8
after:   sorted = aten.topk.default(x, 8, -1, False)[0]
         y = sorted[..., 2] + (sorted[..., 3] - sorted[..., 2]) * 0.1   # and NaN where x has one

before:  y, _ = aten.mode.default(x)                                     # the smallest of the most frequent values
after:   counts = sum(x[..., None] == x[..., None, :], -1)
         y = amin(where(counts == amax(counts, -1, True), x, inf), -1)
```

The same for `argsort`, `msort`, `median` and `nanmedian`.
A stable sort has an order among equals, which top-k has not: its values are sorted this way, its indices are found by
counting, for each value, those that come before it; where that is too much, by sorting the places among equals.
Of integers the place is made part of the number:

```
before:  indices = aten.argsort.stable(x, stable=True)                   # x: int64[80000], ranks of voxels
after:   indices = aten.topk.default(x * 80000 + aten.arange(80000), 80000, -1, False)[1]
```
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch.fx import Node
from torch.nn import functional as F

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import named_arguments, operator_name
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.editor import constant_tensors
from edgex.export.rewrites.editing.substitution import Rule, Rules, static, substitute
from edgex.export.rewrites.indexing.searching import LARGEST_TABLE

aten = torch.ops.aten

# What a literal tensor goes through.
_SAME = frozenset(f"aten::{name}" for name in ("lift_fresh_copy", "detach", "detach_", "alias", "clone"))


def sort_by_topk(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every sort of a static size as top-k; the same program comes back without one."""
    constants = {node.name: tensor for node, tensor in constant_tensors(program).items()}

    def with_shares(node: Node) -> tuple[Any, ...]:
        """The arguments, with what the second one holds, if that is known."""
        x, shares, *rest = named_arguments(node).values()
        while shares.op == "call_function" and operator_name(shares) in _SAME:
            shares = shares.args[0]
        known = constants.get(shares.name)
        return x, None if known is None or hasattr(known, "fake_mode") else known.tolist(), *rest

    rules: Rules = {
        aten.sort.default: _sort,
        aten.sort.stable: _stable,
        aten.argsort.stable: lambda x, stable, dim, descending: _second(_stable(x, stable, dim, descending)),
        aten.argsort.default: lambda x, dim, descending: _second(_sort(x, dim, descending)),
        aten.msort.default: lambda x: _first(_sort(x, 0, False)),
        aten.kthvalue.default: _kth,
        aten.median.dim: _median,
        aten.median.default: _median_of_all,
        aten.nanmedian.dim: _nanmedian,
        aten.nanmedian.default: _nanmedian_of_all,
        aten.quantile.scalar: _quantile,
        aten.quantile.default: Rule(_quantiles, operands=with_shares),
        aten.mode.default: _mode,
    }
    return substitute(program, "sort_by_topk", rules, "{count} operator(s) ({operators}) became top-k")


def _sort(x: torch.Tensor, dim: int, descending: bool) -> Any:
    if x.dim() == 0 or not static(x.shape[dim]) or x.dtype == torch.bool:
        return NotImplemented
    return tuple(torch.topk(x, x.shape[dim], dim, largest=descending))


def _stable(x: torch.Tensor, stable: bool | None, dim: int, descending: bool) -> Any:
    found = _sort(x, dim, descending)
    if found is NotImplemented or not stable:
        return found
    if not x.is_floating_point():
        return _of_integers(x, dim, descending)
    if not static(*x.shape) or x.numel() * x.shape[dim] > LARGEST_TABLE:
        return found[0], _in_order_of_places(found[0], found[1], dim)
    return found[0], _order(x.transpose(dim, -1), descending).transpose(dim, -1)


def _of_integers(x: torch.Tensor, dim: int, descending: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Numbers beyond 2**63 / n, for n of them, would not be in order; indices and counts are far from there."""
    count = x.shape[dim]
    places = torch.arange(count)
    places = (count - 1 - places if descending else places).view([count] + [1] * (x.dim() - 1 - dim % x.dim()))
    indices = torch.topk(x.to(torch.int64) * count + places, count, dim, largest=descending)[1]
    return torch.gather(x, dim, indices), indices


def _in_order_of_places(values: torch.Tensor, indices: torch.Tensor, dim: int) -> torch.Tensor:
    """Of equal values the first place first: what is equal stands together already, and is sorted by its place."""
    count = values.shape[dim]
    if count < 2:
        return indices
    later, earlier = values.narrow(dim, 1, count - 1), values.narrow(dim, 0, count - 1)
    differs = torch.logical_not((later == earlier) | (torch.isnan(later) & torch.isnan(earlier)))
    group = F.pad(differs.to(torch.int64).transpose(dim, -1), [1, 0]).cumsum(-1).transpose(dim, -1)
    return torch.gather(indices, dim, torch.topk(group * count + indices, count, dim, largest=False)[1])


def _order(rows: torch.Tensor, descending: bool) -> torch.Tensor:
    """Which places of each row come first, second and so on: of equal values the first place first, NaN the largest."""
    count = rows.shape[-1]
    other, own = rows.unsqueeze(-2), rows.unsqueeze(-1)
    before, equal = (other > own) if descending else (other < own), other == own
    if rows.is_floating_point():
        unknown, unknown_own = torch.isnan(other), torch.isnan(own)
        first, last = (unknown, unknown_own) if descending else (unknown_own, unknown)
        before = before | (first & torch.logical_not(last))
        equal = equal | (unknown & unknown_own)
    places = torch.arange(count)
    earlier = places.unsqueeze(0) < places.unsqueeze(1)
    rank = (before | (equal & earlier)).to(torch.float32).sum(-1, keepdim=True).transpose(-1, -2)
    found = (rank == places.unsqueeze(1).to(torch.float32)).to(torch.float32) * places.to(torch.float32)
    return found.sum(-1).to(torch.int64)


def _first(found: Any) -> Any:
    return found if found is NotImplemented else found[0]


def _second(found: Any) -> Any:
    return found if found is NotImplemented else found[1]


def _kth(x: torch.Tensor, k: int, dim: int, keepdim: bool) -> Any:
    if x.dim() == 0 or not static(x.shape[dim], k):
        return NotImplemented
    values, indices = torch.topk(x, k, dim, largest=False)
    found = values.narrow(dim, k - 1, 1), indices.narrow(dim, k - 1, 1)
    return found if keepdim else tuple(part.squeeze(dim) for part in found)


def _median(x: torch.Tensor, dim: int, keepdim: bool) -> Any:
    """The lower of the two in the middle, or NaN where there is one: top-k has NaN behind all numbers."""
    if x.dim() == 0 or not static(x.shape[dim]):
        return NotImplemented
    found = _kth(x, (x.shape[dim] - 1) // 2 + 1, dim, keepdim)
    if not x.is_floating_point():
        return found
    unknown = torch.isnan(x).any(dim, keepdim)
    # Where the first NaN stands is not followed up: such indices are left to the operator itself.
    return torch.where(unknown, torch.full_like(found[0], float("nan")), found[0]), None


def _nanmedian(x: torch.Tensor, dim: int, keepdim: bool) -> Any:
    """The median of what is a number; infinity stands behind all of them in the place of NaN."""
    if x.dim() == 0 or not static(x.shape[dim]) or not x.is_floating_point():
        return NotImplemented
    unknown = torch.isnan(x)
    values = torch.topk(torch.where(unknown, torch.full_like(x, float("inf")), x), x.shape[dim], dim, largest=False)[0]
    known = torch.logical_not(unknown).sum(dim, keepdim=True)
    place = torch.div(torch.clamp(known - 1, min=0), 2, rounding_mode="trunc")
    found = torch.gather(values, dim, place)
    found = torch.where(known == 0, torch.full_like(found, float("nan")), found)
    return found if keepdim else found.squeeze(dim), None


def _nanmedian_of_all(x: torch.Tensor) -> Any:
    if not static(*x.shape):
        return NotImplemented
    found = _nanmedian(x.reshape(-1), 0, False)
    return found if found is NotImplemented else found[0]


def _quantile(x: torch.Tensor, q: float, dim: int | None, keepdim: bool, interpolation: str) -> Any:
    """As PyTorch does it: the rank is a number of the values' dtype."""
    if interpolation not in ("linear", "lower", "higher", "nearest") or not static(*x.shape) or x.numel() == 0:
        return NotImplemented
    if dim is None:
        found = _quantile(x.reshape(-1), q, 0, False, interpolation)
        return found.reshape([1] * x.dim()) if keepdim else found
    if x.dim() == 0:
        return NotImplemented
    values = torch.topk(x, x.shape[dim], dim, largest=False)[0]
    rank = _rank(q, x.shape[dim], x.dtype)
    below = {"higher": math.ceil(rank), "nearest": round(rank)}.get(interpolation, math.floor(rank))
    found = values.narrow(dim, below, 1)
    share = rank - below
    if interpolation == "linear" and share:
        above = values.narrow(dim, below + 1, 1)
        found = found + (above - found) * share if share < 0.5 else above - (above - found) * (1 - share)
    found = torch.where(torch.isnan(x).any(dim, True), torch.full_like(found, float("nan")), found)
    return found if keepdim else found.squeeze(dim)


def _quantiles(x: torch.Tensor, shares: Any, dim: int | None, keepdim: bool, interpolation: str) -> Any:
    """Several stand in a dimension of their own, in front."""
    if shares is None or x.dtype != torch.float32:
        return NotImplemented
    if isinstance(shares, float):
        return _quantile(x, shares, dim, keepdim, interpolation)
    found = [_quantile(x, share, dim, keepdim, interpolation) for share in shares]
    if not found or any(one is NotImplemented for one in found):
        return NotImplemented
    return torch.stack(found)


def _rank(q: float, size: int, dtype: torch.dtype) -> float:
    numbers = np.float64 if dtype == torch.float64 else np.float32
    return float(numbers(q) * numbers(size - 1))


def _median_of_all(x: torch.Tensor) -> Any:
    if not static(*x.shape):
        return NotImplemented
    found = _median(x.reshape(-1), 0, False)
    return found if found is NotImplemented else found[0]


def _mode(x: torch.Tensor, dim: int, keepdim: bool) -> Any:
    if x.dim() == 0 or not x.is_floating_point() or not static(*x.shape) or x.numel() * x.shape[dim] > LARGEST_TABLE:
        return NotImplemented
    rows = x.transpose(dim, -1)
    counts = (rows.unsqueeze(-1) == rows.unsqueeze(-2)).to(x.dtype).sum(-1)
    is_frequent = counts == counts.amax(-1, keepdim=True)
    found = torch.where(is_frequent, rows, torch.full_like(rows, math.inf)).amin(-1, keepdim=True).transpose(dim, -1)
    return found if keepdim else found.squeeze(dim), None
