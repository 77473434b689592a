"""Small decoders with caches of their own, for language models: right ones, and ones that get a text wrong."""

from __future__ import annotations

import math

import torch
from torch import nn

from edgex.samples.random_weights import randomise_weights

VOCABULARY, WIDTH, HEADS = 50, 16, 2
HEAD = WIDTH // HEADS


class Attention(nn.Module):
    """Causal attention over a cache `[1, heads, context, head]` that is written in place."""

    keys: torch.Tensor
    values: torch.Tensor

    def __init__(self, context: int) -> None:
        super().__init__()
        self.project = nn.Linear(WIDTH, 3 * WIDTH)
        self.output = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("keys", torch.zeros(1, HEADS, context, HEAD))
        self.register_buffer("values", torch.zeros(1, HEADS, context, HEAD))

    def places(self, position: torch.Tensor, count: int) -> torch.Tensor:
        """Where the tokens go, int64 `[count]`."""
        return position + torch.arange(count)

    def forward(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """`[1, n, width]` to the same."""
        count = x.shape[1]
        query, key, value = (part.view(1, count, HEADS, HEAD).transpose(1, 2) for part in self.project(x).chunk(3, -1))
        places = self.places(position, count)
        self.keys.index_copy_(2, places, key)
        self.values.index_copy_(2, places, value)
        seen = torch.arange(self.keys.shape[2])[None] <= places[:, None]
        mixed: torch.Tensor = self.output(self.attend(query, seen).transpose(1, 2).reshape(1, count, WIDTH))
        return mixed

    def attend(self, query: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        """Values of the cache, weighed by the scores of what a query sees, `[1, heads, n, head]`."""
        scores = query @ self.keys.transpose(2, 3) / math.sqrt(HEAD)
        return scores.masked_fill(~seen, -1e9).softmax(-1) @ self.values


class Decoder(nn.Module):
    """Embedding of tokens and places, one block, scores of the vocabulary for every token."""

    attention_type = Attention

    def __init__(self, context: int = 24) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.place = nn.Embedding(context, WIDTH)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(3))
        self.attention = self.attention_type(context)
        self.linear = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))
        self.scores = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """Tokens int64 `[1, n]` at a position int64 `[1]` to scores `[1, n, vocabulary]`."""
        x = self.embed(tokens) + self.place(position + torch.arange(tokens.shape[1]))
        x = x + self.attention(self.norms[0](x), position)
        x = x + self.linear(self.norms[1](x))
        scores: torch.Tensor = self.scores(self.norms[2](x))
        return scores


class _Masked(Attention):
    def attend(self, query: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        """As PyTorch's operator has it, with a mask of truths over the whole cache."""
        return nn.functional.scaled_dot_product_attention(query, self.keys, self.values, attn_mask=seen)


class MaskedDecoder(Decoder):
    """Attends by `scaled_dot_product_attention`."""

    attention_type = _Masked


class _AlwaysFirst(Attention):
    def places(self, position: torch.Tensor, count: int) -> torch.Tensor:
        return 0 * position + torch.arange(count)


class ForgetfulDecoder(Decoder):
    """Writes every call's tokens to the beginning of the cache."""

    attention_type = _AlwaysFirst


class GrowingDecoder(Decoder):
    """Replaces its cache by a longer one."""

    def forward(self, tokens: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """As `Decoder`."""
        self.attention.keys = torch.cat([self.attention.keys, torch.zeros(1, HEADS, tokens.shape[1], HEAD)], 2)
        self.attention.values = torch.cat([self.attention.values, torch.zeros(1, HEADS, tokens.shape[1], HEAD)], 2)
        return super().forward(tokens, position)


def make_decoder(kind: type[Decoder] = Decoder, context: int = 24) -> Decoder:
    """A decoder with random weights, in eval mode."""
    model = kind(context).eval()
    randomise_weights(model)
    return model
