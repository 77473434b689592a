"""Write convolutions of one channel with long windows over blocks of eight elements, which become channels.

```
before:  y = aten.conv2d.default(x, w, b, [1, 1], [0, 63])              # x: [1, 1, 22, 1000], w: [8, 1, 1, 125]
after:   z = aten.pad(x, [63, 73]).view(1, 22, 142, 8).permute(0, 3, 1, 2)
         z = aten.conv2d.default(z, wider, copies)                      # wider: [64, 8, 1, 17]
         y = z.permute(0, 2, 3, 1).reshape(1, 22, 1008, 8)[:, :, :1002].permute(0, 3, 1, 2)
```

Eight results that follow each other read the same elements but for seven, so that they are channels of one window; its
weights are moved by one element for each of them, between zeros. Engines that multiply channel by channel have one
number to multiply with otherwise, and the blocks lie as they do by channels. One thread of a Zen 3: `xnnpack` 2.0 ms
where it took 5.3, `onednn` 1.7 where it took 4.1, `onnx-cpu` 0.8 where it took 1.6. Filters of EEG, ECG and audio
begin so. Left alone: strides, dilation, windows of several rows, short ones, and layers of many outputs, which are
fast as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional as F

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.editor import constant_tensors
from edgex.export.rewrites.editing.substitution import Rule, Rules, static, substitute
from edgex.export.rewrites.pooling.windows import each

aten = torch.ops.aten

_BLOCK = 8
# Faster with 2 to 8 outputs and windows of 16 to 125 elements; not with 40 outputs of 25, nor with windows of 7. What
# lies between was not measured.
_SHORTEST = 16
_MOST_OUTPUTS = 16


def block_signals(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such convolution; the same program comes back without one."""
    constants = constant_tensors(program)

    operators = (aten.conv1d.default, aten.conv2d.default, aten.conv1d.padding, aten.conv2d.padding)
    rules: Rules = {
        operator: Rule(_convolution, where=lambda node: node.args[1] in constants) for operator in operators
    }
    return substitute(program, "block_signals", rules, "{count} convolution(s) of one channel go by blocks of elements")


def _convolution(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int] | str,
    dilation: Sequence[int],
    groups: int,
) -> Any:
    rank = weight.dim() - 2
    step, hole = each(stride, rank), each(dilation, rank)
    outputs, inputs, *window = weight.shape
    fits = x.dim() == rank + 2 and static(*x.shape, *weight.shape) and (inputs, groups) == (1, 1)
    if not fits or {*step, *hole} != {1} or {*window[:-1]} - {1}:
        return NotImplemented
    around = _around(padding, window)
    if any(around[2:]):
        return NotImplemented
    taps, (ahead, behind) = window[-1], around[:2]
    length = x.shape[-1] + ahead + behind - taps + 1
    if taps < _SHORTEST or outputs > _MOST_OUTPUTS or length < 2 * _BLOCK:
        return NotImplemented
    blocks, reach = -(-length // _BLOCK), -(-(taps + _BLOCK - 1) // _BLOCK)
    # [8 * outputs, 8, reach]: for each of eight results its weights, as much later.
    moved = [F.pad(weight.reshape(outputs, taps), [late, reach * _BLOCK - taps - late]) for late in range(_BLOCK)]
    wider = torch.cat(moved).view(_BLOCK * outputs, reach, _BLOCK).transpose(1, 2)
    copies = None if bias is None else bias.repeat(_BLOCK)
    x = F.pad(x, [ahead, (blocks - 1 + reach) * _BLOCK - x.shape[-1] - ahead])
    batch, rows = x.shape[0], list(x.shape[2:-1])
    x = x.reshape(batch, *rows, -1, _BLOCK).movedim(-1, 1)
    y = F.conv1d(x, wider, copies) if rank == 1 else F.conv2d(x, wider.unsqueeze(2), copies)
    y = y.movedim(1, -1).reshape(batch, *rows, blocks * _BLOCK, outputs)
    return y.narrow(-2, 0, length).movedim(-1, 1)


def _around(padding: Sequence[int] | str, window: Sequence[int]) -> list[int]:
    """Elements ahead and behind, of the last dimension first; an uneven `same` has one more behind."""
    if isinstance(padding, str):
        both = [size - 1 if padding == "same" else 0 for size in window]
        return [part for size in reversed(both) for part in (size // 2, size - size // 2)]
    return [side for side in reversed(each(padding, len(window))) for _ in range(2)]
