"""Write resizing as products with a matrix for each direction, where an engine has no operator for it.

```
before:  y = aten.upsample_bilinear2d.vec(x, None, True, [2.0, 2.0])    # x: [1, 8, 16, 16], align_corners=True
after:   wide = linear(x, columns)                                      # columns: [32, 16], a constant
         y = linear(wide.transpose(2, 3), rows).transpose(2, 3)         # rows: [32, 16]
```

A row of a matrix has the few weights that PyTorch resizes with, and zeros; a single 1 for the nearest element, by other
factors than whole ones. ExecuTorch's kernel computes one element at a time; for bicubic resizing there is none, and
lowering gathers sixteen copies of the image, eight of a volume for trilinear resizing; with `antialias=True` there is
neither kernel nor decomposition. Left alone: sizes that only a run knows, and images so large that the zeros would cost
more, except where nothing else runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch
from torch.nn import functional as F

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rules, static, substitute
from edgex.export.rewrites.products.nearest import repeat_sequence

aten = torch.ops.aten

# Multiplications for an element of the result, which ExecuTorch's kernel has in that time.
_MOST_PRODUCTS = 512

# As many as ONNX Runtime's bicubic kernel has, and matrices of some megabytes.
_MOST_FOR_ONNX = 2048

# As many as its bilinear kernel has, with a margin: at 96 they take 0.86 of its time, at 160 1.2 times as long.
_MOST_FOR_BILINEAR = 64

# As many for a copy of one element.
_MOST_FOR_NEAREST = 128

# What no engine under ExecuTorch runs, nor a decomposition of PyTorch.
_ANTIALIASED: tuple[Any, ...] = (aten._upsample_bilinear2d_aa.vec, aten._upsample_bicubic2d_aa.vec)

Resize = Callable[[torch.Tensor, Any, Any], torch.Tensor]


def write_resizes(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every resize but those of an image that are bilinear, or to the nearest element by whole factors."""
    rules: Rules = {
        aten.upsample_bicubic2d.vec: _bicubic,
        aten.upsample_linear1d.vec: _linear,
        aten.upsample_nearest1d.vec: _nearest_of_sequence,
        aten.upsample_nearest2d.vec: _nearest(aten.upsample_nearest2d.vec),
        aten.upsample_trilinear3d.vec: _trilinear,
        aten.upsample_nearest3d.vec: _nearest_of_volume(aten.upsample_nearest3d.vec),
        aten._upsample_nearest_exact1d.vec: _nearest(aten._upsample_nearest_exact1d.vec),
        aten._upsample_nearest_exact2d.vec: _nearest(aten._upsample_nearest_exact2d.vec),
        aten._upsample_nearest_exact3d.vec: _nearest_of_volume(aten._upsample_nearest_exact3d.vec),
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
    """Write bicubic resizes and those of volumes for ONNX Runtime, which asks anew for each element where it lies.

    That takes it 110 ns of a bicubic one, 20 of a trilinear and 57 of the nearest in a volume (Zen 4). It takes 2 for a
    bilinear one of an image (Xeon with AVX-512), of which those of few rows and columns are written. The matrices
    stand on the left, where recipes that quantize the weights of linear layers leave them alone.
    """
    rules: Rules = {
        aten.upsample_bilinear2d.vec: _from_the_left(aten.upsample_bilinear2d.vec, _MOST_FOR_BILINEAR),
        aten.upsample_bicubic2d.vec: _from_the_left(aten.upsample_bicubic2d.vec),
        aten.upsample_trilinear3d.vec: _from_the_left(aten.upsample_trilinear3d.vec),
        aten.upsample_nearest3d.vec: _nearest_of_volume(aten.upsample_nearest3d.vec, left=True),
    }
    return substitute(
        program,
        "write_cubics",
        rules,
        "{count} resize(s) ({operators}) became products with matrices",
        keeps_float=True,
    )


def _bilinear(x: torch.Tensor, sizes: Sequence[int] | None, corners: bool, scales: Sequence[float] | None) -> Any:
    if not corners:
        return NotImplemented
    return _by_matrices(x, sizes, scales, lambda one, to, by: aten.upsample_bilinear2d.vec(one, to, corners, by))


def _bicubic(x: torch.Tensor, sizes: Sequence[int] | None, corners: bool, scales: Sequence[float] | None) -> Any:
    return _by_matrices(x, sizes, scales, lambda one, to, by: aten.upsample_bicubic2d.vec(one, to, corners, by))


def _from_the_left(operator: Any, most: int = _MOST_FOR_ONNX) -> Callable[..., Any]:
    def write(x: torch.Tensor, sizes: Sequence[int] | None, corners: bool, scales: Sequence[float] | None) -> Any:
        def resize(one: torch.Tensor, to: Any, by: Any) -> torch.Tensor:
            found: torch.Tensor = operator(one, to, corners, by)
            return found

        return _by_matrices(x, sizes, scales, resize, most, left=True)

    return write


def _linear(x: torch.Tensor, sizes: Sequence[int] | None, corners: bool, scales: Sequence[float] | None) -> Any:
    return _by_matrices(x, sizes, scales, lambda one, to, by: aten.upsample_linear1d.vec(one, to, corners, by))


def _trilinear(x: torch.Tensor, sizes: Sequence[int] | None, corners: bool, scales: Sequence[float] | None) -> Any:
    return _by_matrices(x, sizes, scales, lambda one, to, by: aten.upsample_trilinear3d.vec(one, to, corners, by))


def _nearest_of_sequence(x: torch.Tensor, sizes: Sequence[int] | None, scales: Sequence[float] | None) -> Any:
    """By whole factors as repetition: oneDNN has that of images alone."""
    repeated = repeat_sequence(x, sizes, scales)
    return _nearest(aten.upsample_nearest1d.vec)(x, sizes, scales) if repeated is NotImplemented else repeated


def _nearest_of_volume(operator: Any, *, left: bool = False) -> Callable[..., Any]:
    """By whole factors too: of a volume, engines have neither."""

    def write(x: torch.Tensor, sizes: Sequence[int] | None, scales: Sequence[float] | None) -> Any:
        return _by_matrices(x, sizes, scales, lambda one, to, by: operator(one, to, by), left=left)

    return write


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
    products = sum(old[at] * prod(old[:at]) / prod(new[:at]) for at in range(directions))
    if most is not None and products > most:
        return NotImplemented
    y = x
    for direction in reversed(range(directions)):
        # An image whose only row, of as many channels as elements, has a 1 in another place in each of them.
        ones = torch.eye(old[direction]).view(1, old[direction], *[1] * (directions - 1), old[direction])
        to = None if sizes is None else [*[1] * (directions - 1), new[direction]]
        by = None if scales is None else [*[1.0] * (directions - 1), scales[direction]]
        matrix = resize(ones, to, by).view(old[direction], new[direction]).t()
        y = (_from_left if left else _from_right)(y, matrix, direction + 2)
    return y


def _from_right(x: torch.Tensor, matrix: torch.Tensor, dim: int) -> torch.Tensor:
    """A product along one dimension, as a linear layer."""
    if dim == x.dim() - 1:
        return F.linear(x, matrix)
    return F.linear(x.transpose(dim, -1), matrix).transpose(dim, -1)


def _from_left(x: torch.Tensor, matrix: torch.Tensor, dim: int) -> torch.Tensor:
    """The same with the matrix on the left: what lies behind the dimension are the columns."""
    if dim == x.dim() - 1:
        return torch.matmul(matrix, x.transpose(-2, -1)).transpose(-2, -1)
    before, behind = list(x.shape[:dim]), list(x.shape[dim + 1 :])
    y = torch.matmul(matrix, x.flatten(dim + 1) if len(behind) > 1 else x)
    return y.reshape([*before, matrix.shape[0], *behind]) if len(behind) > 1 else y
