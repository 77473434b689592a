"""`edgex::cached_attention`: attention over the filled part of a cache that its call writes first.

```
cached_attention(query, keys, values, key_cache, value_cache, end, scale, window)
    -> attended, key_cache, value_cache

    key_cache[:, :, end - n : end] = keys                           # value_cache likewise
    attended[i] = softmax(scale * query[i] @ key_cache[seen]) @ value_cache[seen]
    seen        = end - n + i - window < j <= end - n + i           # a window of 0 is none
```

`edgex::cached_attention_int8` keeps the rows of its caches in 8 bits, each with a scale:

```
cached_attention_int8(query, keys, values, key_cache, value_cache, key_scales, value_scales, end, scale, window)
    -> attended, key_cache, value_cache, key_scales, value_scales

    key_scales[:, :, end - n : end] = max(abs(keys), 1e-6) / 127    # of each row
    key_cache[:, :, end - n : end]  = round(keys / key_scales)
```

Delegates whose engine has a kernel for one ask for the rewrites `write_cached_attention` and
`write_cached_attention_int8`. The caches come back as new
tensors, so that a graph with it has no memory of its own; an engine may keep them in one place.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch

NAMESPACE, NAME, NAME_INT8 = "edgex", "cached_attention", "cached_attention_int8"
# Of numbers in 8 bits, without the lowest, which has no counterpart; and the smallest range that has a scale, so that
# nothing is divided by 0.
_LARGEST, _LEAST_RANGE = 127.0, 1e-6
_SCHEMA = (
    "(Tensor query, Tensor keys, Tensor values, Tensor key_cache, Tensor value_cache, Tensor end, float scale, "
    "int window) -> (Tensor, Tensor, Tensor)"
)
_SCHEMA_INT8 = (
    "(Tensor query, Tensor keys, Tensor values, Tensor key_cache, Tensor value_cache, Tensor key_scales, "
    "Tensor value_scales, Tensor end, float scale, int window) -> (Tensor, Tensor, Tensor, Tensor, Tensor)"
)


def narrow_rows(states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """What a cache in 8 bits keeps of float32 `[1, shared, n, size]`: rows int8, scales float32 `[1, shared, n, 1]`."""
    scale = states.abs().amax(-1, keepdim=True).clamp(min=_LEAST_RANGE) / _LARGEST
    return torch.round(states / scale).to(torch.int8), scale


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


@cache
def attention_operator_int8() -> Any:
    """The operator over caches in 8 bits; scales are float32 `[1, shared, context, 1]`, the rest is as there."""
    torch.library.define(f"{NAMESPACE}::{NAME_INT8}", _SCHEMA_INT8)
    torch.library.impl(f"{NAMESPACE}::{NAME_INT8}", "CPU", _compute_int8)
    torch.library.register_fake(f"{NAMESPACE}::{NAME_INT8}", _infer)
    return torch.ops.edgex.cached_attention_int8.default


def _compute(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    end: torch.Tensor,
    scale: float,
    window: int,
) -> tuple[torch.Tensor, ...]:
    caches = _write([(key_cache, keys), (value_cache, values)], end)
    return (_attend(query, caches[0], caches[1], int(end), scale, window), *caches)


def _compute_int8(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    key_scales: torch.Tensor,
    value_scales: torch.Tensor,
    end: torch.Tensor,
    scale: float,
    window: int,
) -> tuple[torch.Tensor, ...]:
    (key_rows, new_key_scales), (value_rows, new_value_scales) = narrow_rows(keys), narrow_rows(values)
    caches = _write(
        [
            *((key_cache, key_rows), (value_cache, value_rows)),
            *((key_scales, new_key_scales), (value_scales, new_value_scales)),
        ],
        end,
    )
    filled = int(end)
    wide = [
        rows[:, :, :filled].float() * scales[:, :, :filled] for rows, scales in zip(caches[:2], caches[2:], strict=True)
    ]
    return (_attend(query, wide[0], wide[1], filled, scale, window), *caches)


def _write(pairs: Sequence[tuple[torch.Tensor, torch.Tensor]], end: torch.Tensor) -> list[torch.Tensor]:
    """Caches with what is new in them, the last before `end`."""
    places = torch.arange(int(end) - pairs[0][1].shape[2], int(end))
    return [old.index_copy(2, places, new) for old, new in pairs]


def _attend(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, length: int, scale: float, window: int
) -> torch.Tensor:
    places, others = torch.arange(length - query.shape[2], length), torch.arange(length)
    seen = others[None] <= places[:, None]
    if window:
        seen &= others[None] > places[:, None] - window
    return torch.nn.functional.scaled_dot_product_attention(
        query,
        keys[:, :, :length],
        values[:, :, :length],
        seen,
        scale=scale,
        enable_gqa=query.shape[1] != keys.shape[1],
    )


def _infer(query: torch.Tensor, _keys: torch.Tensor, values: torch.Tensor, *others: Any) -> tuple[torch.Tensor, ...]:
    caches = others[:-3]  # before end, scale and window
    attended = query.new_empty((*query.shape[:3], values.shape[3]))
    return (attended, *(torch.empty_like(cache) for cache in caches))
