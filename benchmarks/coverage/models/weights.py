"""Weights of our own for published architectures, the same at every call.

Libraries start many layers at zero or near it: a residual branch that adds nothing and a head that answers 0.02
everywhere pass any comparison. So every weight is drawn anew, and norms take the statistics of what they see.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

SEED = 0


def draw_weights(module: nn.Module, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None) -> nn.Module:
    """Draw all weights so that a signal keeps its size, and calibrate batch norms on a call.

    Args:
        module: Is put in eval mode and changed in place.
        args: The call by position.
        kwargs: The call by name.

    Returns:
        The module.
    """
    generator = torch.Generator().manual_seed(SEED)
    module.eval()
    with torch.no_grad():
        for layer in module.modules():
            for name, tensor in layer.named_parameters(recurse=False):
                if tensor.is_floating_point() and tensor.numel():
                    tensor.copy_(_draw(layer, name, tensor, generator))
        norms = [layer for layer in module.modules() if isinstance(layer, _BatchNorm)]
        handles = [norm.register_forward_pre_hook(_take_statistics) for norm in norms]
        if norms:
            module(*_several(args, generator), **(kwargs or {}))
        for handle in handles:
            handle.remove()
    return module


def _several(args: tuple[Any, ...], generator: torch.Generator) -> tuple[torch.Tensor, ...]:
    """Eight images in place of one: statistics of one alone leave a network that explodes on every other."""
    if len(args) == 1 and args[0].dim() == 4 and args[0].shape[1] == 3:
        return (torch.randn(8, *args[0].shape[1:], generator=generator),)
    return args


def thin_out(module: nn.Module) -> nn.Module:
    """Keep two of every row of equal blocks: a deeper network holds more of the same, and takes longer.

    Equal are neighbours in an `nn.Sequential` of one class whose weights have the same shapes; what such a block gives
    fits into it, so the chain stays whole.
    """
    for sequence in [part for part in module.modules() if isinstance(part, nn.Sequential)]:
        kept: list[nn.Module] = []
        for block in sequence:
            if len(kept) < 2 or not (_alike(kept[-1], block) and _alike(kept[-2], block)):
                kept.append(block)
        if len(kept) < len(sequence):
            for name, block in zip([name for name, _ in sequence.named_children()], kept, strict=False):
                setattr(sequence, name, block)
            del sequence[len(kept) :]
    return module


def _alike(one: nn.Module, other: nn.Module) -> bool:
    shapes = [[(name, tensor.shape) for name, tensor in block.named_parameters()] for block in (one, other)]
    return type(one) is type(other) and len(list(one.children())) > 1 and bool(shapes[0]) and shapes[0] == shapes[1]


def _draw(layer: nn.Module, name: str, tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """New values: a matrix by its number of inputs, a scale near one, a shift near zero."""
    if tensor.dim() > 1:
        if isinstance(layer, nn.Embedding):
            return torch.randn(tensor.shape, generator=generator)
        inputs = max(1, tensor[0].numel())
        gain = 2.0 if isinstance(layer, (nn.Conv1d, nn.Conv2d, nn.Conv3d)) else 1.0
        return torch.randn(tensor.shape, generator=generator) * math.sqrt(gain / inputs)
    if name in ("weight", "scale") or "gamma" in name:
        return torch.rand(tensor.shape, generator=generator) * 0.4 + 0.8
    return torch.randn(tensor.shape, generator=generator) * 0.1


def _take_statistics(norm: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
    """What a training would have left behind, from one input `[N, C, ...]`, before the norm sees it."""
    assert isinstance(norm, _BatchNorm)
    if norm.running_mean is None or norm.running_var is None:
        return
    value = inputs[0].detach()
    channels = value.transpose(0, 1).reshape(value.shape[1], -1)
    if channels.shape[1] >= 8:
        norm.running_mean.copy_(channels.mean(1))
        # A channel that hardly varies would have its rounding errors made as large as the others' signals.
        variance = channels.var(1, unbiased=False)
        norm.running_var.copy_(variance.clamp(min=max(1e-3, float(variance.mean()) / 4)))
    else:  # a channel has too few values to tell: all channels share theirs
        norm.running_mean.fill_(float(channels.mean()))
        norm.running_var.fill_(max(float(channels.var(unbiased=False)), 1e-3))
