"""Caches of transformers over buffers of our own: keys and values of each layer, written where it is said.

With `--kv int8` they are kept in 8 bits, each token's keys and values of a head with a scale of their own:

```
write   scale = largest(|keys|) / 127;  cache[place] = round(keys / scale);  scales[place] = scale
read    cache[:filled] * scales[:filled]
```
"""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from edgex.delegates.graph.attention.cached import narrow_rows

if TYPE_CHECKING:
    from edgex.export.language_model.request import Cache

# Of each layer, what it keeps of one token or of a source: keys and values, `[1, heads, length, size]`.
Shapes = list[tuple[tuple[int, ...], tuple[int, ...]]]


def takes(model: Any, keyword: str) -> bool:
    """Whether a model's forward has such a parameter."""
    return keyword in inspect.signature(model.forward).parameters


def cache_keyword(model: Any) -> str:
    """What the model calls its cache: newer ones of transformers say `cache`."""
    return "cache" if takes(model, "cache") else "past_key_values"


def bytes_of_token(size: int, kv: Cache) -> int:
    """What a head keeps of a token's keys, or of its values."""
    return 4 * size if kv == "fp32" else size + 4


def register_cache(module: torch.nn.Module, prefix: str, shapes: Shapes, length: int, kv: Cache = "fp32") -> None:
    """Give a module empty buffers for keys and values of so many tokens in every layer, with scales of `int8` ones."""
    dtype = torch.int8 if kv == "int8" else torch.float32
    for layer, pair in enumerate(shapes):
        for kind, shape in zip(("keys", "values"), pair, strict=True):
            whole = (shape[0], shape[1], length)
            module.register_buffer(f"{prefix}{kind}_{layer}", torch.zeros(*whole, shape[3], dtype=dtype))
            if kv == "int8":
                module.register_buffer(f"{prefix}{kind}_scale_{layer}", torch.zeros(*whole, 1))


@dataclass(frozen=True)
class _Kept:
    """The keys of a layer, or its values, and the scale of each token where they are in 8 bits."""

    cache: torch.Tensor
    scale: torch.Tensor | None

    def write(self, places: torch.Tensor, states: torch.Tensor) -> None:
        """Keep float32 `[1, heads, n, size]` at these places."""
        if self.scale is not None:
            states, scale = narrow_rows(states)
            self.scale.index_copy_(2, places, scale)
        self.cache.index_copy_(2, places, states)

    def read(self) -> torch.Tensor:
        """What attention sees, float32: all of it, or what is shown of it."""
        if self.scale is None:
            return self.cache
        # Of three dimensions: of four, XNNPACK's lowering asks whether a length that only the run knows is 1.
        return (self.cache[0].to(torch.float32) * self.scale[0])[None]


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

    def kept(kind: str, layer: int) -> _Kept:
        scale: torch.Tensor | None = getattr(module, f"{prefix}{kind}_scale_{layer}", None)
        return _Kept(getattr(module, f"{prefix}{kind}_{layer}"), scale)

    made = [_make_layer(kept("keys", at), kept("values", at), places, held, reads_back) for at in range(layers)]
    return sys.modules["transformers"].Cache(layers=made)


def _make_layer(keys: _Kept, values: _Kept, places: torch.Tensor | None, held: Any, reads_back: bool) -> Any:
    """One layer's cache as transformers' models use one."""
    base = sys.modules["transformers.cache_utils"].CacheLayerMixin

    class PlacedLayer(base):  # type: ignore[misc,valid-type]  # transformers is not there when this is checked
        is_compileable = True
        is_sliding = False

        def __init__(self) -> None:
            super().__init__()
            # A layer that nothing is written to is read here, without `update`.
            read = (keys.cache, values.cache) if places is not None else (keys.read(), values.read())
            self.keys, self.values = read
            self.is_initialized = True

        def lazy_initialization(self, key_states: Any, value_states: Any) -> None:
            """Nothing is left to be made."""

        def update(self, key_states: Any, value_states: Any, *_args: Any, **_kwargs: Any) -> tuple[Any, Any]:
            assert places is not None
            keys.write(places, key_states)
            values.write(places, value_states)
            return (keys.read(), values.read()) if reads_back else (key_states, value_states)

        def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
            return keys.cache.shape[2], 0

        def get_seq_length(self) -> Any:
            return held

        def get_max_length(self) -> int:
            return keys.cache.shape[2]

    return PlacedLayer()
