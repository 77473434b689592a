"""20 small models that exporters stumble over, each with the outcome that is expected of each target.

`expected.py` holds the outcomes: verified, or this exit code and sentence. A model that begins to work is news as
much as one that no longer does, so both fail the suite until the table says so.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import nn

from benchmarks.coverage.models.weights import SEED, draw_weights
from benchmarks.coverage.suite import Entry, Example

FEATURES = 8
LENGTH = 6


def entries() -> list[Entry]:
    """The cases in the order of this file."""
    return [Entry(f"hard/{name}", partial(_make, kind)) for name, kind in CASES.items()]


def _make(kind: type[nn.Module]) -> Example:
    torch.manual_seed(SEED)
    module = kind()
    args = module.example() if hasattr(module, "example") else (_sequence(),)
    return Example(draw_weights(module, args), args)


def _normal(*shape: int, seed: int = SEED) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def _integers(low: int, high: int, *shape: int) -> torch.Tensor:
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(SEED))


def _sequence() -> torch.Tensor:
    """`[1, LENGTH, FEATURES]`, what a case is called with unless it says otherwise."""
    return _normal(1, LENGTH, FEATURES)


class Lstm(nn.Module):
    """Two layers, whose final states are outputs too."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(FEATURES, 12, num_layers=2, batch_first=True)

    def forward(self, x: torch.Tensor) -> Any:
        """x: `[N, length, features]`."""
        y, (hidden, cell) = self.rnn(x)
        return {"y": y, "hidden": hidden, "cell": cell}


class BidirectionalGru(nn.Module):
    """Both directions, with a given first state."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(FEATURES, 12, batch_first=True, bidirectional=True)

    def example(self) -> tuple[torch.Tensor, ...]:
        """A sequence and the first state."""
        return _sequence(), _normal(2, 1, 12, seed=1)

    def forward(self, x: torch.Tensor, state: torch.Tensor) -> Any:
        """x: `[N, length, features]`."""
        return self.rnn(x, state)


class Cond(nn.Module):
    """A branch that depends on the input's values."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(FEATURES, 5), nn.Linear(FEATURES, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: `[N, length, features]`."""
        made: torch.Tensor = torch.cond(x.mean() > 0, lambda v: self.one(v).relu(), lambda v: self.two(v).tanh(), (x,))
        return made


