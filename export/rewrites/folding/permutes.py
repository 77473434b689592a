"""Permute in two steps, of which the first or the second moves one dimension and the other copies whole rows.

```
before:  y = aten.permute.default(x, [0, 3, 6, 1, 4, 2, 5])             # x: [1, 8, 8, 8, 7, 7, 64], windows of 7 x 7
after:   y = aten.permute.default(x.reshape(8, 8, 8, 7, 7, 64), [2, 0, 3, 1, 4, 5])         # rows of 64 numbers
         y = aten.permute.default(y.reshape(8, 3136, 64), [0, 2, 1]).reshape(1, 8, 64, 8, 7, 8, 7)

before:  y = aten.permute.default(x, [0, 3, 4, 1, 2])                   # x: [1, 16, 16, 8, 8], which are two dimensions
after:   y = aten.permute.default(x.reshape(256, 64), [1, 0]).reshape(1, 8, 8, 16, 16)
```

ONNX Runtime copies rows where the last dimension stays, and blocks where one dimension moves (0.2 to 0.5 ns a number).
All else it copies number by number: 10.5 ns for the first example, in two steps 0.6 (one thread of a Zen without
AVX-512). It composes permutes that follow each other, but for a reshape between them.
Left alone: rows of fewer than 8 numbers, small tensors, and sizes that only a run knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rules, static, substitute

aten = torch.ops.aten

# Rows of fewer numbers are copied no sooner than the numbers.
_ROW = 8
# Of the whole tensor, in numbers: smaller ones take as long as the further operators do.
_LEAST = 1 << 12


def split_permutes(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such permute; the same program comes back without one."""
    rules: Rules = {aten.permute.default: _permute, aten.transpose.int: _transpose}
    return substitute(program, "split_permutes", rules, "{count} permute(s) copy rows, not numbers")


def _transpose(x: torch.Tensor, first: int, second: int) -> Any:
    order = list(range(x.dim()))
    if order:
        order[first], order[second] = order[second], order[first]
    return _permute(x, order)


def _permute(x: torch.Tensor, order: Sequence[int]) -> Any:
    if x.dim() < 3 or not static(*x.shape) or x.numel() < _LEAST:
        return NotImplemented
    order = [dim % x.dim() for dim in order]
    sizes, merged = _merge(list(x.shape), order)
    given = [dim for dim in order if x.shape[dim] > 1]
    if len(sizes) < 2 or merged[-1] == len(sizes) - 1 or (_moves_one(merged) and _moves_one(_ranks(given))):
        return NotImplemented
    shape = [x.shape[dim] for dim in order]
    if _moves_one(merged):
        return x.reshape(sizes).permute(merged).reshape(shape)
    last = len(sizes) - 1
    # Either the last dimension stays till all others have their order, or what becomes the last one comes there first.
    if sizes[last] >= sizes[merged[-1]]:
        first = [*(dim for dim in merged if dim != last), last]
    else:
        first = [*(dim for dim in range(len(sizes)) if dim != merged[-1]), merged[-1]]
    if max(sizes[last], sizes[merged[-1]]) < _ROW:
        return NotImplemented
    y = x.reshape(sizes).permute(first)
    rest, order = _merge([sizes[dim] for dim in first], [first.index(dim) for dim in merged])
    return y.reshape(rest).permute(order).reshape(shape)


def _merge(sizes: list[int], order: list[int]) -> tuple[list[int], list[int]]:
    """Sizes and order without dimensions of one element, and with one dimension for those that stay neighbours."""
    groups: list[list[int]] = []
    for dim in (dim for dim in order if sizes[dim] > 1):
        if groups and not any(size > 1 for size in sizes[groups[-1][-1] + 1 : dim]) and groups[-1][-1] < dim:
            groups[-1].append(dim)
        else:
            groups.append([dim])
    return [prod(sizes[dim] for dim in group) for group in sorted(groups)], _ranks([group[0] for group in groups])


def _ranks(order: list[int]) -> list[int]:
    """The same order of as many dimensions, from 0 on."""
    return [sorted(order).index(dim) for dim in order]


def _moves_one(order: list[int]) -> bool:
    """Whether the others stay in their order when one is taken out."""
    return any((rest := [dim for dim in order if dim != one]) == sorted(rest) for one in order)
