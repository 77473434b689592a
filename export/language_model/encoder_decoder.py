"""An encoder with its decoder, of Hugging Face's transformers: what the decoder attends to lies in buffers.

`encode` has every layer of the decoder make keys and values of the source once; a step of the decoder reads them. Where
the length of a source varies, a mask says where it ends.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from edgex.errors import UsageError
from edgex.export.language_model.cache_layers import Shapes, cache_keyword, make_cache, register_cache
from edgex.runtime.artifact.specs import Dim

if TYPE_CHECKING:
    from edgex.export.language_model.request import Cache, LanguageRequest

_CROSS = "cross_"
# Added to a score, nothing is left of it; halved, so that the sum of two is finite.
_MUCH = torch.finfo(torch.float32).min / 2
_EXAMPLE_TOKENS = 12
_SEED = 20261122


@dataclass(frozen=True)
class Source:
    """What an encoder reads.

    Attributes:
        example: One of its sources.
        longest: How many tokens one may have; None where all have the example's size.
    """

    example: torch.Tensor
    longest: int | None


def choose_source(model: Any, asked: LanguageRequest, where: str, example: torch.Tensor | None) -> Source:
    """A source for a model's encoder, and how long one may be.

    Args:
        model: A `PreTrainedModel` with an encoder.
        asked: `source` and `context`.
        where: The model, for messages.
        example: What the user's file gives; None where it gives nothing.

    Raises:
        UsageError: Nothing says what the encoder takes, or it cannot read so many tokens.
    """
    config, numbers = model.config, torch.Generator().manual_seed(_SEED)
    if model.main_input_name == "input_ids":
        most = getattr(config, "max_position_embeddings", None)
        longest = asked.source or min(asked.context, most or asked.context)
        if most is not None and longest > most:
            raise UsageError(
                f"--source {longest} is longer than {where} can read",
                why=f"its config has {most} positions",
                fix=f"--source {most}",
            )
        if example is None:
            vocabulary = model.get_encoder().get_input_embeddings().num_embeddings
            example = torch.randint(0, vocabulary, (1, min(longest, _EXAMPLE_TOKENS)), generator=numbers)
        if example.shape[1] > longest:
            raise UsageError(
                f"the example has {example.shape[1]} tokens, and the encoder of {where} is to read {longest} at most",
                fix=f"--source {example.shape[1]}",
            )
        return Source(example, longest)
    if asked.source is not None:
        raise UsageError(
            f"--source is for encoders of text, and that of {where} reads {model.main_input_name}",
            fix="leave it out: its source has the size of the example",
        )
    if example is not None:
        return Source(example, None)
    bins, length = getattr(config, "num_mel_bins", None), getattr(config, "max_source_positions", None)
    if type(model).__name__.startswith("Whisper") and bins and length:
        # Two frames become one position.
        return Source(torch.randn(1, bins, 2 * length, generator=numbers), None)
    raise UsageError(
        f"nothing says what the encoder of {where} reads",
        why=f"its input is {model.main_input_name}, of a size that its config does not give",
        fix="give example inputs: return (model, (features,)) from get_model(), or define get_args()",
    )


class CachedEncoderDecoder(torch.nn.Module):
    """A `PreTrainedModel` with an encoder: `encode` keeps keys and values of the source, `forward` those of tokens.

    Attributes:
        example: A source to read.
        dynamic: Which of its sizes vary.
    """

    model: Any
    source_mask: torch.Tensor

    def __init__(
        self,
        model: Any,
        shapes: Shapes,
        cross: Shapes,
        context: int,
        example: torch.Tensor,
        longest: int | None,
        kv: Cache = "fp32",
    ) -> None:
        """Make an empty cache.

        Args:
            model: Encoder and decoder.
            shapes: Of each layer's keys and values for one token.
            cross: Of those for the source.
            context: How many tokens the cache can hold.
            example: A source.
            longest: How many tokens a source may have; None where it has one size.
            kv: What keys and values are kept in.
        """
        super().__init__()
        self.model = model
        self.layers, self.context = len(shapes), context
        self.longest = cross[0][0][2] if longest is None else longest
        self._varies = longest is not None
        register_cache(self, "", shapes, context, kv)
        register_cache(self, _CROSS, cross, self.longest, kv)
        if self._varies:
            # What is added to scores: nothing for the source's tokens, much for what lies behind them.
            self.register_buffer("source_mask", torch.zeros(1, 1, 1, self.longest))
        # In a list: no buffer of the model.
        self._example = [example]
        self.dynamic = {("source", 1): Dim("s", 1, self.longest)} if self._varies and self.longest > 1 else {}
        self._width = int(model.get_encoder()(example, return_dict=True).last_hidden_state.shape[-1])

    @property
    def example(self) -> torch.Tensor:
        """See above."""
        return self._example[0]

    def encode(self, source: torch.Tensor) -> dict[str, torch.Tensor]:
        """`{"memory": [1, length, width]}`: what the encoder makes of the source."""
        memory = self.model.get_encoder()(source, return_dict=True).last_hidden_state
        if self._varies:
            behind = torch.arange(self.longest) >= source.shape[1]
            self.source_mask.copy_(behind.to(torch.float32)[None, None, None] * _MUCH)
        transformers = sys.modules["transformers"]
        cross = make_cache(self, _CROSS, self.layers, torch.arange(memory.shape[1]), 0, reads_back=False)
        # One token through the decoder has each layer make keys and values of the source; the rest of it is not needed.
        cache = transformers.EncoderDecoderCache(transformers.DynamicCache(), cross)
        self._decode(memory, torch.zeros(1, 1, dtype=torch.int64), cache)
        return {"memory": memory}

    def forward(self, tokens: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """Scores `[1, n, vocabulary]` of what follows each token."""
        places = position + torch.arange(tokens.shape[1])
        transformers = sys.modules["transformers"]
        # A layer that holds something is asked for it, and given nothing to write.
        cross = make_cache(self, _CROSS, self.layers, None, self.longest)
        cache = transformers.EncoderDecoderCache(make_cache(self, "", self.layers, places, position[0]), cross)
        behind = torch.arange(self.context)[None] > places[:, None]
        given = {"decoder_attention_mask": behind.to(torch.float32)[None, None] * _MUCH}
        if self._varies:
            given["attention_mask"] = self.source_mask
        # Only its size is looked at: keys and values of the source are there.
        return self._decode(torch.zeros(1, self.longest, self._width), tokens, cache, **given)

    def without_cache(self, tokens: torch.Tensor) -> torch.Tensor:
        """What the model itself says to the example and a whole text, int64 `[1, n]`: scores after the last token."""
        given = {self.model.main_input_name: self.example, "decoder_input_ids": tokens}
        logits: torch.Tensor = self.model(**given, use_cache=False, return_dict=True).logits
        return logits[:, -1]

    def _decode(self, memory: torch.Tensor, tokens: torch.Tensor, cache: Any, **given: torch.Tensor) -> torch.Tensor:
        output = sys.modules["transformers"].modeling_outputs.BaseModelOutput(last_hidden_state=memory)
        logits: torch.Tensor = self.model(
            encoder_outputs=output,
            decoder_input_ids=tokens,
            **{cache_keyword(self.model): cache},
            **given,
            use_cache=True,
            return_dict=True,
        ).logits
        return logits
