"""A decoder of Hugging Face's transformers with a cache of fixed size, in buffers of its own.

transformers' own static cache counts how much of it is full. Here the position says so, which the caller gives: taking
tokens back, and beginning anew, cost nothing.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any

import torch

from edgex.errors import CaptureError, UsageError
from edgex.export.source.eager import reference_conditions
from edgex.runtime.support.machine.memory import read_available_bytes

_LEAST_VERSION = 5


def is_transformers_model(module: torch.nn.Module) -> bool:
    """Whether it is a `PreTrainedModel`; nothing is imported for it."""
    transformers = sys.modules.get("transformers")
    return transformers is not None and isinstance(module, transformers.PreTrainedModel)


class CachedDecoder(torch.nn.Module):
    """A `PreTrainedModel` that keeps keys and values of all positions in the buffers `keys_0`, `values_0` and so on."""

    def __init__(self, model: Any, shapes: list[tuple[tuple[int, ...], tuple[int, ...]]], context: int) -> None:
        """Make an empty cache.

        Args:
            model: The decoder.
            shapes: Of each layer's keys and values for one token: `[1, heads, 1, size]`.
            context: How many tokens it can hold.
        """
        super().__init__()
        self.model = model
        self.layers, self.context = len(shapes), context
        for layer, (keys, values) in enumerate(shapes):
            self.register_buffer(f"keys_{layer}", torch.zeros(keys[0], keys[1], context, keys[3]))
            self.register_buffer(f"values_{layer}", torch.zeros(values[0], values[1], context, values[3]))
        self._keywords = {"logits_to_keep": 1} if _takes(model, "logits_to_keep") else {}

    def forward(self, tokens: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """Scores `[1, vocabulary]` of what follows the last token."""
        places = position + torch.arange(tokens.shape[1])
        layers = [
            _make_layer(getattr(self, f"keys_{at}"), getattr(self, f"values_{at}"), position, places)
            for at in range(self.layers)
        ]
        output = self.model(
            input_ids=tokens,
            position_ids=places[None],
            past_key_values=sys.modules["transformers"].Cache(layers=layers),
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


def with_cache(model: Any, context: int, where: str) -> CachedDecoder:
    """A decoder with a cache of fixed size.

    Args:
        model: A `PreTrainedModel`.
        context: How many tokens the cache holds.
        where: The model, for messages.

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
    config = model.config.get_text_config()
    if getattr(model.config, "is_encoder_decoder", False):
        raise CaptureError(
            f"{where} has an encoder and a decoder",
            why="--llm is for models that are a decoder only",
            fix="export its encoder and its decoder without --llm, one artifact each",
        )
    if not model.can_generate():
        raise CaptureError(
            f"{where} is no decoder: it does not continue a text",
            why="its class cannot generate",
            fix="load it as one, such as AutoModelForCausalLM, or export it without --llm",
        )
    most = getattr(config, "max_position_embeddings", None)
    if isinstance(most, int) and context > most:
        raise UsageError(
            f"--context {context} is longer than {where} can read",
            why=f"its config has {most} positions",
            fix=f"--context {most}",
        )
    shapes = _read_shapes(model, where)
    needed = sum(4 * context * shape[1] * shape[3] for pair in shapes for shape in pair)
    available = read_available_bytes()
    # The example, eager's run and the proof each hold one.
    if available is not None and 2 * needed > available:
        heads = ", ".join(sorted({f"{keys[1]} heads x {keys[3]}" for keys, _ in shapes}))
        raise UsageError(
            f"a cache of {context} tokens does not fit into memory",
            why=f"{len(shapes)} layers x {context} tokens x keys and values of {heads} x 4 bytes are "
            f"{needed / 1e9:.1f} GB, needed twice to prove them; {available / 1e9:.1f} GB are free",
            fix=f"--context {max(2, int(context * available / (2 * needed)))}",
        )
    return CachedDecoder(model, shapes, context)


def _read_shapes(model: Any, where: str) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """What each layer keeps of one token, seen in a run of one."""
    cache = sys.modules["transformers"].DynamicCache(config=model.config)
    with reference_conditions():
        model(input_ids=torch.zeros(1, 1, dtype=torch.int64), past_key_values=cache, use_cache=True)
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


def _takes(model: Any, keyword: str) -> bool:
    return keyword in inspect.signature(model.forward).parameters


def _make_layer(keys: torch.Tensor, values: torch.Tensor, position: torch.Tensor, places: torch.Tensor) -> Any:
    """One layer's cache as transformers' decoders use one; its memory is the given buffers."""
    base = sys.modules["transformers.cache_utils"].CacheLayerMixin

    class PositionedLayer(base):  # type: ignore[misc,valid-type]  # transformers is not there when this is checked
        is_compileable = True
        is_sliding = False

        def __init__(self) -> None:
            super().__init__()
            self.keys, self.values, self.is_initialized = keys, values, True

        def lazy_initialization(self, key_states: Any, value_states: Any) -> None:
            """Nothing is left to be made."""

        def update(self, key_states: Any, value_states: Any, *_args: Any, **_kwargs: Any) -> tuple[Any, Any]:
            keys.index_copy_(2, places, key_states)
            values.index_copy_(2, places, value_states)
            return keys, values

        def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
            return keys.shape[2], 0

        def get_seq_length(self) -> Any:
            return position[0]

        def get_max_length(self) -> int:
            return keys.shape[2]

    return PositionedLayer()
