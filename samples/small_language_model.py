"""A small language model that speaks like Python's own help: trained on `pydoc`'s topics, which come with every Python.

```
edgex export samples/small_language_model.py -t xnnpack,onnx-cpu --llm --context 256
edgex generate small_language_model.xnnpack.edgex --prompt "The for statement"
```

750 kB of text, a tokenizer of 1,024 ids learned from it (byte-pair encoding), and a decoder of 0.7 million parameters.
Training takes some seconds on a processor and happens once: weights and tokenizer are kept in the user's
cache. The last tenth of the text is never trained on; `measure_perplexity` says how well it is foretold.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

VOCABULARY, WIDTH, HEADS, LAYERS, CONTEXT = 1024, 128, 4, 3, 256
HEAD = WIDTH // HEADS
END = "<|end|>"  # between topics; its id is 0

STEPS, BATCH, LENGTH = 200, 8, 96
EVALUATED = 2048  # tokens of the held-out text

model_card = {"context": CONTEXT, "eos_token_id": 0}  # `END`


class CachedAttention(nn.Module):
    """Causal attention over a cache that is written in place; without one while it is trained."""

    keys: torch.Tensor
    values: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.output = nn.Linear(WIDTH, WIDTH, bias=False)
        self.register_buffer("keys", torch.zeros(1, HEADS, CONTEXT, HEAD), persistent=False)
        self.register_buffer("values", torch.zeros(1, HEADS, CONTEXT, HEAD), persistent=False)

    def forward(self, x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """`[batch, n, 128]` at places int64 `[n]` to the same shape; a batch of more than one only in training."""
        batch, count, _ = x.shape
        parts = (part.view(batch, count, HEADS, HEAD).transpose(1, 2) for part in self.project(x).chunk(3, -1))
        query, key, value = parts
        query, key = rotate(query, places), rotate(key, places)
        if self.training:
            mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        else:
            self.keys.index_copy_(2, places, key)
            self.values.index_copy_(2, places, value)
            seen = torch.arange(CONTEXT)[None] <= places[:, None]
            scores = query @ self.keys.transpose(2, 3) / math.sqrt(HEAD)
            mixed = scores.masked_fill(~seen, -1e9).softmax(-1) @ self.values
        states: torch.Tensor = self.output(mixed.transpose(1, 2).reshape(batch, count, WIDTH))
        return states


def rotate(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Rotary position embedding of `[batch, heads, n, 32]`: scores depend on distances, not on places."""
    frequencies = torch.exp(torch.arange(0, HEAD, 2) * (-math.log(10_000.0) / HEAD))
    angles = places[:, None].to(torch.float32) * frequencies  # [n, 16]
    cos, sin = angles.cos(), angles.sin()
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)


class Block(nn.Module):
    """Attention, then two linear layers, each behind a norm and added to what came in."""

    def __init__(self) -> None:
        super().__init__()
        self.before_attention, self.before_linear = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.attention = CachedAttention()
        self.linear = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.SiLU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """`[batch, n, 128]` to the same shape."""
        x = x + self.attention(self.before_attention(x), places)
        states: torch.Tensor = x + self.linear(self.before_linear(x))
        return states


class Config:
    """Where edgex finds the tokenizer that belongs to the model, as with those of the transformers library."""

    model_type = "edgex_sample"

    def __init__(self, folder: Path) -> None:
        self.name_or_path = str(folder)
        self.eos_token_id = 0

    def to_dict(self) -> dict[str, Any]:
        """The kind only: a path of this machine says nothing elsewhere."""
        return {"model_type": self.model_type}


