"""Add rows to places that are known here as sums of rows side by side: the edges of a mesh, of a skeleton, of a grid.

```
before:  y = aten.index_add.default(zeros(4, 64), 0, [0, 2, 0, 2, 3, 0], values)     # values: [6, 64]
after:   more = aten.cat.default([values, zeros(1, 64)])                             # row 6 is zero
         a, b = aten.index_select.default(more, 0, [1, 4, 3, 6]).split(2)            # two places of one or two rows
         ...
         y = x + aten.index_select.default(aten.cat.default([...]), 0, order)
```

Places with as many rows, to the next power of two, are added together: the first row of each, the second of each, and
so on, in pairs of pairs. 6,100 rows of 64 to 900 places, twice, with two linear layers: 18.4 -> 0.9 ms on XNNPACK,
whose program has ExecuTorch's kernel otherwise, and 9.0 -> 1.0 with ONNX Runtime (one thread of a Zen processor
without AVX-512). Left alone: places that only a run knows, outside ones, few numbers, and places with very many rows
each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import named_arguments
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rule, Rules, static, substitute
from edgex.export.rewrites.folding.constants import find_values

aten = torch.ops.aten

# Elements that are added for one operator that is written, at least.
_LEAST = 1024
# Rows that are added to one place, at most.
_MOST = 64


def add_known_rows(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such sum; the same program comes back without one."""
    sums = [node for node in program.exported.graph.nodes if node.target in _SUMS]
    if not sums:
        return program, None
    asked = [place for node in sums if isinstance(place := _places_of(node), Node)]
    values = find_values(program, asked)
    known = {node.name: tensor for node, tensor in values.items() if not hasattr(tensor, "fake_mode")}
    rules: Rules = {target: Rule(_add, operands=lambda node: _operands(node, known)) for target in _SUMS}
    return substitute(program, "add_known_rows", rules, "{count} sum(s) of rows to known places are added row by row")


_SUMS = frozenset((aten.index_add.default, aten.scatter_add.default))


def _places_of(node: Node) -> Any:
    """What names the rows: of scattered elements what they repeat, where that is one number for each whole row."""
    given = named_arguments(node)
    index = given["index"]
    if node.target is aten.index_add.default or not isinstance(index, Node):
        return index
    if index.target is not aten.expand.default or index.meta["val"].shape != given["src"].meta["val"].shape:
        return None
    places: Any = index.args[0]
    rank, own = index.meta["val"].dim(), places.meta["val"].shape
    along = given["dim"] % rank - (rank - len(own))
    return places if all(size == 1 for at, size in enumerate(own) if at != along) else None


def _operands(node: Node, known: Mapping[str, torch.Tensor]) -> tuple[Any, ...]:
    given = named_arguments(node)
    places = _places_of(node)
    tensor = known.get(places.name) if isinstance(places, Node) else None
    numbers = None if tensor is None else tuple(int(number) for number in tensor.reshape(-1).tolist())
    rows = given["source"] if node.target is aten.index_add.default else given["src"]
    return given["self"], given["dim"], numbers, rows, given.get("alpha", 1)


def _add(x: torch.Tensor, dim: int, numbers: tuple[int, ...] | None, values: torch.Tensor, alpha: float) -> Any:
    if numbers is None or x.dtype != torch.float32 or alpha != 1 or x.dim() == 0 or not static(*x.shape, *values.shape):
        return NotImplemented
    dim %= x.dim()
    count = x.shape[dim]
    others = [size for at, size in enumerate(x.shape) if at != dim]
    if values.dim() != x.dim() or [size for at, size in enumerate(values.shape) if at != dim] != others:
        return NotImplemented
    if len(numbers) != values.shape[dim] or min(numbers, default=-1) < 0 or max(numbers, default=count) >= count:
        return NotImplemented
    rows: list[list[int]] = [[] for _ in range(count)]
    for at, number in enumerate(numbers):
        rows[number].append(at)
    # Places by the power of two that holds their rows.
    groups: dict[int, list[int]] = {}
    for place, found in enumerate(rows):
        if found:
            groups.setdefault(1 << (len(found) - 1).bit_length(), []).append(place)
    if max(groups) > _MOST or sum(groups) * _LEAST > values.numel():
        return NotImplemented
    zero = values.new_zeros([1 if at == dim else size for at, size in enumerate(values.shape)])
    more = torch.cat([values, zero], dim)
    sums = [_sum_side_by_side(more, dim, [rows[place] for place in groups[size]], len(numbers)) for size in groups]
    placed = [place for size in groups for place in groups[size]]
    where = {place: at for at, place in enumerate(placed)}
    order = [where.get(place, len(placed)) for place in range(count)]
    if len(placed) < count:
        sums.append(zero)
    joined = torch.cat(sums, dim) if len(sums) > 1 else sums[0]
    return x + (joined if order == [*range(count)] else torch.index_select(joined, dim, torch.tensor(order)))


def _sum_side_by_side(more: torch.Tensor, dim: int, rows: list[list[int]], zero: int) -> torch.Tensor:
    """The sums of as many lists of rows: the first of each, and the second of each, and so on."""
    longest = max(map(len, rows))
    order = [found[at] if at < len(found) else zero for at in range(longest) for found in rows]
    parts: tuple[torch.Tensor, ...] = torch.split(torch.index_select(more, dim, torch.tensor(order)), len(rows), dim)
    while len(parts) > 1:
        # In pairs of pairs, as eager adds what is long.
        pairs = [first + second for first, second in zip(parts[::2], parts[1::2], strict=False)]
        parts = (*pairs, *parts[2 * len(pairs) :])
    return parts[0]
