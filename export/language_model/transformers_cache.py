"""A model of Hugging Face's transformers with a cache of fixed size, in buffers of its own.

transformers' own static cache counts how much of it is full. Here the position says so, which the caller gives: taking
tokens back, and beginning anew, cost nothing.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import torch

from edgex.errors import CaptureError, UsageError
from edgex.export.language_model.cache_layers import (
    Shapes,
    bytes_of_token,
    cache_keyword,
    make_cache,
    register_cache,
    takes,
)
from edgex.export.language_model.encoder_decoder import CachedEncoderDecoder, choose_source
from edgex.export.source.eager import reference_conditions
from edgex.runtime.support.machine.memory import read_available_bytes

if TYPE_CHECKING:
    from edgex.export.language_model.request import Cache, LanguageRequest

_LEAST_VERSION = 5


def is_transformers_model(module: torch.nn.Module) -> bool:
    """Whether it is a `PreTrainedModel`; nothing is imported for it."""
    transformers = sys.modules.get("transformers")
    return transformers is not None and isinstance(module, transformers.PreTrainedModel)


class CachedDecoder(torch.nn.Module):
    """A `PreTrainedModel` that keeps keys and values of all positions in the buffers `keys_0`, `values_0` and so on."""

    def __init__(self, model: Any, shapes: Shapes, context: int, kv: Cache = "fp32") -> None:
        """Make an empty cache.

        Args:
            model: The decoder.
            shapes: Of each layer's keys and values for one token: `[1, heads, 1, size]`.
            context: How many tokens it can hold.
            kv: What it is kept in.
        """
        super().__init__()
        self.model = model
        self.layers, self.context = len(shapes), context
        register_cache(self, "", shapes, context, kv)
        self._keywords = {"logits_to_keep": 1} if takes(model, "logits_to_keep") else {}

    def forward(self, tokens: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """Scores `[1, vocabulary]` of what follows the last token."""
        places = position + torch.arange(tokens.shape[1])
        output = self.model(
            input_ids=tokens,
            position_ids=places[None],
            **{cache_keyword(self.model): make_cache(self, "", self.layers, places, position[0])},
            use_cache=True,
            return_dict=True,
            **self._keywords,
        )
        logits: torch.Tensor = output.logits
        return logits[:, -1]

    def without_cache(self, tokens: torch.Tensor) -> torch.Tensor:
        """What the model itself says to a whole text, int64 `[1, n]`: scores that follow the last token."""
        logits: torch.Tensor = self.model(input_ids=tokens, use_cache=False, return_dict=True, **self._keywords).logits
        return logits[:, -1]


def with_cache(
    model: Any, asked: LanguageRequest, where: str, example: torch.Tensor | None = None
) -> CachedDecoder | CachedEncoderDecoder:
    """A model with a cache of fixed size.

    Args:
        model: A `PreTrainedModel`.
        asked: How many tokens the cache holds and in what, and how many the encoder reads.
        where: The model, for messages.
        example: What its encoder reads, where the user's file says so.

    Raises:
        UsageError: The model was made for shorter texts, or memory does not hold the cache.
        CaptureError: It is no decoder whose layers keep keys and values.
    """
    transformers = sys.modules["transformers"]
    if int(transformers.__version__.partition(".")[0]) < _LEAST_VERSION:
        raise UsageError(
            f"transformers {transformers.__version__} is too old for --llm",
            fix=f"pip install 'transformers>={_LEAST_VERSION}'",
        )
    context = asked.context
    encodes = bool(getattr(model.config, "is_encoder_decoder", False))
    config = model.config.get_text_config(**({"decoder": True} if encodes else {}))
    if asked.source is not None and not encodes:
        raise UsageError(f"--source is for models with an encoder, and {where} has none", fix="leave it out")
    if not model.can_generate():
        raise CaptureError(
            f"{where} is no decoder: it does not continue a text",
            why="its class cannot generate",
            fix="load it as one, such as AutoModelForCausalLM or AutoModelForSeq2SeqLM, or export it without --llm",
        )
    most = getattr(config, "max_target_positions", None) or getattr(config, "max_position_embeddings", None)
    if isinstance(most, int) and context > most:
        raise UsageError(
            f"--context {context} is longer than {where} can read",
            why=f"its config has {most} positions",
            fix=f"--context {most}",
        )
    source = choose_source(model, asked, where, example) if encodes else None
    shapes, cross = _read_shapes(model, where, None if source is None else source.example)
    longest = 0 if source is None else source.longest or cross[0][0][2]
    needed = sum(context * shape[1] * bytes_of_token(shape[3], asked.kv) for pair in shapes for shape in pair)
    needed += sum(longest * shape[1] * bytes_of_token(shape[3], asked.kv) for pair in cross for shape in pair)
    available = read_available_bytes()
    # The example, eager's run and the proof each hold one.
    if available is not None and 2 * needed > available:
        heads = ", ".join(sorted({f"{keys[1]} heads x {keys[3]}" for keys, _ in shapes}))
        raise UsageError(
            f"a cache of {context} tokens does not fit into memory",
            why=f"{len(shapes)} layers x {context} tokens x keys and values of {heads} in {asked.kv} are "
            f"{needed / 1e9:.1f} GB, needed twice to prove them; {available / 1e9:.1f} GB are free",
            fix=f"--context {max(2, int(context * available / (2 * needed)))}",
        )
    if source is None:
        return CachedDecoder(model, shapes, context, asked.kv)
    with reference_conditions():
        return CachedEncoderDecoder(model, shapes, cross, context, source.example, source.longest, asked.kv)


def _read_shapes(model: Any, where: str, source: torch.Tensor | None) -> tuple[Shapes, Shapes]:
    """What each layer keeps of one token, and of the source, seen in a run of one."""
    transformers = sys.modules["transformers"]
    token, keyword = torch.zeros(1, 1, dtype=torch.int64), cache_keyword(model)
    with reference_conditions():
        if source is None:
            cache = transformers.DynamicCache(config=model.config)
            model(input_ids=token, **{keyword: cache}, use_cache=True)
            return _shapes_of(cache, where), []
        cache = transformers.EncoderDecoderCache(transformers.DynamicCache(), transformers.DynamicCache())
        given = {model.main_input_name: source, "decoder_input_ids": token, keyword: cache}
        model(**given, use_cache=True)
    return _shapes_of(cache.self_attention_cache, where), _shapes_of(cache.cross_attention_cache, where)


def _shapes_of(cache: Any, where: str) -> Shapes:
    shapes = []
    for number, layer in enumerate(cache.layers):
        keys, values = getattr(layer, "keys", None), getattr(layer, "values", None)
        if not (
            isinstance(keys, torch.Tensor) and isinstance(values, torch.Tensor) and keys.dim() == values.dim() == 4
        ):
            raise CaptureError(
                f"layer {number} of {where} keeps no keys and values of each token",
                why=f"it has a {type(layer).__name__}: how much of it counts cannot be said by a position",
                fix="give a module with forward(tokens, position) that keeps its own state",
            )
        shapes.append((tuple(keys.shape), tuple(values.shape)))
    if not shapes:
        raise CaptureError(f"{where} keeps no cache", fix="give a decoder, such as a ...ForCausalLM")
    return shapes
