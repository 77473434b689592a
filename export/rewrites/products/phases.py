"""Write depthwise transposed convolutions as plain ones, a channel for each place between two elements.

```
before:  y = aten.conv_transpose2d.input(x, weight, bias, [2, 2], [1, 1], [0, 0], 64)   # weight: [64, 1, 4, 4]
after:   parts = aten.conv2d.default(x, phases, bias, [1, 1], [1, 1], [1, 1], 64)       # phases: [256, 1, 2, 2]
         y = aten.pixel_shuffle.default(parts, 2)[:, :, 1:161, 1:161]                   # x: [1, 64, 80, 80]
```

With stride 2, an element of the result reads every second weight, and which ones depends on its place alone. XNNPACK
multiplies a matrix for each channel, a hundred times as long (BigVGAN enlarges so before every activation). Left alone:
dilation, several channels a group, two strides, and sizes that only a run knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional as F

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rules, static, substitute
from edgex.export.rewrites.pooling.windows import each

aten = torch.ops.aten


def write_phases(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such convolution; the same program comes back without one."""
    rules: Rules = {aten.conv_transpose1d.default: _phases, aten.conv_transpose2d.input: _phases}
    return substitute(program, "write_phases", rules, "{count} depthwise transposed convolution(s) became plain ones")


def _phases(
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
    fits = x.dim() == rank + 2 and static(*x.shape, *weight.shape) and groups > 1 and weight.shape[:2] == (groups, 1)
    if not fits or set(hole) != {1} or len(set(step)) != 1:
        return NotImplemented
    by, taps = step[0], [-(-size // step[0]) for size in weight.shape[2:]]
    sizes = [
        (old - 1) * by - 2 * side + size + extra
        for old, side, size, extra in zip(x.shape[2:], sides, weight.shape[2:], more, strict=True)
    ]
    whole = [(old + count - 1) * by for old, count in zip(x.shape[2:], taps, strict=True)]
    if any(side + size > end for side, size, end in zip(sides, sizes, whole, strict=True)):
        return NotImplemented  # the end is zeros that nothing computes
    around = [
        end for size, count in zip(weight.shape[2:], taps, strict=True) for end in (count * by - size, 0)
    ]  # behind, ahead; read from the last dimension on
    padded = F.pad(weight, around[::-1])
    if rank == 1:
        kernel = padded.view(groups, taps[0], by).transpose(1, 2).flip(2).reshape(groups * by, 1, taps[0])
    else:
        split = padded.view(groups, taps[0], by, taps[1], by).permute(0, 2, 4, 1, 3)
        kernel = split.flip(3, 4).reshape(groups * by * by, 1, *taps)
    copies = None if bias is None else bias.view(groups, 1).expand(groups, by**rank).reshape(-1)
    convolve = F.conv1d if rank == 1 else F.conv2d
    parts = convolve(x, kernel, copies, 1, [count - 1 for count in taps], 1, groups)
    if rank == 1:
        y = parts.view(x.shape[0], groups, by, whole[0] // by).transpose(2, 3).reshape(x.shape[0], groups, whole[0])
    else:
        y = F.pixel_shuffle(parts, by)
    for dim, (side, size) in enumerate(zip(sides, sizes, strict=True)):
        y = y.narrow(dim + 2, side, size)
    return y
