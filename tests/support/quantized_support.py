"""Quantized programs made by hand: quantized_decomposed operators in a model's own forward, no quantizer involved."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import torch
import torch.ao.quantization.fx._decomposed
from onnx_support import capture
from torch import nn

from edgex.delegates.base import CapturedProgram
from edgex.delegates.recipes.recipes import get_recipe

_OPS = torch.ops.quantized_decomposed


def as_quantized(program: CapturedProgram, recipe: str = "int8", **changes: Any) -> CapturedProgram:
    return dataclasses.replace(program, recipe=get_recipe(recipe), **changes)


def capture_quantized(
    module: nn.Module, args: tuple[Any, ...], recipe: str = "int8", **options: Any
) -> CapturedProgram:
    return as_quantized(capture(module, args, **options), recipe)


def between(x: torch.Tensor, scale: float, zero: int) -> torch.Tensor:
    """A value in signed bytes and back."""
    arguments = (scale, zero, -128, 127, torch.int8)
    return _OPS.dequantize_per_tensor(_OPS.quantize_per_tensor(x, *arguments), *arguments)


class ByteWeight(nn.Module):
    """A weight in signed bytes with a scale an output channel; of 7 bits, right on every processor."""

    def __init__(self, *shape: int, seed: int = 0, axis: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        channels = shape[axis]
        fan_in = max(1, torch.Size(shape).numel() // channels)
        self.register_buffer("data", torch.randint(-63, 64, shape, generator=generator, dtype=torch.int8))
        self.register_buffer("scale", (0.5 + torch.rand(channels, generator=generator)) / 64 / fan_in**0.5)
        self.register_buffer("zero", torch.zeros(channels, dtype=torch.int64))
        self.axis = axis

    def forward(self) -> torch.Tensor:
        return _OPS.dequantize_per_channel(self.data, self.scale, self.zero, self.axis, -127, 127, torch.int8)


class Bytes(nn.Module):
    """A convolution and a linear layer on bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = ByteWeight(4, 3, 3, 3), ByteWeight(5, 4, seed=1)
        self.bias = nn.Parameter(torch.tensor([0.5, -0.25, 0.125, 1.0]))

    def forward(self, x):
        y = nn.functional.conv2d(between(x, 0.03, 4), self.conv(), self.bias)
        y = between(torch.relu(y), 0.02, -128).mean((2, 3))
        return between(nn.functional.linear(between(y, 0.02, -128), self.head()), 0.03, -7)


def optimized(folder: Path) -> onnx.ModelProto:
    """The graph that ONNX Runtime runs."""
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(folder.parent / "optimized.onnx")
    options.log_severity_level = 4
    onnxruntime.InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])
    return onnx.load(folder.parent / "optimized.onnx")


def kinds(model: onnx.ModelProto) -> Counter[str]:
    return Counter(node.op_type for node in model.graph.node)
