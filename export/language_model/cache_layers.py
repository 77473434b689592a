"""Caches of transformers over buffers of our own: keys and values of each layer, written where it is said."""

from __future__ import annotations

import inspect
import sys
from typing import Any

import torch

# Of each layer, what it keeps of one token or of a source: keys and values, `[1, heads, length, size]`.
Shapes = list[tuple[tuple[int, ...], tuple[int, ...]]]


def takes(model: Any, keyword: str) -> bool:
    """Whether a model's forward has such a parameter."""
    return keyword in inspect.signature(model.forward).parameters


def cache_keyword(model: Any) -> str:
    """What the model calls its cache: newer ones of transformers say `cache`."""
    return "cache" if takes(model, "cache") else "past_key_values"


def register_cache(module: torch.nn.Module, prefix: str, shapes: Shapes, length: int) -> None:
    """Give a module empty buffers for keys and values of so many tokens in every layer."""
    for layer, pair in enumerate(shapes):
        for kind, shape in zip(("keys", "values"), pair, strict=True):
            module.register_buffer(f"{prefix}{kind}_{layer}", torch.zeros(shape[0], shape[1], length, shape[3]))


def make_cache(
    module: torch.nn.Module,
    prefix: str,
    layers: int,
    places: torch.Tensor | None,
    held: Any,
    *,
    reads_back: bool = True,
) -> Any:
    """A cache of transformers whose memory is the module's buffers.

    Args:
        module: Has them, by `register_cache`.
        prefix: Of their names.
        layers: How many there are.
        places: Where a layer writes what it is given; None where none is written.
        held: How many tokens it says that it holds.
        reads_back: Whether a layer that was given something attends to all of its memory, or to what it was given.
    """
    pairs = [(getattr(module, f"{prefix}keys_{at}"), getattr(module, f"{prefix}values_{at}")) for at in range(layers)]
    return sys.modules["transformers"].Cache(layers=[_make_layer(*pair, places, held, reads_back) for pair in pairs])


def _make_layer(
    keys: torch.Tensor, values: torch.Tensor, places: torch.Tensor | None, held: Any, reads_back: bool
) -> Any:
    """One layer's cache as transformers' models use one."""
    base = sys.modules["transformers.cache_utils"].CacheLayerMixin

    class PlacedLayer(base):  # type: ignore[misc,valid-type]  # transformers is not there when this is checked
        is_compileable = True
        is_sliding = False

        def __init__(self) -> None:
            super().__init__()
            self.keys, self.values, self.is_initialized = keys, values, True

        def lazy_initialization(self, key_states: Any, value_states: Any) -> None:
            """Nothing is left to be made."""

        def update(self, key_states: Any, value_states: Any, *_args: Any, **_kwargs: Any) -> tuple[Any, Any]:
            assert places is not None
            keys.index_copy_(2, places, key_states)
            values.index_copy_(2, places, value_states)
            return (keys, values) if reads_back else (key_states, value_states)

        def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
            return keys.shape[2], 0

        def get_seq_length(self) -> Any:
            return held

        def get_max_length(self) -> int:
            return keys.shape[2]

    return PlacedLayer()