class SmallLanguageModel(nn.Module):
    """Embedding, three blocks, scores over the vocabulary by the embedding's own weights."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.RMSNorm(WIDTH)

    def forward(self, tokens: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """Tokens int64 `[1, n]`, the first of them at a position int64 `[1]`, to scores `[1, n, 1024]`."""
        places = position + torch.arange(tokens.shape[1])
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, places)
        return functional.linear(self.norm(x), self.embed.weight)


def read_topics() -> tuple[str, str]:
    """(text to train on, held-out text): what `help("for")` and the like print."""
    from pydoc_data.topics import topics

    text = END.join(topics[name].strip() for name in sorted(topics))
    kept = len(text) * 9 // 10
    return text[:kept], text[kept:]


def get_model() -> nn.Module:
    """The trained model, in eval mode; trains it when the cache has no weights of this version of the file."""
    from safetensors.torch import load_file

    folder = trained_folder()
    if not (folder / "model.safetensors").is_file():
        _make_folder(folder)
    model = SmallLanguageModel().eval()
    model.load_state_dict(load_file(folder / "model.safetensors"))
    model.config = Config(folder)  # type: ignore[assignment]
    return model


def get_args() -> tuple[torch.Tensor, torch.Tensor]:
    """The beginning of the held-out text, int64 `[1, 16]`, at position 0."""
    return torch.tensor([encode_held_out()[:16]]), torch.zeros(1, dtype=torch.int64)


def encode_held_out() -> list[int]:
    """The held-out text as ids."""
    from tokenizers import Tokenizer

    ids: list[int] = Tokenizer.from_file(str(trained_folder() / "tokenizer.json")).encode(read_topics()[1]).ids
    return ids


def measure_perplexity(begin: Callable[[], object], read: Callable[[int], np.ndarray]) -> float:
    """Perplexity on held-out text, in pieces of the context: e to the mean of the negative log-likelihoods.

    Args:
        begin: Begins a new text.
        read: Appends an id to the text; gives the scores `[1024]` of what follows.
    """
    ids = encode_held_out()[:EVALUATED]
    losses = []
    for first in range(0, len(ids), CONTEXT):
        begin()
        piece = ids[first : first + CONTEXT]
        for token, following in itertools.pairwise(piece):
            scores = read(token).astype(np.float64)
            losses.append(np.logaddexp.reduce(scores) - scores[following])
    return float(np.exp(np.mean(losses)))


def trained_folder() -> Path:
    """Where weights and tokenizer are kept: the name carries this source's hash and PyTorch's version."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    key = hashlib.sha256(Path(__file__).read_bytes() + torch.__version__.encode()).hexdigest()[:16]
    return cache / "edgex" / "samples" / f"small_language_model-{key}"


def _make_folder(folder: Path) -> None:
    """Train into a temporary neighbour and rename it, so that an interrupted run leaves nothing."""
    from safetensors.torch import save_file

    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        made = Path(name) / folder.name
        made.mkdir()
        text = read_topics()[0]
        ids = _train_tokenizer(text, made / "tokenizer.json")
        save_file(train_model(ids).state_dict(), made / "model.safetensors")
        if folder.exists():  # another process was quicker, or what is there is not whole
            shutil.rmtree(folder)
        made.rename(folder)


def _train_tokenizer(text: str, path: Path) -> list[int]:
    """Learn a byte-pair encoding, save it, and give the text as ids."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=[END], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(text.split(END), trainer)
    tokenizer.save(str(path))
    ids: list[int] = tokenizer.encode(text).ids
    return ids


def train_model(ids: list[int], steps: int = STEPS, seed: int = 0) -> SmallLanguageModel:
    """Train on pieces of a text; the same seed and PyTorch give the same weights.

    Args:
        ids: The text.
        steps: How often the weights are changed.
        seed: Of the weights at the beginning and of the choice of pieces.
    """
    text, threads = torch.tensor(ids), torch.get_num_threads()
    # One thread: sums keep their order whatever the machine.
    torch.set_num_threads(1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = SmallLanguageModel()
        for parameter in model.parameters():
            if parameter.ndim == 2:
                nn.init.normal_(parameter, std=0.05)
        model.train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, betas=(0.9, 0.95), weight_decay=0.05)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=steps, pct_start=0.1)
        for _ in range(steps):
            begins = torch.randint(len(text) - LENGTH - 1, (BATCH, 1))
            pieces = text[begins + torch.arange(LENGTH + 1)]
            scores = model(pieces[:, :-1], torch.zeros(1, dtype=torch.int64))
            loss = functional.cross_entropy(scores.flatten(0, 1), pieces[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
    torch.set_num_threads(threads)
    return model.eval()
