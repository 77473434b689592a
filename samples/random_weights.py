"""Random weights for samples that are not trained, chosen so that outputs stay in a normal range."""

from __future__ import annotations

import torch
from torch import nn


def randomise_weights(module: nn.Module, seed: int = 0) -> None:
    """Draw every parameter and running statistic anew, in place.

    PyTorch's and most model files' own initial values are made for training. In a deep model they leave outputs near
    zero, and zeros match zeros whatever an engine computes. Here weights have a variance of 2 / fan-in, so that
    signals keep their size through ReLU-like layers, and normalisation layers get scales, shifts and statistics
    that a wrong fold would show.

    Args:
        module: The model; its names and shapes decide the values.
        seed: The same seed gives the same weights, whatever was drawn before.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if parameter.dim() > 1:
                # [out, in, *kernel]: every axis but the first feeds one output
                fan_in = parameter[0].numel()
                parameter.normal_(0.0, (2.0 / fan_in) ** 0.5, generator=generator)
            elif name.endswith("bias"):
                parameter.normal_(0.0, 0.1, generator=generator)
            else:
                parameter.normal_(1.0, 0.1, generator=generator)
        for name, buffer in module.named_buffers():
            if name.endswith("running_mean"):
                buffer.normal_(0.0, 0.1, generator=generator)
            elif name.endswith("running_var"):
                buffer.uniform_(0.5, 1.5, generator=generator)
