"""Models that change Python values without harm."""

import torch
from torch import nn


class LazyTable(nn.Module):
    """Fills a cache on its first run."""

    def __init__(self):
        super().__init__()
        self.table = None

    def forward(self, x):
        if self.table is None:
            self.table = torch.arange(4.0)
        return x + self.table


class KeepsAttention(nn.Module):
    """Keeps an intermediate tensor to look at."""

    def forward(self, x):
        self.attention = torch.softmax(x, -1)
        return x + self.attention


class TableOfItsSize(nn.Module):
    """Fills a cache anew when the size changes, also while it is traced with another size."""

    def __init__(self):
        super().__init__()
        self.table = None

    def forward(self, x):
        if self.table is None or self.table.shape[0] != x.shape[0]:
            self.table = torch.ones(x.shape[0], 4) * 3
        return x + self.table


class Prints(nn.Module):
    def forward(self, x):
        print("mean", x.mean())
        return x * 2


class UnusedNoise(nn.Module):
    def forward(self, x):
        torch.rand(3)
        return x * 2


class OldWeightNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.utils.weight_norm(nn.Linear(4, 4))

    def forward(self, x):
        return self.linear(x)
