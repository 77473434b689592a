"""Rank a few numbers by comparing two at a time, for many rows at once: minima and maxima, which engines have.

```
before:  windows = aten.unfold.default(x, -1, 3, 1)                     # x: [129, 402], windows: [129, 400, 3]
         y = aten.topk.default(windows, 3, -1, False)[0][..., 1]        # the median of each
after:   a, b, c = x[:, 0:400], x[:, 1:401], x[:, 2:402]
         low, high = minimum(b, c), maximum(b, c)
         y = maximum(low, minimum(a, high))
```

The comparisons are those of Batcher's merge exchange (Knuth, The Art of Computer Programming 5.2.2, algorithm M), which
do not depend on the numbers; those that no wanted rank depends on are left out. ExecuTorch sorts
windows of 17 in 24 ns a number (one thread of AVX2).
Left alone: more than 32 numbers, few rows, where the places are asked for too, other types than float32, and sizes that
only a run knows. A NaN is not ranked behind the others: what becomes of it, the proof of an artifact tells.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import named_arguments
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rule, Rules, static, substitute

aten = torch.ops.aten

_MOST = 32
# How ranks are given: as top-k gives them, as a slice, or without their dimension.
_ALL, _SOME, _ONE = "all", "some", "one"
# Rows from which an operator on all of them costs less than their sorting does.
_ROWS = 256


def rank_by_comparisons(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such ranking; the same program comes back without one."""
    rules: Rules = {
        aten.topk.default: Rule(_ranked, where=_gives_many, operands=_of_all),
        aten.select.int: Rule(_ranked, where=_is_of_ranks, operands=_of_one),
        aten.slice.Tensor: Rule(_ranked, where=_is_of_ranks, operands=_of_some),
        aten.narrow.default: Rule(_ranked, where=_is_of_ranks, operands=_of_some),
    }
    detail = "{count} ranking(s) of a few numbers became minima and maxima"
    return substitute(program, "rank_by_comparisons", rules, detail, keeps_float=True)


def _gives_many(ranking: Node) -> bool:
    """Whether its values are read, and not only pieces of them, and its places are not."""
    read = [user for user in ranking.users if user.users]
    readers = [reader for user in read for reader in user.users]
    return all(user.args[1] == 0 for user in read) and not all(_is_piece(reader, ranking) for reader in readers)


def _is_of_ranks(node: Node) -> bool:
    """Whether it is some of the ranks that a top-k gives, of which only such pieces are read."""
    ranking = _ranking_of(node)
    if ranking is None or not all(user.args[1] == 0 for user in ranking.users if user.users):
        return False
    return all(_is_piece(reader, ranking) for user in ranking.users for reader in user.users)


def _is_piece(node: Node, ranking: Node) -> bool:
    """Whether it is a piece of a top-k's values along the dimension of the ranks."""
    if _ranking_of(node) is not ranking:
        return False
    return bool(named_arguments(node)["dim"] % node.args[0].meta["val"].dim() == _dim_of(ranking))  # type: ignore[union-attr]


def _ranking_of(piece: Node) -> Node | None:
    """The top-k of whose values it is a piece."""
    pieces = (aten.select.int, aten.slice.Tensor, aten.narrow.default)
    values = piece.args[0] if piece.target in pieces else None
    if not isinstance(values, Node) or values.target is not operator.getitem or values.args[1] != 0:
        return None
    ranking = values.args[0]
    return ranking if isinstance(ranking, Node) and ranking.target is aten.topk.default else None


def _dim_of(ranking: Node) -> int:
    given = named_arguments(ranking)
    return int(given["dim"] % max(given["self"].meta["val"].dim(), 1))


def _of_all(ranking: Node) -> tuple[Any, ...]:
    return *_operands(ranking), range(named_arguments(ranking)["k"]), _ALL


def _of_some(piece: Node) -> tuple[Any, ...]:
    given, ranking = named_arguments(piece), _ranking_of(piece)
    assert ranking is not None
    start, end = given["start"], given["end"] if "end" in given else given["start"] + given["length"]
    ranks = range(named_arguments(ranking)["k"])[slice(start, end, given.get("step"))]
    return *_operands(ranking), ranks, _SOME


def _of_one(piece: Node) -> tuple[Any, ...]:
    ranking = _ranking_of(piece)
    assert ranking is not None
    count = named_arguments(ranking)["k"]
    place = named_arguments(piece)["index"] % count
    return *_operands(ranking), range(place, place + 1), _ONE


def _operands(ranking: Node) -> tuple[Any, ...]:
    """What is ranked, or what windows of it are; the window, if any; along what, and from which end."""
    given = named_arguments(ranking)
    x, window, dim = given["self"], None, _dim_of(ranking)
    if x.target is aten.unfold.default and dim == x.meta["val"].dim() - 1:
        framed = named_arguments(x)
        x, window = framed["self"], (framed["dimension"], framed["size"], framed["step"])
    return x, window, dim, given["largest"]


def _ranked(
    x: torch.Tensor, window: tuple[int, int, int] | None, dim: int, largest: bool, places: range, shape: str
) -> Any:
    if x.dtype != torch.float32 or x.dim() == 0 or not static(*x.shape) or not places:
        return NotImplemented
    numbers = _pieces(x, dim) if window is None else _frames(x, *window)
    if not 1 < len(numbers) <= _MOST or numbers[0].numel() < _ROWS:
        return NotImplemented
    count = len(numbers)
    ranks = [count - 1 - place if largest else place for place in places]
    for low, high, first, second in _comparisons(count, ranks):
        one, other = numbers[low], numbers[high]
        if first:
            numbers[low] = torch.minimum(one, other)
        if second:
            numbers[high] = torch.maximum(one, other)
    if shape == _ONE:
        return numbers[ranks[0]]
    found = torch.stack([numbers[rank] for rank in ranks], dim) if len(ranks) > 1 else numbers[ranks[0]].unsqueeze(dim)
    return found if shape == _SOME else (found, None)


def _pieces(x: torch.Tensor, dim: int) -> list[torch.Tensor]:
    if x.shape[dim] > _MOST:
        return []
    outside = x.movedim(dim, 0).contiguous() if dim else x
    return [outside.select(0, place) for place in range(x.shape[dim])]


def _frames(x: torch.Tensor, dim: int, size: int, step: int) -> list[torch.Tensor]:
    """The first, second and so on number of all windows."""
    if not static(size, step) or size > _MOST:
        return []
    frames = (x.shape[dim] - size) // step + 1
    return [x.narrow(dim, place, (frames - 1) * step + 1) for place in range(size)] if step == 1 else []


def _comparisons(count: int, wanted: Iterable[int]) -> list[tuple[int, int, bool, bool]]:
    """Pairs of places to compare in order, and whether the smaller one, and the larger one, is needed."""
    needed, found = set(wanted), []
    for low, high in reversed(_merge_exchange(count)):
        if low in needed or high in needed:
            found.append((low, high, low in needed, high in needed))
            needed |= {low, high}
    return found[::-1]


def _merge_exchange(count: int) -> list[tuple[int, int]]:
    found = []
    highest = 1 << max((count - 1).bit_length() - 1, 0)
    size = highest
    while size:
        reach, rest, distance = highest, 0, size
        while True:
            found += [(low, low + distance) for low in range(count - distance) if low & size == rest]
            if reach == size:
                break
            distance, rest, reach = reach - size, size, reach // 2
        size //= 2
    return found
