"""What `benchmarks/cost/why.py` asks about; both can be made on the meta device, without weights."""

from __future__ import annotations

import torch
from torch import nn


class Bottleneck(nn.Module):
    """The block of ResNet-50."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.path = nn.Sequential(
            *(nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()),
            *(nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()),
            *(nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)),
        )
        self.short: nn.Module = nn.Identity()
        if channels != 4 * width:
            widen = nn.Conv2d(channels, 4 * width, 1, stride, bias=False)
            self.short = nn.Sequential(widen, nn.BatchNorm2d(4 * width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: `[N, C, H, W]`."""
        return torch.relu(self.path(x) + self.short(x))


class Layer(nn.Module):
    """A transformer layer with causal attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: `[N, length, width]`."""
        batch, length, width = x.shape
        qkv = self.qkv(self.norms[0](x)).reshape(batch, length, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(nn.functional.gelu(self.up(self.norms[1](x))))


def resnet50() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """25.6 million parameters."""
    parts: list[nn.Module] = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    parts.append(nn.MaxPool2d(3, 2, 1))
    channels = 64
    for width, count in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for number in range(count):
            parts.append(Bottleneck(channels, width, 2 if number == 0 and width > 64 else 1))
            channels = 4 * width
    tail = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))
    return nn.Sequential(*parts, *tail).eval(), (torch.rand(1, 3, 224, 224),)


def billion() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """A decoder of 20 layers of width 2048: 1.07 billion parameters."""
    layers = (Layer(2048, 16) for _ in range(20))
    model = nn.Sequential(nn.Embedding(16000, 2048), *layers, nn.LayerNorm(2048), nn.Linear(2048, 16000, bias=False))
    return model.eval(), (torch.zeros(1, 128, dtype=torch.int64),)
