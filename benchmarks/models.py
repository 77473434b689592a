"""The models that are measured. Weights are random but scaled so that outputs are far from zero.

`edgex export benchmarks/models.py:tiny` and so on: each name is a function that gives a module and its example inputs.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

Example = tuple[nn.Module, tuple[torch.Tensor, ...]]


class Tiny(nn.Module):
    """One linear layer of 8 x 8."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`[1, 8]` to `[1, 8]`."""
        result: torch.Tensor = self.linear(x)
        return result


def tiny() -> Example:
    """Next to nothing to compute, so that what surrounds it shows."""
    torch.manual_seed(0)
    return Tiny().eval(), (torch.randn(1, 8),)


class Relu(nn.Module):
    """16 MiB in, 16 MiB out."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Any shape."""
        return torch.relu(x)


def large() -> Example:
    """16 MiB in and out, and little to compute: copies show."""
    torch.manual_seed(0)
    return Relu().eval(), (torch.randn(4, 1024, 1024),)


class Bottleneck(nn.Module):
    """ResNet's block of 1x1, 3x3 and 1x1 convolutions beside a shortcut."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = width * 4
        self.body = nn.Sequential(
            nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs),
        )  # fmt: skip
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`[N, C, H, W]` to `[N, 4 width, H / stride, W / stride]`."""
        return functional.relu(self.body(x) + self.shortcut(x))


class ResNet(nn.Module):
    """The classifier of He et al., 2015, with bottlenecks."""

    def __init__(self, depths: tuple[int, ...]) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        blocks: list[nn.Module] = []
        channels = 64
        for stage, depth in enumerate(depths):
            width = 64 * 2**stage
            for number in range(depth):
                blocks.append(Bottleneck(channels, width, 2 if number == 0 and stage > 0 else 1))
                channels = width * 4
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(channels, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Images `[N, 3, 224, 224]` to scores `[N, 1000]`."""
        features: torch.Tensor = self.blocks(self.stem(x)).mean((2, 3))
        scores: torch.Tensor = self.head(features)
        return scores


def _make_resnet(depths: tuple[int, ...]) -> Example:
    torch.manual_seed(0)
    model = ResNet(depths)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            if isinstance(module, nn.BatchNorm2d):
                module.running_mean.normal_(0.0, 0.1)
                module.running_var.uniform_(0.8, 1.25)
        for module in model.modules():
            if isinstance(module, Bottleneck):
                # Sixteen full residuals would double the variance sixteen times.
                module.body[-1].weight.fill_(0.3)
    return model.eval(), (torch.randn(1, 3, 224, 224),)


def resnet50() -> Example:
    """25.6 million parameters."""
    return _make_resnet((3, 4, 6, 3))


def resnet_small() -> Example:
    """The same with one block a stage, for quick runs."""
    return _make_resnet((1, 1, 1, 1))


class EncoderLayer(nn.Module):
    """BERT's layer: attention and a feed-forward block, each followed by its layer norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm_attention, self.norm_output = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """`[N, L, D]`, and a mask `[N, 1, 1, L]` that is added to attention scores; to `[N, L, D]`."""
        batch, length, width = x.shape

        def split(y: torch.Tensor) -> torch.Tensor:
            return y.view(batch, length, self.heads, width // self.heads).transpose(1, 2)

        query, key, value = split(self.query(x)), split(self.key(x)), split(self.value(x))
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        x = self.norm_attention(x + self.out(mixed.transpose(1, 2).reshape(batch, length, width)))
        result: torch.Tensor = self.norm_output(x + self.down(functional.gelu(self.up(x))))
        return result


class Bert(nn.Module):
    """The encoder of Devlin et al., 2018, with its pooler."""

    def __init__(self, layers: int, width: int = 768, heads: int = 12, words: int = 30522, length: int = 512) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(words, width), nn.Embedding(length, width)
        self.norm = nn.LayerNorm(width)
        self.layers = nn.ModuleList(EncoderLayer(width, heads) for _ in range(layers))
        self.pooler = nn.Linear(width, width)

    def forward(self, tokens: torch.Tensor, attention_mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Token numbers and 0/1 mask, int64 `[N, L]`, to states `[N, L, D]` and the pooled first one `[N, D]`."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.norm(self.words(tokens) + self.positions(places))
        mask = (1.0 - attention_mask[:, None, None, :].to(x.dtype)) * -1e4
        for layer in self.layers:
            x = layer(x, mask)
        return x, torch.tanh(self.pooler(x[:, 0]))


def _make_bert(layers: int) -> Example:
    torch.manual_seed(0)
    model = Bert(layers).eval()
    tokens = torch.randint(0, 30522, (1, 128))
    attention_mask = torch.ones(1, 128, dtype=torch.int64)
    attention_mask[:, 100:] = 0
    return model, (tokens, attention_mask)


def bert_base() -> Example:
    """12 layers of 768 with 12 heads, 128 tokens: 109 million parameters."""
    return _make_bert(12)


def bert_small() -> Example:
    """The same with two layers, for quick runs."""
    return _make_bert(2)