class ComplexRotary(nn.Module):
    """Rotary positions as the product of complex numbers, as the first Llama wrote them."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(FEATURES, FEATURES)
        angles = torch.outer(torch.arange(LENGTH).float(), 1.0 / 10 ** torch.arange(FEATURES // 2).float())
        self.register_buffer("turns", torch.polar(torch.ones_like(angles), angles))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: `[N, length, features]`."""
        query = self.query(x)
        pairs = torch.view_as_complex(query.reshape(*query.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * self.turns).flatten(2)


class Fourier(nn.Module):
    """A filter in the frequency domain, and the two-dimensional transform of FNet."""

    def __init__(self) -> None:
        super().__init__()
        self.gains = nn.Parameter(torch.randn(FEATURES // 2 + 1))

    def forward(self, x: torch.Tensor) -> Any:
        """x: `[N, length, features]`."""
        filtered = torch.fft.irfft(torch.fft.rfft(x, norm="ortho") * self.gains, n=FEATURES, norm="ortho")
        return filtered, torch.fft.fftn(x, dim=(1, 2)).real


class EmbeddingBags(nn.Module):
    """Means of bags of words, by offsets and in rows."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = nn.EmbeddingBag(30, FEATURES, mode="mean")
        self.sum = nn.EmbeddingBag(30, FEATURES, mode="sum")

    def example(self) -> tuple[torch.Tensor, ...]:
        """Words, where each bag begins, and rows of words."""
        return _integers(0, 30, 12), torch.tensor([0, 4, 9]), _integers(0, 30, 3, 5)

    def forward(self, words: torch.Tensor, offsets: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """words: `[12]`, offsets: `[3]`, rows: `[3, 5]`."""
        made: torch.Tensor = self.mean(words, offsets) + self.sum(rows)
        return made


class SortAndTopk(nn.Module):
    """Values and their places."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(FEATURES, 20)

    def forward(self, x: torch.Tensor) -> Any:
        """x: `[N, length, features]`."""
        scores = self.linear(x)
        best, places = scores.topk(3, dim=-1)
        ordered, order = scores.sort(dim=1, descending=True)
        return {"best": best, "places": places, "ordered": ordered, "order": order, "ranks": scores.argsort(-1)}


class Nonzero(nn.Module):
    """An output whose size depends on the input's values."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: `[N, length, features]`."""
        return torch.nonzero(x > 0.5)


class InPlace(nn.Module):
    """Writes into views of an intermediate result, and one into the input."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(FEATURES, FEATURES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: `[N, length, features]`."""
        x.mul_(2.0)
        y = self.linear(x)
        y[:, 0].zero_()
        y[:, 1:, ::2] += x[:, 1:, ::2]
        head = y.transpose(1, 2)[:, :2]
        head.relu_().add_(1.0)
        y[:, 2, 1].fill_(3.0)
        return y


class ViewsAsOutputs(nn.Module):
    """Outputs that share memory with each other, and one that is the input."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(FEATURES, FEATURES)

    def forward(self, x: torch.Tensor) -> Any:
        """x: `[N, length, features]`."""
        y = self.linear(x)
        return y, y.transpose(1, 2), y[:, ::2], y[:, :1].expand(1, 4, FEATURES), y, x


class TiedWeights(nn.Module):
    """The embedding is the head, and a layer is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(40, FEATURES)
        self.layer = nn.Linear(FEATURES, FEATURES)
        self.head = nn.Linear(FEATURES, 40, bias=False)
        self.head.weight = self.embedding.weight

    def example(self) -> tuple[torch.Tensor, ...]:
        """Words."""
        return (_integers(0, 40, 1, LENGTH),)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """words: `[N, length]`."""
        made: torch.Tensor = self.head(self.layer(self.layer(self.embedding(words)).tanh()))
        return made


class BufferTwice(nn.Module):
    """A buffer that is written, and given out before and after, whole and in part."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.arange(1.0, LENGTH + 1))

    def forward(self, x: torch.Tensor) -> Any:
        """x: `[N, length, features]`."""
        before = self.total.clone()
        self.total.add_(x.mean((0, 2)))
        return before, self.total + 0.0, self.total * 2, self.total[:2].clone()


class WeightNorm(nn.Module):
    """Weights that are computed from others."""

    def __init__(self) -> None:
        super().__init__()
        norm, spectral = nn.utils.parametrizations.weight_norm, nn.utils.parametrizations.spectral_norm
        self.conv = norm(nn.Conv1d(FEATURES, 12, 3, padding=1))
        self.linear = spectral(nn.Linear(12, 5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: `[N, length, features]`."""
        made: torch.Tensor = self.linear(self.conv(x.transpose(1, 2)).transpose(1, 2).relu())
        return made


class CustomOperator(nn.Module):
    """An operator of the user's own, with a fake kernel and no decomposition."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(FEATURES, FEATURES)
        _define_custom_operator()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: `[N, length, features]`."""
        made: torch.Tensor = torch.ops.edgex_coverage.soft_sign(self.linear(x))
        return made


def _define_custom_operator() -> None:
    """Once a process."""
    if hasattr(torch.ops.edgex_coverage, "soft_sign"):
        return

    @torch.library.custom_op("edgex_coverage::soft_sign", mutates_args=())
    def soft_sign(x: torch.Tensor) -> torch.Tensor:
        return x / (1 + x.abs())

    soft_sign.register_fake(torch.empty_like)


class Int64Maths(nn.Module):
    """Integers beyond 32 bits and beyond what a float holds, with the signs of floor division."""

    def example(self) -> tuple[torch.Tensor, ...]:
        """Of both signs."""
        return (_integers(-50, 50, 4, LENGTH),)

    def forward(self, x: torch.Tensor) -> Any:
        """x: `[N, length]` of int64."""
        large = x * 3_000_000_007 + 9_007_199_254_740_993
        return large, large // 7, large % 11, x // 4, (x << 2) ^ 5, x.sum(1), x.cumsum(1), x.clamp(-3, 9), -x.abs()


class BoolMasks(nn.Module):
    """Masks that are inputs, results and outputs; a row of attention without any key."""

    def example(self) -> tuple[torch.Tensor, ...]:
        """Queries and a mask, whose second row lets nothing through."""
        mask = torch.ones(1, 1, LENGTH, LENGTH, dtype=torch.bool).tril()
        mask[..., 1, :] = False
        return _normal(1, 2, LENGTH, FEATURES), mask

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> Any:
        """x: `[N, heads, length, features]`, mask: `[N, 1, length, length]` of bool."""
        mixed = nn.functional.scaled_dot_product_attention(x, x, x, attn_mask=mask)
        positive = (x > 0) & ~(x > 1) | (x < -1)
        filled = x.masked_fill(positive, -2.0)
        return mixed, positive, filled, positive[..., :2].any(-1), torch.where(positive, x, 0.5).sum(-1)


class EmptyTensors(nn.Module):
    """Tensors without elements on the way, as a first step without a past makes them."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(FEATURES, FEATURES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: `[N, length, features]`."""
        past = x.new_zeros(1, 0, FEATURES)
        y = torch.cat([past, self.linear(x), x[:, LENGTH:]], 1)
        return y + past.sum()


class ZeroAndFiveDimensions(nn.Module):
    """Scalars as inputs and outputs, and tensors of five dimensions."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv3d(2, 4, 3, padding=1)
        self.norm = nn.BatchNorm3d(4)

    def example(self) -> tuple[torch.Tensor, ...]:
        """A film and a scalar."""
        return _normal(1, 2, 4, 8, 8), torch.tensor(1.5)

    def forward(self, film: torch.Tensor, scale: torch.Tensor) -> Any:
        """film: `[N, 2, frames, H, W]`, scale: `[]`."""
        y = nn.functional.max_pool3d(self.norm(self.conv(film)).relu(), 2) * scale
        return y.permute(0, 2, 3, 4, 1), y.mean(), scale + 1


class Convolutions(nn.Module):
    """Grouped, dilated, strided, transposed, with uneven padding."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(4, 8, 3, padding=2, dilation=2, groups=2),
            nn.ReLU6(),
            nn.ConvTranspose2d(8, 6, 3, stride=2, padding=1, output_padding=1, groups=2),
            nn.Hardswish(),
            nn.ReflectionPad2d((1, 2, 0, 1)),
            nn.Conv2d(6, 6, (3, 5), stride=(2, 1), padding="valid", groups=6),
            nn.ConvTranspose2d(6, 4, 3, stride=2, dilation=2),
        )
        self.line = nn.ConvTranspose1d(4, 3, 4, stride=3, groups=1)

    def example(self) -> tuple[torch.Tensor, ...]:
        """An image of four channels."""
        return (_normal(1, 4, 12, 10),)

    def forward(self, x: torch.Tensor) -> Any:
        """x: `[N, 4, H, W]`."""
        y = self.layers(x)
        return y, self.line(y.mean(3))


class KvCache(nn.Module):
    """One step of a decoder with its cache in buffers, written at a position that is an input."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(FEATURES, 3 * FEATURES)
        self.register_buffer("keys", torch.zeros(1, LENGTH, FEATURES))
        self.register_buffer("values", torch.zeros(1, LENGTH, FEATURES))

    def example(self) -> tuple[torch.Tensor, ...]:
        """A token, and the second position: what is kept at the first shows in the answer."""
        return _normal(1, 1, FEATURES), torch.tensor([1])

    def forward(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """x: `[N, 1, features]`, position: `[1]` of int64."""
        query, key, value = self.qkv(x).chunk(3, -1)
        self.keys.mul_(0.5).index_copy_(1, position, key)
        self.values.add_(0.25).index_copy_(1, position, value)
        mask = torch.arange(LENGTH) <= position
        return nn.functional.scaled_dot_product_attention(query, self.keys, self.values, attn_mask=mask[None, None])


CASES: dict[str, type[nn.Module]] = {
    "lstm": Lstm,
    "gru_bidirectional": BidirectionalGru,
    "cond": Cond,
    "complex_rotary": ComplexRotary,
    "fft": Fourier,
    "embedding_bag": EmbeddingBags,
    "sort_topk": SortAndTopk,
    "nonzero": Nonzero,
    "in_place": InPlace,
    "views_as_outputs": ViewsAsOutputs,
    "tied_weights": TiedWeights,
    "buffer_twice": BufferTwice,
    "weight_norm": WeightNorm,
    "custom_operator": CustomOperator,
    "int64_maths": Int64Maths,
    "bool_masks": BoolMasks,
    "empty_tensors": EmptyTensors,
    "zero_and_five_dimensions": ZeroAndFiveDimensions,
    "convolutions": Convolutions,
    "kv_cache": KvCache,
}
