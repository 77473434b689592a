"""Write transposed convolutions as plain ones, a channel for each place between two elements.

```
before:  y = aten.conv_transpose2d.input(x, weight, bias, [2, 2], [1, 1], [0, 0], 64)   # weight: [64, 1, 4, 4]
after:   parts = aten.conv2d.default(x, phases, bias, [1, 1], [1, 1], [1, 1], 64)       # phases: [256, 1, 2, 2]
         y = aten.pixel_shuffle.default(parts, 2)[:, :, 1:161, 1:161]                   # x: [1, 64, 80, 80]
```

With stride 2, an element of the result reads every second weight, and which ones depends on its place alone. XNNPACK
multiplies a matrix for each channel, a hundred times as long (BigVGAN enlarges so before every activation). Of dense
ones its kernels leave most of a tile empty where few channels are made: 6.2 ms for 64 channels to 4 by 4 x 4 weights
with stride 2 (64 x 64 places, one thread of a Xeon), as phases 0.8; oneDNN 2.5 and 0.7. With 64 to 16 channels XNNPACK
takes 6.4 and 2.6, oneDNN 2.8 and 2.1: the latter keeps all but a few. Left alone: dilation, several channels a group,
and sizes that only a run knows.

```
before:  y = aten.conv_transpose2d.input(x, weight, bias, [1, 1], [1, 1], [0, 0], 1)    # weight: [64, 32, 4, 4]
after:   y = aten.conv2d.default(x, turned, bias, [1, 1], [2, 2], [1, 1], 1)            # turned: [32, 64, 4, 4]
```

With stride 1 there is one phase: the weights turned round, of whatever groups, with the other side of the padding.
oneDNN has no kernel but its reference for transposed ones of 1 x 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch.nn import functional as F

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rules, static, substitute
from edgex.export.rewrites.pooling.windows import each

aten = torch.ops.aten

# Of weights and strides: whether it is worth it.
_Gains = Callable[[torch.Tensor, Sequence[int]], bool]


# Of a dense one: few enough results for every engine.
_FEW = 8
# Weights that are 0 are no gain where many channels are multiplied by them.
_MANY = 32


def write_phases(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write depthwise ones, and those that make few channels; the same program comes back without one."""
    return _write(program, "write_phases", lambda weight, _: weight.shape[1] <= _FEW)


def write_dense_phases(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write all that XNNPACK is quicker with; the same program comes back without one."""

    def gains(weight: torch.Tensor, step: Sequence[int]) -> bool:
        overlap = any(size > by for size, by in zip(weight.shape[2:], step, strict=True))
        even = all(size % by == 0 for size, by in zip(weight.shape[2:], step, strict=True))
        return overlap and (even or weight.shape[1] <= _MANY)

    return _write(program, "write_dense_phases", gains)


def _write(program: CapturedProgram, name: str, gains: _Gains) -> tuple[CapturedProgram, Rewrite | None]:
    rule = partial(_phases, gains)
    rules: Rules = {aten.conv_transpose1d.default: rule, aten.conv_transpose2d.input: rule}
    return substitute(program, name, rules, "{count} transposed convolution(s) became plain ones")


def _phases(
    gains: _Gains,
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    output_padding: Sequence[int],
    groups: int,
    dilation: Sequence[int],
) -> Any:
    rank = weight.dim() - 2
    step, sides, more, hole = (each(given, rank) for given in (stride, padding, output_padding, dilation))
    if set(step) == {1} and set(more) == {0} and x.dim() == rank + 2:
        return _turned(x, weight, bias, sides, groups, hole)
    fits = x.dim() == rank + 2 and static(*x.shape, *weight.shape) and set(hole) == {1} and max(step) > 1
    if not fits or not (weight.shape[:2] == (groups, 1) or (groups == 1 and gains(weight, step))):
        return NotImplemented
    taps = [-(-size // by) for size, by in zip(weight.shape[2:], step, strict=True)]
    sizes = [
        (old - 1) * by - 2 * side + size + extra
        for old, by, side, size, extra in zip(x.shape[2:], step, sides, weight.shape[2:], more, strict=True)
    ]
    whole = [(old + count - 1) * by for old, by, count in zip(x.shape[2:], step, taps, strict=True)]
    if any(side + size > end for side, size, end in zip(sides, sizes, whole, strict=True)):
        return NotImplemented  # the end is zeros that nothing computes
    around = [
        end for size, by, count in zip(weight.shape[2:], step, taps, strict=True) for end in (count * by - size, 0)
    ]  # behind, ahead; read from the last dimension on
    made, phases = weight.shape[1] * groups, math.prod(step)
    # [inputs, results, taps, steps, taps, steps] -> [results, steps, steps, inputs, taps, taps]
    split = F.pad(weight, around[::-1]).reshape(
        *weight.shape[:2], *(size for pair in zip(taps, step, strict=True) for size in pair)
    )
    taps_at, steps_at = [2 + 2 * dim for dim in range(rank)], [3 + 2 * dim for dim in range(rank)]
    results, inputs = (1, 0) if groups == 1 else (0, 1)
    kernel = split.flip(taps_at).permute(results, *steps_at, inputs, *taps_at).reshape(made * phases, -1, *taps)
    copies = None if bias is None else bias.view(made, 1).expand(made, phases).reshape(-1)
    convolve = F.conv1d if rank == 1 else F.conv2d
    parts = convolve(x, kernel, copies, 1, [count - 1 for count in taps], 1, groups)
    if rank == 2 and step[0] == step[1]:
        y = F.pixel_shuffle(parts, step[0])
    else:
        places = [end // by for end, by in zip(whole, step, strict=True)]
        order = [at for dim in range(rank) for at in (2 + rank + dim, 2 + dim)]
        y = parts.view(x.shape[0], made, *step, *places).permute(0, 1, *order).reshape(x.shape[0], made, *whole)
    for dim, (side, size) in enumerate(zip(sides, sizes, strict=True)):
        y = y.narrow(dim + 2, side, size)
    return y


def _turned(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    sides: Sequence[int],
    groups: int,
    hole: Sequence[int],
) -> Any:
    rank, inputs = weight.dim() - 2, weight.shape[0] // groups
    around = [by * (size - 1) - side for by, size, side in zip(hole, weight.shape[2:], sides, strict=True)]
    if not static(*weight.shape) or min(around) < 0:
        return NotImplemented  # results are cut off
    # [groups * inputs, results, places] -> [groups * results, inputs, places]
    split = weight.flip([*range(2, rank + 2)]).view(groups, inputs, *weight.shape[1:])
    kernel = split.transpose(1, 2).reshape(groups * weight.shape[1], inputs, *weight.shape[2:])
    convolve: Callable[..., Any] = (F.conv1d, F.conv2d)[rank - 1]
    return convolve(x, kernel, bias, 1, around, tuple(hole), groups)
