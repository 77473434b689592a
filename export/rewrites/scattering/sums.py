"""Write scattered sums and means with `scatter_add`, bags of embeddings with a product, and histograms as counts.

```
before:  y = aten.scatter_reduce.two(x, 0, index, src, "mean")
after:   total = aten.scatter_add.default(x, 0, index, src)
         count = aten.scatter_add.default(ones_like(x), 0, index, ones_like(src))
         y = total / count

before:  y, *_ = aten.embedding_bag.padding_idx(table, ids, starts)           # sums
after:   rows = aten.embedding.default(table, ids)
         member = clamp(place - starts[:, None] + 1, 0, 1) * clamp(ends[:, None] - place, 0, 1)     # [bags, ids]
         y = member @ rows

before:  y = aten.scatter_reduce.two(x, 0, index, src, "amax")
after:   y = maximum(x, amax(where(index == arange(places)[:, None], src, -inf), 1))    # up to 4 million of them

before:  y = aten.index_reduce.default(x, 0, index, src, "mean")              # src: [3, 8]
after:   y = what is made of scatter_reduce(x, 0, index.reshape(3, 1).expand(3, 8), src, "mean")

before:  y = aten.bincount.default(index, None, 4)                            # a program that has 4 places for it
after:   y = aten.scatter_add.default(zeros(4, int64), 0, index, ones_like(index))

before:  y = aten.histc.default(x, 4, 0, 3)
after:   y = sum((floor((x - 0) * 4 / 3) == arange(4)[:, None]) & (x >= 0), 1).float()     # 3 counts in the last bin
```

ONNX Runtime on a CPU has scattered extremes: 3,000 values for 1,000 places take 0.04 ms there, as a table 17.7.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node
from torch.nn import functional as F

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import named_arguments
from edgex.delegates.graph.values import largest_size
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rule, Rules, Write, static, substitute

aten = torch.ops.aten

_SUM, _MEAN, _MAX = 0, 1, 2
_EXTREMES = ("amax", "amin")

# Places times values of the largest table that stands for a scattered maximum.
LARGEST_TABLE = 1 << 22

# Whole numbers up to it are float32.
LARGEST_EXACT = 1 << 24


def scatter_by_sums(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such operator with sums; the same program comes back without one."""
    rules: Rules = {
        aten.scatter_reduce.two: _scatter_reduce,
        aten.index_reduce.default: of_rows(_scatter_rows),
        aten.embedding_bag.default: Rule(_embedding_bag, operands=_with_bag_size),
        aten.embedding_bag.padding_idx: Rule(_embedding_bag, operands=_with_bag_size),
        aten.histc.default: _histogram,
        aten.bincount.default: Rule(_count, operands=_with_places),
    }
    return substitute(program, "scatter_by_sums", rules, "{count} operator(s) ({operators}) became sums")


