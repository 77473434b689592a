"""A model whose inputs come in several sizes, with what it is called with; used for artifacts with a method a size."""

from __future__ import annotations

import torch
from torch import nn

from edgex.samples.random_weights import randomise_weights

WORDS = 50


class Reader(nn.Module):
    """Scores of a text: ids and a mask of one length, 1 to 64; its weights are large enough to lie in a file apart."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.mix, self.scores = nn.Embedding(WORDS, 48), nn.Linear(48, 48), nn.Linear(48, 30)
        self.register_buffer("places", torch.randn(64, 48, generator=torch.Generator().manual_seed(5)))

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids) + self.places[: ids.shape[1]]
        x = torch.relu(self.mix(x)) * mask[..., None]
        return self.scores(x.mean(1))


def make_reader() -> Reader:
    """The same weights every time."""
    torch.manual_seed(0)
    model = Reader().eval()
    randomise_weights(model)
    return model


def make_text(length: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and a mask, `[1, length]` each: int64 and float32."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, WORDS, (1, length), generator=generator)
    return ids, torch.ones(1, length)
