"""Which buffers are filled token by token, and which of them a model can be shown the beginning of.

A dimension as long as the context says little: a convolution's state `[1, channels, 2]` has one where there are as many
channels as tokens. So it is asked what reading changes:

```
two tokens are read:  keys   [1, heads, context, size]   rows 0 and 1 changed, the others as they were: filled by tokens
                      state  [1, context, 2]             all of it changed: read as it is
```

What passes that and still does not fit is left out kind by kind: buffers of one name in each layer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import torch

from edgex.export.language_model.valid_prefix import PrefixLengths


def find_rows(
    cache: Mapping[str, torch.Tensor], before: Callable[[str], torch.Tensor | None], context: int, count: int
) -> dict[str, int]:
    """Of the buffers that reading tokens wrote those with a place for each token of the context.

    Args:
        cache: The buffers behind the first tokens.
        before: Gives the value that one had at the beginning, by name.
        context: How many tokens a cache holds.
        count: How many were read.

    Returns:
        The dimension of the places, by name; a buffer with several is none.
    """
    found = {
        name: [
            dim
            for dim, size in enumerate(tensor.shape)
            if size == context and _is_filled(tensor, before(name), dim, count)
        ]
        for name, tensor in cache.items()
    }
    return {name: dims[0] for name, dims in found.items() if len(dims) == 1}


def find_longer(
    cache: Mapping[str, torch.Tensor], before: Callable[[str], torch.Tensor | None], context: int, count: int
) -> dict[str, int]:
    """As `find_rows`, the buffers with places for more tokens than the context has, and for how many."""
    return {
        name: size
        for name, tensor in cache.items()
        for dim, size in enumerate(tensor.shape)
        if size > context and _is_filled(tensor, before(name), dim, count)
    }


def _is_filled(tensor: torch.Tensor, old: torch.Tensor | None, dim: int, count: int) -> bool:
    """Whether only the first places of a dimension were written; a model may clear those behind them."""
    rest = tensor.narrow(dim, count, tensor.shape[dim] - count)
    if old is None or not rest.numel():
        return False
    return torch.equal(rest, old.narrow(dim, count, rest.shape[dim])) or bool((rest == rest.flatten()[0]).all())


def without_each_kind(prefix: PrefixLengths) -> Iterator[PrefixLengths]:
    """The lengths with every kind of buffer left out in turn, where there are several.

    A kind has one name, but for numbers, one dimension, and no more than that in common: `layers.0.state` and
    `layers.1.state` are one.
    """
    kinds: dict[tuple[str, int], list[str]] = {}
    for name, dim in prefix.buffers.items():
        kinds.setdefault((re.sub(r"\d+", "", name.rpartition(".")[2]), dim), []).append(name)
    for names in kinds.values() if len(kinds) > 1 else ():
        yield replace(prefix, buffers={name: dim for name, dim in prefix.buffers.items() if name not in names})
