"""Split convolutions and linear layers that sum over more products than XNNPACK's kernels keep in the cache.

```
before:  y = aten.conv2d.default(x, weight, bias, [1, 1], [1, 1])                       # weight: [512, 1024, 3, 3]
after:   a = aten.conv2d.default(x[:, :512], weight[:, :512], bias, [1, 1], [1, 1])
         y = a + aten.conv2d.default(x[:, 512:], weight[:, 512:], None, [1, 1], [1, 1])
```

A kernel goes through all products of 32 outputs (16 with AVX2, 8 on Arm) for a few places, and then again for the next
places: their weights have to stay near. From about 5,000 products on, those of a convolution don't. One thread of a
Xeon with AVX-512 and 1.25 MB of L2, 28 x 28 places, whole and in parts: 1024 channels to 512 by 3 x 3 taps 234 and 78
ms, 2048 channels 492 and 138, 1280 to 1280 at 16 x 16 places (a diffusion model's) 244 and 82; 256 by 7 x 7 taps 91
and 43; a linear layer of 11008 to 1024, 256 rows, 174 and 57. Left alone: few places, which read their weights once,
other types than float32, and groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch.fx import Node
from torch.nn import functional as F

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.editor import constant_tensors
from edgex.export.rewrites.editing.substitution import Rule, Rules, static, substitute
from edgex.export.rewrites.products.named_padding import with_named_padding

aten = torch.ops.aten

# Products for each output. Measured: 4608 in a convolution and 6144 in a linear layer gain nothing by parts, 5760 a
# factor of 2 and 8192 a tenth.
_MOST_OF_CONVOLUTIONS = 4608
_MOST_OF_LINEAR = 6144
_FEWEST_PLACES = 16


def split_sums(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Split every such layer; the same program comes back without one."""
    constants = constant_tensors(program)

    def is_constant(node: Node) -> bool:
        return node.args[1] in constants

    rules: Rules = {
        aten.conv1d.default: Rule(_convolution, where=is_constant),
        aten.conv2d.default: Rule(_convolution, where=is_constant),
        aten.conv1d.padding: Rule(with_named_padding(_convolution), where=is_constant),
        aten.conv2d.padding: Rule(with_named_padding(_convolution), where=is_constant),
        aten.linear.default: Rule(_linear, where=is_constant),
    }
    return substitute(program, "split_sums", rules, "{count} layer(s) that sum over many inputs go by parts of them")


def _convolution(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Any:
    rank = weight.dim() - 2
    fits = x.dtype == torch.float32 and groups == 1 and x.dim() == rank + 2 and static(*x.shape[1:])
    if not fits or prod(weight.shape[1:]) <= _MOST_OF_CONVOLUTIONS or prod(x.shape[2:]) < _FEWEST_PLACES:
        return NotImplemented
    convolve = F.conv1d if rank == 1 else F.conv2d
    parts = _parts(weight.shape[1], prod(weight.shape[2:]), _MOST_OF_CONVOLUTIONS)
    if len(parts) == 1:
        return NotImplemented
    found = None
    for start, size in parts:
        part, taps = x.narrow(1, start, size), weight.narrow(1, start, size)
        y = convolve(part, taps, bias if found is None else None, stride, padding, dilation)
        found = y if found is None else found + y
    return found


def _linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> Any:
    places = [size for size in x.shape[:-1] if isinstance(size, int)]
    few = len(places) == x.dim() - 1 and prod(places) < _FEWEST_PLACES
    if x.dtype != torch.float32 or few or weight.dim() != 2 or weight.shape[1] <= _MOST_OF_LINEAR:
        return NotImplemented
    found = None
    for start, size in _parts(weight.shape[1], 1, _MOST_OF_LINEAR):
        part, rows = x.narrow(-1, start, size), weight.narrow(1, start, size)
        y = F.linear(part, rows, bias if found is None else None)
        found = y if found is None else found + y
    return found


def _parts(count: int, taps: int, most: int) -> list[tuple[int, int]]:
    """Start and size of parts that are small enough, as few and as equal as blocks of 16 inputs allow."""
    largest = max(most // taps // 16 * 16, 16)
    parts = -(-count // largest)
    size = -(-count // (parts * 16)) * 16
    return [(start, min(size, count - start)) for start in range(0, count, size)]
