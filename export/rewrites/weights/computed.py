"""Write convolutions whose weights a run computes as products of matrices, which XNNPACK takes.

```
before:  y = aten.conv2d.default(x, weights, bias, [1, 1], [1, 1])      # x: [1, 64, 32, 32], weights: [96, 64, 3, 3]
after:   windows = aten.im2col.default(x, [3, 3], ...)                          # [1, 576, 1024]
         y = (weights.reshape(96, 576) @ windows).reshape(1, 96, 32, 32) + bias[:, None, None]

before:  y = aten.conv_transpose2d.input(x, weights, None, [2, 2])      # weights: [64, 96, 3, 3]
after:   windows = weights.reshape(64, 864).t() @ x.reshape(1, 64, 1024)
         y = aten.col2im.default(windows, [65, 65], [3, 3], ...)
```

XNNPACK's convolutions need constant weights, and ExecuTorch's kernel goes number by number: the modulated convolutions
of StyleGAN2 took forty times as long as eager's, and there are mixtures of kernels (CondConv, dynamic convolution) and
networks that make networks. Left alone: other types than float32, volumes, sizes that only a run knows, and windows of
more than `_MOST_BYTES`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node
from torch.nn import functional as F

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import named_arguments
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.editor import constant_tensors
from edgex.export.rewrites.editing.substitution import Rule, Rules, static, substitute
from edgex.export.rewrites.folding.constants import find_foldable
from edgex.export.rewrites.pooling.windows import each
from edgex.export.rewrites.products.named_padding import with_named_padding

aten = torch.ops.aten

# Of all windows of one convolution, which are copied: those of 64 channels, 3 x 3, at 512 x 512 places have 604 MB.
_MOST_BYTES = 1024 * 1024 * 1024


def multiply_windows(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such convolution; the same program comes back without one."""
    if not any(str(node.target).startswith("aten.conv") for node in program.exported.graph.nodes):
        return program, None
    weights = constant_tensors(program)
    known = weights.keys() | find_foldable(program, weights, 0).keys()

    def is_computed(node: Node) -> bool:
        return named_arguments(node)["weight"] not in known

    rules: Rules = {
        aten.conv1d.default: Rule(_convolve, where=is_computed),
        aten.conv2d.default: Rule(_convolve, where=is_computed),
        aten.conv1d.padding: Rule(with_named_padding(_convolve), where=is_computed),
        aten.conv2d.padding: Rule(with_named_padding(_convolve), where=is_computed),
        aten.conv_transpose1d.default: Rule(_convolve_transposed, where=is_computed),
        aten.conv_transpose2d.input: Rule(_convolve_transposed, where=is_computed),
    }
    detail = "{count} convolution(s) with weights that a run computes became products of matrices"
    return substitute(program, "multiply_windows", rules, detail)


def _convolve(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Any:
    if not _fits(x, weight):
        return NotImplemented
    count, outputs, sizes = x.shape[0], weight.shape[0], x.shape[2:]
    kernel = weight.shape[2:]
    given = [each(value, len(kernel)) for value in (stride, padding, dilation)]
    made = [
        (size + 2 * pad - step * (width - 1) - 1) // by + 1
        for size, width, by, pad, step in zip(sizes, kernel, *given, strict=True)
    ]
    image, window = _as_image(x), _of_image(kernel, 1)
    strides, paddings, dilations = (_of_image(value, fill) for value, fill in zip(given, (1, 0, 1), strict=True))
    plain = math.prod(window) == 1 and strides == [1, 1] and paddings == [0, 0]
    rows = weight.shape[1] * math.prod(kernel)
    if 4 * count * groups * rows * math.prod(made) > _MOST_BYTES:
        return NotImplemented
    windows = image.flatten(2) if plain else aten.im2col(image, window, dilations, paddings, strides)
    windows = windows.reshape(count, groups, rows, math.prod(made))
    y = torch.matmul(weight.reshape(1, groups, outputs // groups, rows), windows)
    return _with_bias(y.reshape(count, outputs, *made), bias)


def _convolve_transposed(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    output_padding: Sequence[int],
    groups: int,
    dilation: Sequence[int],
) -> Any:
    if not _fits(x, weight):
        return NotImplemented
    (count, inputs), sizes = x.shape[:2], x.shape[2:]
    outputs, kernel = weight.shape[1], weight.shape[2:]
    by, pads, more, steps = (each(value, len(kernel)) for value in (stride, padding, output_padding, dilation))
    # Whole, as if nothing was cut off: what is added behind may lie in what the padding cuts off.
    whole = [
        (size - 1) * jump + step * (width - 1) + 1
        for size, width, jump, step in zip(sizes, kernel, by, steps, strict=True)
    ]
    cut = any(more)
    made, left = (whole, [0] * len(kernel)) if cut else ([a - 2 * b for a, b in zip(whole, pads, strict=True)], pads)
    rows = outputs * math.prod(kernel)
    if 4 * count * groups * rows * math.prod(sizes) > _MOST_BYTES:
        return NotImplemented
    matrix = weight.reshape(1, groups, inputs // groups, rows).transpose(2, 3)
    windows = torch.matmul(matrix, x.reshape(count, groups, inputs // groups, math.prod(sizes)))
    windows = windows.reshape(count, groups * rows, math.prod(sizes))
    given = [_of_image(values, fill) for values, fill in ((made, 1), (kernel, 1), (steps, 1), (left, 0), (by, 1))]
    y = aten.col2im(windows, *given).reshape(count, groups * outputs, *made)
    if cut:
        behind = [max(extra - pad, 0) for extra, pad in zip(more, pads, strict=True)]
        y = F.pad(y, [end for size in reversed(behind) for end in (0, size)])
        for dim, (size, pad, extra) in enumerate(zip(whole, pads, more, strict=True), 2):
            y = y.narrow(dim, pad, size - 2 * pad + extra)
    return _with_bias(y, bias)


def _fits(x: torch.Tensor, weight: torch.Tensor) -> bool:
    if not x.dtype == weight.dtype == torch.float32 or x.dim() != weight.dim():
        return False
    return static(*x.shape, *weight.shape) and x.numel() > 0


def _as_image(x: torch.Tensor) -> torch.Tensor:
    return x.unsqueeze(2) if x.dim() == 3 else x


def _of_image(values: Sequence[int], fill: int) -> list[int]:
    """What is said of a sequence, of an image of height 1."""
    return [fill, *values] if len(values) == 1 else list(values)


def _with_bias(y: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    return y if bias is None else y + bias.reshape(-1, *([1] * (y.dim() - 2)))
