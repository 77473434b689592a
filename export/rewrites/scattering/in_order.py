"""Write scattered maxima in order of the values, for engines that write one after another.

```
before:  y = aten.scatter_reduce.two(x, 0, index, src, "amax")                  # src: [3000]
after:   values, order = aten.topk.default(src, 3000, 0, False)
         y = maximum(x, aten.scatter.src(x, 0, index[order], values))           # the last at a place is its largest
```

ExecuTorch has no kernel for the former. Merely to compare each value with each place takes its others 19 ns a pair, and
to sort 100 ns a value (3,000 edges, 500 places, one thread of a Xeon). Softmax over the edges of a graph is made of
them. Where whole rows go to one place, they are ordered by their places instead, and the engine compares them:

```
before:  y = aten.scatter_reduce.two(x, 0, index[:, None].expand(5000, 64), src, "amax", include_self=False)
after:   order = aten.argsort(index); rows = src[order]; place = index[order]
         rows[1:] = maximum(rows[1:], minimum(rows[:-1], infinity where the places are equal, else -infinity))
         rows[2:] = the same with rows[:-2], then 4, 8, ...            # the last of each place is its largest now
         y = rows[last of each place], and x where there is none
```

Left alone: sizes that only a run knows.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import named_arguments
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rule, Rules, static, substitute
from edgex.export.rewrites.scattering.sums import of_rows

aten = torch.ops.aten

# Values from which to compare rows costs less than to sort all.
_FEWEST = 2048


def scatter_in_order(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every scattered maximum and minimum of fixed sizes; the same program comes back without one."""
    rules: Rules = {
        aten.scatter_reduce.two: Rule(_scatter_reduce, operands=_with_rows),
        aten.index_reduce.default: _index_reduce,
    }
    return substitute(program, "scatter_in_order", rules, "{count} scattered extreme(s) are written in order")


def _with_rows(node: Node) -> tuple[Any, ...]:
    """The arguments, and the places of whole rows where the index only repeats them."""
    given = named_arguments(node)
    index, dim = given["index"], given["dim"]
    rank = index.meta["val"].dim()
    source = index.args[0] if index.target in (aten.expand.default, aten.expand_as.default) else index
    sizes = source.meta["val"].shape
    of_rows = len(sizes) == rank > 0 and all(size == 1 for at, size in enumerate(sizes) if at != dim % rank)
    same = of_rows and sizes[dim % rank] == index.meta["val"].shape[dim % rank]
    return *given.values(), source if same else None


def _index_reduce(x: torch.Tensor, dim: int, index: torch.Tensor, src: torch.Tensor, *others: Any) -> Any:
    return of_rows(partial(_scatter_reduce, rows=index))(x, dim, index, src, *others)


def _scatter_reduce(
    x: torch.Tensor,
    dim: int,
    index: torch.Tensor,
    src: torch.Tensor,
    reduce: str,
    include_self: bool,
    rows: torch.Tensor | None,
) -> Any:
    if reduce not in ("amax", "amin") or not x.is_floating_point() or x.dim() == 0:
        return NotImplemented
    fits = static(*x.shape, *index.shape) and index.shape == src.shape and index.dim() == x.dim()
    if not fits or src.numel() == 0:
        return NotImplemented
    if reduce == "amin":  # NaN counts as the largest
        return -_of(-x, dim, index, -src, include_self, rows)
    return _of(x, dim, index, src, include_self, rows)


def _of(
    x: torch.Tensor, dim: int, index: torch.Tensor, src: torch.Tensor, include_self: bool, rows: torch.Tensor | None
) -> torch.Tensor:
    others = [x.shape[at] == src.shape[at] for at in range(x.dim()) if at != dim % x.dim()]
    known = rows is not None and all(others) and x.dtype == src.dtype == torch.float32
    if rows is None or not known or src.numel() < _FEWEST:
        return _largest(x, dim, index, src, include_self)
    flat = src.movedim(dim, 0).reshape(src.shape[dim], -1)
    start = x.movedim(dim, 0)
    found = _largest_rows(start.reshape(x.shape[dim], -1), rows.reshape(-1), flat, include_self)
    return found.reshape(start.shape).movedim(0, dim)


def _largest_rows(x: torch.Tensor, index: torch.Tensor, rows: torch.Tensor, include_self: bool) -> torch.Tensor:
    """`x` and `rows` are matrices, `index` has the place of each row."""
    count, places = rows.shape[0], x.shape[0]
    order = torch.topk(index.long() * count + torch.arange(count), count, largest=False)[1]
    place = index[order].unsqueeze(1)
    rows = rows[order]
    # 1 where another place begins, among the rows behind each up to `step`; half precision holds it, too.
    begins = torch.clamp(place.narrow(0, 1, count - 1) - place.narrow(0, 0, count - 1), max=1).to(torch.float32)
    step = 1
    while step < count:
        earlier = torch.minimum(rows.narrow(0, 0, count - step), _sign_of_infinity(0.5 - begins))
        later = torch.maximum(rows.narrow(0, step, count - step), earlier)
        rows = torch.cat([rows.narrow(0, 0, step), later])
        left = count - 2 * step
        if left > 0:
            begins = torch.maximum(begins.narrow(0, 0, left), begins.narrow(0, step, left))
        step *= 2
    sent = torch.zeros(places, dtype=torch.int64).scatter_add(0, index.long(), torch.ones(count, dtype=torch.int64))
    last = torch.clamp(sent.cumsum(0) - 1, min=0)
    there = _sign_of_infinity(torch.clamp(sent, max=1).to(torch.float32).unsqueeze(1) - 0.5)
    found = torch.minimum(rows[last], there)
    return torch.maximum(found, x if include_self else torch.minimum(x, -there))


def _sign_of_infinity(x: torch.Tensor) -> torch.Tensor:
    """Infinity of what is 0.5 and more, minus infinity of what is -0.5 and less."""
    return x * 2.0**127 * 4.0


def _largest(x: torch.Tensor, dim: int, index: torch.Tensor, src: torch.Tensor, include_self: bool) -> torch.Tensor:
    # Top-k sorts along the last dimension at once.
    last, places = src.movedim(dim, -1), index.movedim(dim, -1)
    values, order = last.topk(last.shape[-1], dim=-1, largest=False)
    sent = places.gather(-1, order).movedim(-1, dim)
    found = torch.scatter(x, dim, sent, values.movedim(-1, dim))
    return torch.maximum(x, found) if include_self else found
