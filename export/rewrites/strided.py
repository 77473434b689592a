"""Write `as_strided`, which reads memory as it lies in eager, in terms of the elements of its tensor.

```
before:  rows = aten.transpose.int(x, 0, 1)                      # x: [512, 16, 64], one row of 64 behind another
         y    = aten.as_strided.default(rows, [16, 3, 256, 64], [64, 131072, 1024, 1])
after:   y    = aten.unfold.default(rows, 1, 256, 128)           # windows of 256 rows, 128 apart: [16, 3, 64, 256]
         y    = aten.permute.default(y, [0, 1, 3, 2])
```

The strides are those of the tensor that eager has there, which may be a view. Targets keep their tensors in an order of
their own, and read other elements with the same strides: LED's windows had 24 dB so.

Left alone: tensors and sizes that only a run knows, and what is read of memory outside of the tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rules, static, substitute

aten = torch.ops.aten


@dataclass(frozen=True)
class _Run:
    """Dimensions of a tensor that lie in memory as one.

    Attributes:
        size: Elements along it.
        stride: In memory, between two of them.
        dims: The tensor's dimensions, the outer ones in front.
    """

    size: int
    stride: int
    dims: tuple[int, ...]


def read_strided(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such operator; the same program comes back without one."""
    rules: Rules = {aten.as_strided.default: _read}
    return substitute(program, "read_strided", rules, "{count} strided view(s) of memory became windows and slices")


def _read(x: torch.Tensor, size: Sequence[int], stride: Sequence[int], offset: int | None) -> Any:
    if not static(*x.shape, *x.stride(), x.storage_offset(), *size, *stride, *(() if offset is None else (offset,))):
        return NotImplemented
    first = 0 if offset is None else offset - int(x.storage_offset())
    if first < 0 or 0 in (*x.shape, *size) or any(step < 0 for step in stride):
        return NotImplemented
    runs = _runs_of(x)
    if runs is None:
        return NotImplemented
    steps = _steps_along(runs, size, stride)
    if steps is None:
        return NotImplemented
    y = _as_runs(x, runs)
    order: list[int] = []  # of the result's dimensions, as they come to stand
    for at, run in enumerate(runs):
        start, first = divmod(first, run.stride)
        along = steps[at]
        if start + sum(step * (size[dim] - 1) for dim, step in along) >= run.size:
            return NotImplemented
        dim = len(order)
        y = _cut(y, dim, start, [(size[one], step) for one, step in along])
        order += [one for one, _ in along]
    if first:
        return NotImplemented  # between the elements of the tensor
    alone = [dim for dim in range(len(size)) if dim not in order]  # of size 1, or one element again and again
    y = y.reshape([*y.shape, *(1 for _ in alone)])
    order += alone
    return y.permute([order.index(dim) for dim in range(len(size))]).expand(list(size)).clone()


def _runs_of(x: torch.Tensor) -> tuple[_Run, ...] | None:
    """The tensor's dimensions, the longest strides in front, those that continue each other as one.

    Returns:
        None where two elements lie at one place, or dimensions are interleaved.
    """
    dims = sorted(
        (dim for dim in range(x.dim()) if x.shape[dim] > 1), key=lambda dim: (x.stride(dim), x.shape[dim]), reverse=True
    )
    runs: list[_Run] = []
    for dim in dims:
        own = _Run(x.shape[dim], x.stride(dim), (dim,))
        if own.stride == 0:  # an expanded dimension: every element along it is the first
            continue
        if runs and runs[-1].stride < own.size * own.stride:
            return None
        if runs and runs[-1].stride == own.size * own.stride:
            above = runs.pop()
            own = _Run(above.size * own.size, own.stride, (*above.dims, dim))
        runs.append(own)
    return tuple(runs)


def _steps_along(
    runs: Sequence[_Run], size: Sequence[int], stride: Sequence[int]
) -> list[list[tuple[int, int]]] | None:
    """For each run the result's dimensions that go along it, each with the elements that it steps over.

    Returns:
        None where a stride is a multiple of no run's.
    """
    steps: list[list[tuple[int, int]]] = [[] for _ in runs]
    for dim, (count, by) in enumerate(zip(size, stride, strict=True)):
        if count == 1 or by == 0:
            continue
        at = next((at for at, run in enumerate(runs) if run.stride <= by), None)
        if at is None or by % runs[at].stride:
            return None
        steps[at].append((dim, by // runs[at].stride))
    return steps


def _as_runs(x: torch.Tensor, runs: Sequence[_Run]) -> torch.Tensor:
    """The tensor with a dimension for each run."""
    inside = [dim for run in runs for dim in run.dims]
    for dim in range(x.dim()):
        if dim not in inside:
            x = x.narrow(dim, 0, 1)
    left = [dim for dim in range(x.dim()) if dim not in inside]
    return x.permute([*inside, *left]).reshape([run.size for run in runs])


def _cut(y: torch.Tensor, dim: int, start: int, along: Sequence[tuple[int, int]]) -> torch.Tensor:
    """Put dimensions in the place of one: windows of it, and windows of these.

    Args:
        y: What is cut.
        dim: The dimension.
        start: Its first element.
        along: For each new dimension its size, and over how many elements it steps.
    """
    if not along:
        return y.select(dim, start)
    widest = sorted(range(len(along)), key=lambda at: along[at][1], reverse=True)
    y = y.narrow(dim, start, sum((count - 1) * step for count, step in along) + 1)
    for done, at in enumerate(widest):
        count, step = along[at]
        if done == len(widest) - 1:  # the innermost: elements, and no windows
            y = y if step == 1 else y[(slice(None),) * (dim + done) + (slice(None, None, step),)]
        else:
            # [..., count, reach] in place of the dimension
            reach = y.shape[dim + done] - (count - 1) * step
            y = y.unfold(dim + done, reach, step).movedim(-1, dim + done + 1)
    # from the widest steps in front to the order that was asked for
    back = [widest.index(at) for at in range(len(along))]
    kept = list(range(y.dim()))
    return y.permute([*kept[:dim], *(dim + one for one in back), *kept[dim + len(along) :]])
