"""Write convolutions over three dimensions as convolutions over two, for engines that have no others.

```
before:  y = aten.conv3d.default(x, weight, bias, [2, 1, 1])            # x: [N, C, D, H, W], weight: [O, C, 3, 5, 5]
after:   frames = cat([x[:, :, 0::2], x[:, :, 1::2], x[:, :, 2::2]])    # along the channels: [N * D', 3 * C, H, W]
         y = aten.conv2d.default(frames, [O, 3 * C, 5, 5], bias)        # then back to [N, O, D', H', W']
```

A kernel of depth 1 needs no second copy of the frames; patches of a video (a kernel as deep as its stride) are each
read once. Convolutions with groups are summed over the depth of their kernel instead. Left alone: dynamic depth,
padding that reflects.

```
before:  y = aten.conv_transpose3d.input(x, weight, bias, [2, 2, 2])    # x: [N, C, D, H, W], weight: [C, O, 2, 2, 2]
after:   a = aten.conv_transpose2d.input(frames, weight[:, :, 0])       # frames: [N * D, C, H, W]
         b = aten.conv_transpose2d.input(frames, weight[:, :, 1])
         y = stack([a, b], 2) + bias                                    # in turns; those that overlap are added
```
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
from edgex.export.rewrites.products.named_padding import with_named_padding

aten = torch.ops.aten


def flatten_conv3d(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every convolution over three dimensions over two; the same program comes back without one."""
    rules: Rules = {
        aten.conv3d.default: _conv3d,
        aten.conv3d.padding: with_named_padding(_conv3d),
        aten.conv_transpose3d.input: _conv_transpose3d,
    }
    return substitute(program, "flatten_conv3d", rules, "{count} convolution(s) over 3 dimensions run over 2")


def _conv3d(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Any:
    if not static(*x.shape[-4:]) or x.dim() != 5:
        return NotImplemented
    stride, padding, dilation = each(stride, 3), each(padding, 3), each(dilation, 3)
    taps, step, hole = weight.shape[2], stride[0], dilation[0]
    # [N, D, C, H, W]
    frames = (F.pad(x, [0, 0, 0, 0, padding[0], padding[0]]) if padding[0] else x).transpose(1, 2)
    count = (frames.shape[1] - hole * (taps - 1) - 1) // step + 1
    ends = [tap * hole + (count - 1) * step + 1 for tap in range(taps)]
    windows = [frames[:, tap * hole : end : step] for tap, end in enumerate(ends)]

    def convolve(images: torch.Tensor, kernel: torch.Tensor, offset: torch.Tensor | None) -> torch.Tensor:
        flat = images.reshape(x.shape[0] * count, images.shape[2], x.shape[3], x.shape[4])
        return F.conv2d(flat, kernel, offset, stride[1:], padding[1:], dilation[1:], groups)

    if groups == 1:
        images = windows[0] if taps == 1 else torch.cat(windows, 2)
        kernel = weight.transpose(1, 2).reshape(weight.shape[0], taps * weight.shape[1], *weight.shape[3:])
        y = convolve(images, kernel, bias)
    else:
        y = convolve(windows[0], weight[:, :, 0], bias)
        for tap in range(1, taps):
            y = y + convolve(windows[tap], weight[:, :, tap], None)
    return y.reshape(x.shape[0], count, weight.shape[0], *y.shape[2:]).transpose(1, 2)


def _conv_transpose3d(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    output_padding: Sequence[int],
    groups: int,
    dilation: Sequence[int],
) -> Any:
    if not static(*x.shape[-4:]) or x.dim() != 5:
        return NotImplemented
    stride, padding, dilation = each(stride, 3), each(padding, 3), each(dilation, 3)
    further = each(output_padding, 3)
    batch, depth, taps, step, hole = x.shape[0], x.shape[2], weight.shape[2], stride[0], dilation[0]
    frames = x.transpose(1, 2).reshape(batch * depth, x.shape[1], x.shape[3], x.shape[4])
    pieces = []
    for tap in range(taps):
        piece = F.conv_transpose2d(
            frames, weight[:, :, tap], None, stride[1:], padding[1:], further[1:], groups, dilation[1:]
        )
        pieces.append(piece.reshape(batch, depth, *piece.shape[1:]))
    length = (depth - 1) * step + 1 + (taps - 1) * hole
    if step == taps and hole == 1:  # nothing overlaps
        y = torch.stack(pieces, 2).reshape(batch, length, *pieces[0].shape[2:])
    else:
        y = _overlap(pieces, step, hole)
    begin, end = padding[0], length - padding[0] + further[0]
    y = F.pad(y, [0, 0, 0, 0, 0, 0, 0, end - length]) if end > length else y
    y = y[:, begin:end]
    return (y if bias is None else y + bias.reshape(-1, 1, 1)).transpose(1, 2)


def _overlap(pieces: Sequence[torch.Tensor], step: int, hole: int) -> torch.Tensor:
    """The sum of every tap's frames `[N, D, ...]`, `step` apart, each tap `hole` later than the one before."""
    batch, depth, *rest = pieces[0].shape
    total: Any = 0
    for tap, piece in enumerate(pieces):
        spread = F.pad(piece.unsqueeze(2), [0, 0, 0, 0, 0, 0, 0, step - 1]) if step > 1 else piece
        spread = spread.reshape(batch, depth * step, *rest)[:, : (depth - 1) * step + 1]
        total = total + F.pad(spread, [0, 0, 0, 0, 0, 0, tap * hole, (len(pieces) - 1 - tap) * hole])
    result: torch.Tensor = total
    return result
