"""Write resizing as products with a matrix for each direction, where an engine has no operator for it.

```
before:  y = aten.upsample_bilinear2d.vec(x, None, True, [2.0, 2.0])    # x: [1, 8, 16, 16], align_corners=True
after:   wide = linear(x, columns)                                      # columns: [32, 16], a constant
         y = linear(wide.transpose(2, 3), rows).transpose(2, 3)         # rows: [32, 16]
```

A row of a matrix has the few weights that PyTorch resizes with, and zeros; a single 1 for the nearest element, by other
factors than whole ones. ExecuTorch's kernel computes one element at a time; for bicubic resizing there is none, and
lowering gathers sixteen copies of the image; resizing with `antialias=True` has neither kernel nor decomposition. Left
alone: sizes that only a run knows, and images so large that the zeros would cost more, except where nothing else runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional as F

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rules, static, substitute

aten = torch.ops.aten

# Multiplications for an element of the result, which ExecuTorch's kernel has in that time.
_MOST_PRODUCTS = 512

# As many as ONNX Runtime's bicubic kernel has, and matrices of some megabytes.
_MOST_FOR_ONNX = 2048

# As many for a copy of one element.
_MOST_FOR_NEAREST = 128

# What no engine under ExecuTorch runs, nor a decomposition of PyTorch.
_ANTIALIASED: tuple[Any, ...] = (aten._upsample_bilinear2d_aa.vec, aten._upsample_bicubic2d_aa.vec)

Resize = Callable[[torch.Tensor, Any, Any], torch.Tensor]


def write_resizes(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every resize that is bicubic, antialiased, to the nearest element by no whole factor, or of a sequence."""
    rules: Rules = {
        aten.upsample_bicubic2d.vec: _bicubic,
        aten.upsample_linear1d.vec: _linear,
        aten.upsample_nearest1d.vec: _nearest(aten.upsample_nearest1d.vec),
        aten.upsample_nearest2d.vec: _nearest(aten.upsample_nearest2d.vec),
        **{operator: _antialiased(operator) for operator in _ANTIALIASED},
    }
    return substitute(
        program, "write_resizes", rules, "{count} resize(s) became products with constant matrices", keeps_float=True
    )


def write_corners(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every bilinear resize with `align_corners=True`; the same program comes back without one."""
    rules: Rules = {aten.upsample_bilinear2d.vec: _bilinear}
    return substitute(
        program, "write_corners", rules, "{count} resize(s) of corners became products with matrices", keeps_float=True
    )


def write_cubics(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every bicubic resize for ONNX Runtime, which computes the weights of each element anew: 110 ns each.

    The matrices stand on the left, where recipes that quantize the weights of linear layers leave them alone.
    """
    rules: Rules = {aten.upsample_bicubic2d.vec: _bicubic_from_the_left}
    return substitute(
        program, "write_cubics", rules, "{count} bicubic resize(s) became products with matrices", keeps_float=True
    )


def _bilinear(x: torch.Tensor, sizes: Sequence[int] | None, corners: bool, scales: Sequence[float] | None) -> Any:
    if not corners:
        return NotImplemented
    return _by_matrices(x, sizes, scales, lambda one, to, by: aten.upsample_bilinear2d.vec(one, to, corners, by))


def _bicubic(x: torch.Tensor, sizes: Sequence[int] | None, corners: bool, scales: Sequence[float] | None) -> Any:
    return _by_matrices(x, sizes, scales, lambda one, to, by: aten.upsample_bicubic2d.vec(one, to, corners, by))


def _bicubic_from_the_left(
    x: torch.Tensor, sizes: Sequence[int] | None, corners: bool, scales: Sequence[float] | None
) -> Any:
    def resize(one: torch.Tensor, to: Any, by: Any) -> torch.Tensor:
        found: torch.Tensor = aten.upsample_bicubic2d.vec(one, to, corners, by)
        return found

    return _by_matrices(x, sizes, scales, resize, _MOST_FOR_ONNX, left=True)


def _linear(x: torch.Tensor, sizes: Sequence[int] | None, corners: bool, scales: Sequence[float] | None) -> Any:
    return _by_matrices(x, sizes, scales, lambda one, to, by: aten.upsample_linear1d.vec(one, to, corners, by))


def _nearest(operator: Any) -> Callable[..., Any]:
    """By other factors than whole ones, which engines have."""

    def write(x: torch.Tensor, sizes: Sequence[int] | None, scales: Sequence[float] | None) -> Any:
        if not static(*x.shape[2:], *(sizes or ())):
            return NotImplemented
        factors = scales or [new / old for new, old in zip(sizes or (), x.shape[2:], strict=True)]
        if all(factor >= 1 and factor == int(factor) for factor in factors):
            return NotImplemented
        return _by_matrices(x, sizes, scales, lambda one, to, by: operator(one, to, by), most=_MOST_FOR_NEAREST)

    return write


def _antialiased(operator: Any) -> Callable[..., Any]:
    def write(x: torch.Tensor, sizes: Sequence[int] | None, corners: bool, scales: Sequence[float] | None) -> Any:
        return _by_matrices(x, sizes, scales, lambda one, to, by: operator(one, to, corners, by), most=None)

    return write


def _by_matrices(
    x: torch.Tensor,
    sizes: Sequence[int] | None,
    scales: Sequence[float] | None,
    resize: Resize,
    most: int | None = _MOST_PRODUCTS,
    *,
    left: bool = False,
) -> Any:
    directions = x.dim() - 2
    if not static(*x.shape[2:], *(sizes or ())) or x.dtype != torch.float32:
        return NotImplemented
    old = list(x.shape[2:])
    if list(x.shape) == [1, old[-1], *[1] * (directions - 1), old[-1]]:
        return NotImplemented  # one of the images below
    new = list(sizes) if sizes else [int(size * scale) for size, scale in zip(old, scales or (), strict=True)]
    # Columns come first, and rows are then computed of as many as the result has.
    products = old[0] if directions == 1 else old[1] * old[0] / new[0] + old[0]
    if most is not None and products > most:
        return NotImplemented
    y = x
    for direction in reversed(range(directions)):
        # An image whose only row, of as many channels as elements, has a 1 in another place in each of them.
        ones = torch.eye(old[direction]).view(1, old[direction], *[1] * (directions - 1), old[direction])
        to = None if sizes is None else [*[1] * (directions - 1), new[direction]]
        by = None if scales is None else [*[1.0] * (directions - 1), scales[direction]]
        matrix = resize(ones, to, by).view(old[direction], new[direction]).t()
        columns = direction == directions - 1
        if left:
            y = torch.matmul(matrix, y.transpose(2, 3)).transpose(2, 3) if columns else torch.matmul(matrix, y)
        else:
            y = F.linear(y, matrix) if columns else F.linear(y.transpose(2, 3), matrix).transpose(2, 3)
    return y
