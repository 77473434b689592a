"""`edgex::cached_attention`: attention over the filled part of a cache that its call writes first.

```
cached_attention(query, keys, values, key_cache, value_cache, end, scale, window)
    -> attended, key_cache, value_cache

    key_cache[:, :, end - n : end] = keys                           # value_cache likewise
    attended[i] = softmax(scale * query[i] @ key_cache[seen]) @ value_cache[seen]
    seen        = end - n + i - window < j <= end - n + i           # a window of 0 is none
```

Delegates whose engine has a kernel for it ask for the rewrite `write_cached_attention`. The caches come back as new
tensors, so that a graph with it has no memory of its own; an engine may keep them in one place.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

NAMESPACE, NAME = "edgex", "cached_attention"
_SCHEMA = (
    "(Tensor query, Tensor keys, Tensor values, Tensor key_cache, Tensor value_cache, Tensor end, float scale, "
    "int window) -> (Tensor, Tensor, Tensor)"
)


@cache
def attention_operator() -> Any:
    """The operator, registered with PyTorch when it is first asked for.

    Query float32 `[1, heads, n, size]`; keys and values `[1, shared, n, size]`, of which each serves
    `heads / shared` heads; caches `[1, shared, context, size]`; end int64 `[1]`, how many
    tokens the caches hold with the new ones.
    """
    torch.library.define(f"{NAMESPACE}::{NAME}", _SCHEMA)
    torch.library.impl(f"{NAMESPACE}::{NAME}", "CPU", _compute)
    torch.library.register_fake(f"{NAMESPACE}::{NAME}", _infer)
    return torch.ops.edgex.cached_attention.default


def _compute(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    end: torch.Tensor,
    scale: float,
    window: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    length = int(end)
    places = torch.arange(length - query.shape[2], length)
    new_keys, new_values = (old.index_copy(2, places, new) for old, new in ((key_cache, keys), (value_cache, values)))
    others = torch.arange(length)
    seen = others[None] <= places[:, None]
    if window:
        seen &= others[None] > places[:, None] - window
    attended = torch.nn.functional.scaled_dot_product_attention(
        query,
        new_keys[:, :, :length],
        new_values[:, :, :length],
        seen,
        scale=scale,
        enable_gqa=query.shape[1] != keys.shape[1],
    )
    return attended, new_keys, new_values


def _infer(
    query: torch.Tensor,
    _keys: torch.Tensor,
    values: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    _end: torch.Tensor,
    _scale: float,
    _window: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    attended = query.new_empty((*query.shape[:3], values.shape[3]))
    return attended, torch.empty_like(key_cache), torch.empty_like(value_cache)
