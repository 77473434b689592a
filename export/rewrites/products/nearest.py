"""Write repetition as a product with ones: resizing to the nearest element by whole factors, `expand` and `repeat`.

```
before:  y = aten.upsample_nearest2d.vec(x, None, [2.0, 2.0])           # x: [1, 64, 80, 80]
after:   pixels = x.permute(0, 2, 3, 1).reshape(1, 80, 1, 80, 1, 64)
         y = (pixels * ones([1, 1, 2, 1, 2, 1])).reshape(1, 160, 160, 64).permute(0, 3, 1, 2)
```

```
before:  y = aten.expand.default(x, [1, 64, 80, 80])                    # x: [1, 64, 1, 1], joined to each pixel
after:   y = x * ones([1, 1, 80, 80])
```

```
before:  y = aten.repeat_interleave.self_int(x, 3, 1); z = aten.repeat.default(x, [1, 3, 1])        # x: [2, 64, 80]
after:   y = (x.reshape(128, 1, 80) * ones([1, 3, 1])).reshape(2, 192, 80)
         z = (x.reshape(2, 1, 5120) * ones([1, 3, 1])).reshape(2, 192, 80)
```

XNNPACK resizes bilinearly only, and ExecuTorch's kernel computes the place of every element of the result. Left alone:
other factors, and sizes that only a run knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.editor import constant_tensors
from edgex.export.rewrites.editing.substitution import Rule, Rules, static, substitute

aten = torch.ops.aten

_MOST_DIMENSIONS = 4  # five are keys that heads share, which attention reads as they were
_MOST_ONES = 65536  # they become a constant of the program


def repeat_pixels(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such resize; the same program comes back without one."""
    rules: Rules = {
        aten.upsample_nearest1d.vec: repeat_sequence,
        aten.upsample_nearest2d.vec: _image,
    }
    return substitute(program, "repeat_pixels", rules, "{count} resize(s) to the nearest became products with ones")


def repeat_by_products(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every expansion of a computed tensor; the same program comes back without one."""
    constants = constant_tensors(program)

    def is_read_repeated(node: Node) -> bool:
        attention = any(user.target is aten.scaled_dot_product_attention.default for user in node.users)
        return node.args[0] not in constants and not attention

    rules: Rules = {
        aten.expand.default: Rule(_expanded, where=is_read_repeated),
        aten.repeat_interleave.self_int: Rule(_interleaved, where=is_read_repeated),
        aten.repeat.default: Rule(_tiled, where=is_read_repeated),
    }
    return substitute(program, "repeat_by_products", rules, "{count} repetition(s) became products with ones")


def _expanded(x: torch.Tensor, size: Sequence[int], implicit: bool) -> Any:
    del implicit
    fits = x.dtype == torch.float32 and 0 < x.dim() == len(size) <= _MOST_DIMENSIONS
    if not fits or not static(*x.shape, *size):
        return NotImplemented
    ones = [1 if new in (-1, old) else new for new, old in zip(size, x.shape, strict=True)]
    if prod(ones) == 1 or prod(ones) > _MOST_ONES:
        return NotImplemented
    return x * torch.ones(ones)


def _interleaved(x: torch.Tensor, repeats: int, dim: int | None, _output_size: int | None) -> Any:
    if x.dtype != torch.float32 or dim is None or not static(*x.shape, repeats) or not 1 < repeats <= _MOST_ONES:
        return NotImplemented
    if x.numel() == 0:
        return NotImplemented
    dim = dim % x.dim()
    shape = [size * (repeats if at == dim else 1) for at, size in enumerate(x.shape)]
    return _copied(x, x.shape[: dim + 1].numel(), repeats).reshape(shape)


def _tiled(x: torch.Tensor, repeats: Sequence[int]) -> Any:
    """One dimension after the other."""
    if x.dtype != torch.float32 or not static(*x.shape, *repeats) or not all(1 <= by <= _MOST_ONES for by in repeats):
        return NotImplemented
    shape = [1] * (len(repeats) - x.dim()) + list(x.shape)
    if prod(repeats) == 1 or 0 in shape:
        return NotImplemented
    for dim in reversed(range(len(shape))):
        if repeats[dim] > 1:
            x = _copied(x, prod(shape[:dim]), repeats[dim])
            shape[dim] *= repeats[dim]
    return x.reshape(shape)


def _copied(x: torch.Tensor, rows: int, count: int) -> torch.Tensor:
    """Every row so many times in a row."""
    return x.reshape(rows, 1, -1) * torch.ones(1, count, 1)


def repeat_sequence(x: torch.Tensor, sizes: Sequence[int] | None, scales: Sequence[float] | None) -> Any:
    """Resize a sequence to the nearest element by a whole factor; `NotImplemented` by another."""
    factors = _factors(x, sizes, scales)
    return NotImplemented if factors is None else _repeated(x.unsqueeze(2), 1, *factors).squeeze(2)


def _image(x: torch.Tensor, sizes: Sequence[int] | None, scales: Sequence[float] | None) -> Any:
    factors = _factors(x, sizes, scales)
    return NotImplemented if factors is None else _repeated(x, *factors)


def _factors(x: torch.Tensor, sizes: Sequence[int] | None, scales: Sequence[float] | None) -> list[int] | None:
    """The whole factor of each direction; None where one is not."""
    old = x.shape[2:]
    if not static(*x.shape, *(sizes or ())) or x.dtype != torch.float32:
        return None
    by = list(scales) if scales else [new / size for new, size in zip(sizes or (), old, strict=True)]
    return [int(factor) for factor in by] if all(factor >= 1 and factor == int(factor) for factor in by) else None


def _repeated(x: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    count, channels, height, width = x.shape
    pixels = x.permute(0, 2, 3, 1).reshape(count, height, 1, width, 1, channels)
    y = pixels * torch.ones(1, 1, rows, 1, columns, 1)
    return y.reshape(count, height * rows, width * columns, channels).permute(0, 3, 1, 2)
