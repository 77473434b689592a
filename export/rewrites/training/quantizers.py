"""Formulas of the fake quantizers that quantization-aware training leaves in forward, for which no engine has a kernel.

```
before:  y = aten.fake_quantize_per_tensor_affine.default(x, 0.05, 3, 0, 255)
after:   q = clamp(round(x * 20.0) + 3, 0, 255)
         y = (q - 3) * 0.05
```
"""

from __future__ import annotations

from typing import Any

import numpy
import torch

from edgex.export.rewrites.editing.substitution import Rules

aten = torch.ops.aten


def rules_of_quantizers() -> Rules:
    """The rules of this file, by operator."""
    return {
        aten.fake_quantize_per_tensor_affine.default: _by_numbers,
        aten.fake_quantize_per_tensor_affine.tensor_qparams: _by_tensors,
        aten.fake_quantize_per_channel_affine.default: _by_channels,
    }


def _by_numbers(x: torch.Tensor, scale: float, zero_point: int, low: int, high: int) -> Any:
    if x.dtype != torch.float32:
        return NotImplemented
    inverse = float(numpy.float32(1) / numpy.float32(scale))  # as PyTorch's kernel multiplies
    return (torch.clamp(torch.round(x * inverse) + zero_point, low, high) - zero_point) * scale


def _by_tensors(x: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor, low: int, high: int) -> Any:
    if not x.dtype == scale.dtype == torch.float32:
        return NotImplemented
    return _quantized(x, scale.reshape([]), zero_point.reshape([]), low, high)


def _by_channels(x: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor, axis: int, low: int, high: int) -> Any:
    # Zero points that are no whole numbers are added ahead of rounding.
    if not x.dtype == scale.dtype == torch.float32 or zero_point.is_floating_point():
        return NotImplemented
    shape = [1] * x.dim()
    shape[axis] = -1
    return _quantized(x, scale.reshape(shape), zero_point.reshape(shape), low, high)


def _quantized(x: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor, low: int, high: int) -> torch.Tensor:
    zero = zero_point.to(torch.float32)
    return (torch.clamp(torch.round(x * torch.reciprocal(scale)) + zero, low, high) - zero) * scale
