"""A network of which one layer cannot be held in 8 bits."""

from __future__ import annotations

import torch
from torch import nn

BATCH, WIDTH = 8, 16


class Spiky(nn.Module):
    """Three linear layers. Each row of `spiky` has one huge weight, and what it multiplies is always zero.

    One step of such a row is as large as its other weights: in 8 bits they are lost, and nothing else is.
    """

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.spiky, self.last = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        with torch.no_grad():
            for parameter in (self.first.weight[0], self.first.bias[0]):
                parameter.zero_()
            self.spiky.weight[:, 0] = 60.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`[8, 16]` to `[8, 16]`."""
        y: torch.Tensor = self.last(torch.relu(self.spiky(torch.relu(self.first(x)))))
        return y


def samples(count: int = 12) -> list[torch.Tensor]:
    """Inputs of one distribution."""
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(BATCH, WIDTH, generator=generator) for _ in range(count)]


MODEL_FILE = '''
import numpy as np
import torch
from budget_support import Spiky, samples

def get_model():
    return Spiky().eval()

def get_args():
    return (samples(1)[0],)

def calibration_data():
    yield from samples()

def evaluate(run):
    """1 for eager's own numbers, less for others."""
    model = get_model()
    x = samples(20)[-1]
    with torch.no_grad():
        wanted = model(x).numpy()
    (found,) = run(x)
    return 1.0 - float(((found - wanted) ** 2).sum() / (wanted**2).sum())
'''
