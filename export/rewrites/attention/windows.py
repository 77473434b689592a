"""Write the partition of images into windows in at most five dimensions, for engines that have no more.

```
before:  y = aten.view.default(x, [1, 4, 7, 4, 7, 96])           # x: [1, 28, 28, 96], windows of 7 x 7
         z = aten.permute.default(y, [0, 1, 3, 2, 4, 5])
         w = aten.view.default(z, [16, 49, 96])
after:   y = aten.reshape.default(x, [4, 7, 4, 672])             # dimensions that stay together are one
         z = aten.permute.default(y, [0, 2, 1, 3])
         w = aten.reshape.default(z, [16, 49, 96])
```

A permutation is a row of exchanges of two neighbouring blocks, each of them one of four dimensions. Views of views are
then views of what these are made of, so that nothing of more than five dimensions is left between them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.editor import ProgramEditor
from edgex.export.rewrites.editing.substitution import Rules, static, substitute

aten = torch.ops.aten
MOST_DIMENSIONS = 5
_VIEWS = (aten.view.default, aten.reshape.default, aten._unsafe_view.default)
_COPIES = (aten.clone.default, aten.contiguous.default)


def write_windows(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every permutation of more dimensions so; the same program comes back without one."""
    rules: Rules = {aten.permute.default: _permute, aten.transpose.int: _transpose}
    detail = "{count} permutation(s) of more than five dimensions became several of four"
    written, rewrite = substitute(program, "write_windows", rules, detail)
    return (program, None) if rewrite is None else (_join_views(written), rewrite)


def _transpose(x: torch.Tensor, first: int, second: int) -> Any:
    order = list(range(x.dim()))
    order[first], order[second] = order[second], order[first]
    return _permute(x, order)


def _permute(x: torch.Tensor, dims: Sequence[int]) -> Any:
    if x.dim() <= MOST_DIMENSIONS or not static(*x.shape):
        return NotImplemented
    wanted = [dim % x.dim() for dim in dims]
    held, y = list(range(x.dim())), x
    sizes = [int(x.shape[axis]) for axis in held]
    for place, axis in enumerate(wanted):
        at = held.index(axis)
        if at == place:
            continue
        end = at + 1
        while end < len(held) and held[end] == wanted[place + end - at]:
            end += 1
        blocks = [math.prod(sizes[a:b]) for a, b in ((0, place), (place, at), (at, end), (end, len(sizes)))]
        y = y.reshape(blocks).permute(0, 2, 1, 3)
        for listed in (held, sizes):
            listed[place:end] = [*listed[at:end], *listed[place:at]]
    return y.reshape(sizes)


def _join_views(program: CapturedProgram) -> CapturedProgram:
    """Views of what has more dimensions than five, and is a view itself, made of what that is made of."""
    editor = ProgramEditor(program)
    for node in editor.graph.nodes:
        if node.target not in _VIEWS:
            continue
        source = node.args[0]
        while _passes_on(source):
            source = source.args[0]
        if source is not node.args[0]:
            node.args = (source, *node.args[1:])
            node.target = aten.reshape.default
    return editor.finish()


def _passes_on(node: Node) -> bool:
    """Whether a value of many dimensions holds another's elements in their order."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or not static(*value.shape):
        return False
    return node.target in (*_VIEWS, *_COPIES) and value.dim() > MOST_DIMENSIONS
