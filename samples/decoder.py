"""A transformer decoder that keeps its own key-value cache: one token in, scores for the next one out.

```
edgex export samples/decoder.py -t xnnpack
```

The cache and the position are buffers that forward changes. edgex carries them from run to run inside the Session, on
every target; `session.reset()` starts a new text. The cache is a ring: after `CONTEXT` tokens the oldest is
forgotten, so that any number of tokens can follow each other. The weights are random.
"""

from __future__ import annotations

import math

import torch
from torch import nn

from edgex.samples.random_weights import randomise_weights

VOCABULARY, WIDTH, HEADS, LAYERS, CONTEXT = 96, 64, 4, 2, 32
HEAD = WIDTH // HEADS

model_card = {"vocabulary": "printable ASCII, from space", "context": CONTEXT}


class CachedAttention(nn.Module):
    """Attention of one token to itself and to what the cache holds."""

    keys: torch.Tensor
    values: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(WIDTH, 3 * WIDTH)
        self.output = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("keys", torch.zeros(1, HEADS, CONTEXT, HEAD))
        self.register_buffer("values", torch.zeros(1, HEADS, CONTEXT, HEAD))

    def forward(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """The token's state `[1, 1, 64]` at a position int64 `[1]` to its new state `[1, 1, 64]`."""
        query, key, value = self.project(x).view(1, 3, HEADS, 1, HEAD).unbind(1)  # each [1, 4, 1, 16]
        slot = position % CONTEXT
        self.keys.index_copy_(2, slot, rotate(key, position))
        self.values.index_copy_(2, slot, value)
        filled = torch.arange(CONTEXT) <= position  # [CONTEXT]; all of them once the ring is full
        bias = torch.where(filled, 0.0, -1e9).view(1, 1, 1, CONTEXT)
        scores = rotate(query, position) @ self.keys.transpose(2, 3) / HEAD**0.5 + bias
        states: torch.Tensor = self.output((scores.softmax(-1) @ self.values).reshape(1, 1, WIDTH))
        return states


def rotate(x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
    """Rotary position embedding of `[1, HEADS, 1, HEAD]`: scores then depend on distances, not on positions."""
    frequencies = torch.exp(torch.arange(0, HEAD, 2) * (-math.log(100.0) / HEAD))
    angles = position.to(torch.float32) * frequencies  # [HEAD / 2]
    cos, sin = angles.cos(), angles.sin()
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)


class Block(nn.Module):
    """Attention, then two linear layers, each behind a norm and added to what came in."""

    def __init__(self) -> None:
        super().__init__()
        self.before_attention = nn.LayerNorm(WIDTH)
        self.attention = CachedAttention()
        self.before_linear = nn.LayerNorm(WIDTH)
        self.linear = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """`[1, 1, 64]` to `[1, 1, 64]`."""
        x = x + self.attention(self.before_attention(x), position)
        states: torch.Tensor = x + self.linear(self.before_linear(x))
        return states


class Decoder(nn.Module):
    """Embedding, two blocks, scores over the vocabulary; counts its own position."""

    position: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.scores = nn.Linear(WIDTH, VOCABULARY)
        self.register_buffer("position", torch.zeros(1, dtype=torch.int64))

    def forward(self, token: torch.Tensor) -> torch.Tensor:
        """The next token, int64 `[1, 1]`, to scores for the one after it, `[1, 96]`."""
        x = self.embed(token)
        for block in self.blocks:
            x = block(x, self.position)
        self.position.add_(1)
        scores: torch.Tensor = self.scores(self.norm(x))[:, 0]
        return scores


def get_model() -> nn.Module:
    """The decoder with random weights, in eval mode, at the start of a text."""
    model = Decoder().eval()
    randomise_weights(model)
    return model


def get_args() -> tuple[torch.Tensor]:
    """The first token of `TEXT`, int64 `[1, 1]`."""
    return (encode(TEXT)[0],)


TEXT = "edgex!"


def encode(text: str) -> list[torch.Tensor]:
    """One int64 `[1, 1]` for each printable ASCII character."""
    return [torch.tensor([[ord(character) - 32]]) for character in text]


# Verified in a row, one Session, so that what the cache holds matters from the second token on.
example_sequence: list[tuple[tuple[torch.Tensor], dict[str, torch.Tensor]]] = [((token,), {}) for token in encode(TEXT)]