def scatter_extremes(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write scattered extremes of a bounded number of values with tables; the same program comes back without one."""
    rules: Rules = {aten.scatter_reduce.two: _scatter_extremes}
    return substitute(program, "scatter_extremes", rules, "{count} operator(s) ({operators}) look at all values")


def _scatter_extremes(
    x: torch.Tensor, dim: int, index: torch.Tensor, src: torch.Tensor, reduce: str, include_self: bool
) -> Any:
    if not x.is_floating_point() or x.dim() == 0 or reduce not in _EXTREMES:
        return NotImplemented
    return _extremes(x, dim, index, src, reduce == "amax", include_self)


def _scatter_reduce(
    x: torch.Tensor, dim: int, index: torch.Tensor, src: torch.Tensor, reduce: str, include_self: bool
) -> Any:
    if not x.is_floating_point() or x.dim() == 0 or reduce not in ("sum", "mean"):
        return NotImplemented
    start = x if include_self else torch.scatter(x, dim, index, 0.0)
    total = torch.scatter_add(start, dim, index, src)
    if reduce == "sum":
        return total
    first = torch.ones_like(x) if include_self else torch.scatter(torch.ones_like(x), dim, index, 0.0)
    return total / torch.scatter_add(first, dim, index, torch.ones_like(src))


def _scatter_rows(
    x: torch.Tensor, dim: int, index: torch.Tensor, src: torch.Tensor, reduce: str, include_self: bool
) -> Any:
    if reduce in _EXTREMES:
        return torch.scatter_reduce(x, dim, index, src, reduce, include_self=include_self)
    return _scatter_reduce(x, dim, index, src, reduce, include_self)


def of_rows(scatter_reduce: Write) -> Write:
    """The rule for `index_reduce`, with one place for a whole row of `src`, from the rule for `scatter_reduce`."""

    def write(
        x: torch.Tensor, dim: int, index: torch.Tensor, src: torch.Tensor, reduce: str, include_self: bool
    ) -> Any:
        if x.dim() == 0 or not static(*src.shape):
            return NotImplemented
        sizes = [-1 if at == dim % x.dim() else 1 for at in range(x.dim())]
        return scatter_reduce(x, dim, index.long().reshape(sizes).expand_as(src), src, reduce, include_self)

    return write


def _extremes(x: torch.Tensor, dim: int, index: torch.Tensor, src: torch.Tensor, most: bool, include_self: bool) -> Any:
    """Each place looks at all values, and takes those that are sent to it."""
    if not static(*x.shape) or _sizes_of(index) != _sizes_of(src):
        return NotImplemented
    x, index, src = x.movedim(dim, 0), index.movedim(dim, 0), src.movedim(dim, 0)
    count = _most_of_one_or_more(index.shape[0])
    if _sizes_of(x)[1:] != _sizes_of(index)[1:] or count is None or x.numel() * count > LARGEST_TABLE:
        return NotImplemented
    place = torch.arange(x.shape[0], device=x.device).reshape(-1, *([1] * index.dim()))
    sent = index.unsqueeze(0) == place
    none = torch.full((), float("-inf") if most else float("inf"), dtype=x.dtype, device=x.device)
    values = torch.where(sent, src.unsqueeze(0), none)
    found = values.amax(1) if most else values.amin(1)
    if include_self:
        found = torch.maximum(x, found) if most else torch.minimum(x, found)
    return torch.where(sent.sum(1) > 0, found, x).movedim(0, dim)


def _sizes_of(tensor: torch.Tensor) -> list[Any]:
    """Its sizes to compare: a dynamic one as the expression that it is, of which nothing is asked."""
    return [size if isinstance(size, int) else size.node.expr for size in tensor.shape]


def _most_of_one_or_more(size: Any) -> int | None:
    """What a size is at most, where that is known, and that it is never 0: an extreme of nothing is none."""
    if isinstance(size, int):
        return size or None
    least = size.node.shape_env.bound_sympy(size.node.expr).lower
    return largest_size(size) if least >= 1 else None


def _with_bag_size(node: Node) -> tuple[Any, ...]:
    """The arguments, and the number of ids of each bag where all have as many: `F.embedding_bag` of a matrix."""
    given = named_arguments(node)
    given.setdefault("padding_idx", None)
    starts, each = given["offsets"], None
    if starts.target is aten.arange.start_step and not given["include_last_offset"]:
        first, end, each = (named_arguments(starts)[name] for name in ("start", "end", "step"))
        count = given["indices"].meta["val"].shape[0]
        each = each if static(first, end, each, count) and first == 0 and end == count and count % each == 0 else None
    return (*given.values(), each)


def _embedding_bag(
    weight: torch.Tensor,
    indices: torch.Tensor,
    offsets: torch.Tensor,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: torch.Tensor | None,
    include_last_offset: bool,
    padding_idx: int | None,
    each: int | None,
) -> Any:
    del scale_grad_by_freq, sparse
    if (
        mode not in (_SUM, _MEAN, _MAX)
        or not static(weight.shape[0], indices.shape[0], offsets.shape[0])
        or indices.shape[0] == 0
    ):
        return NotImplemented
    rows = F.embedding(indices, weight)
    rows = rows if per_sample_weights is None else rows * per_sample_weights.unsqueeze(-1)
    counted = None if padding_idx is None else indices != padding_idx % weight.shape[0]
    if each is not None:
        return _bags_of_one_size(rows.reshape(-1, each, rows.shape[-1]), counted, mode), None, None, None
    count = indices.shape[0]
    if count >= LARGEST_EXACT or mode == _MAX:
        return NotImplemented
    # In floating point, where engines compute: of whole numbers, what is above one is at least 1 above it.
    bounds = offsets.to(torch.float32)
    if include_last_offset:
        starts, ends = bounds[:-1], bounds[1:]
    else:
        starts, ends = bounds, torch.cat([bounds[1:], torch.full((1,), float(count), device=offsets.device)])
    place = torch.arange(count, device=offsets.device, dtype=torch.float32)
    begun = (place - (starts.unsqueeze(-1) - 1)).clamp(0, 1)
    member = (begun * (ends.unsqueeze(-1) - place).clamp(0, 1)).to(rows.dtype)
    member = member if counted is None else member * counted.to(rows.dtype)
    total = torch.matmul(member, rows)
    if mode == _MEAN:
        total = total / member.sum(-1, keepdim=True).clamp_min(1.0)
    return total, None, None, None


def _bags_of_one_size(rows: torch.Tensor, counted: torch.Tensor | None, mode: int) -> torch.Tensor:
    """What is made of each bag, `[bags, ids, width]`; `counted`: the ids that are no padding."""
    if counted is None:
        return rows.amax(1) if mode == _MAX else rows.sum(1) if mode == _SUM else rows.mean(1)
    counted = counted.reshape(*rows.shape[:2], 1)
    number = counted.to(rows.dtype).sum(1)
    if mode == _MAX:
        found = rows.masked_fill(~counted, float("-inf")).amax(1)
        return torch.where(number > 0, found, torch.zeros((), dtype=rows.dtype))
    total = (rows * counted.to(rows.dtype)).sum(1)
    return total if mode == _SUM else total / number.clamp_min(1.0)


def _with_places(node: Node) -> tuple[Any, ...]:
    """What is counted, its weights, and how many places the program takes for granted."""
    given, places = named_arguments(node), node.meta["val"].shape[0]
    size = places if isinstance(places, int) else places.node.expr
    return given["self"], given["weights"], int(size) if isinstance(size, int) or size.is_Integer else None


def _count(index: torch.Tensor, weights: torch.Tensor | None, places: Any) -> Any:
    if not isinstance(places, int) or not static(*index.shape):
        return NotImplemented
    counted = torch.ones(index.shape, dtype=torch.int64) if weights is None else weights
    if counted.dtype not in (torch.int64, torch.float32):
        return NotImplemented
    return torch.zeros(places, dtype=counted.dtype).scatter_add(0, index.long(), counted)


def _histogram(x: torch.Tensor, bins: int, least: float, most: float) -> Any:
    if least >= most or not static(*x.shape):  # equal ones stand for the smallest and the largest value
        return NotImplemented
    flat = x.reshape(1, -1)
    place = torch.floor((flat - least) * bins / (most - least)).clamp(max=bins - 1)
    inside = (flat >= least) & (flat <= most)
    number = torch.arange(bins, dtype=x.dtype, device=x.device).unsqueeze(1)
    return ((place == number) & inside).sum(1).to(x.dtype)
