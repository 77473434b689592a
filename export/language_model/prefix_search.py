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
from collections.abc import Iterator, Mapping
from dataclasses import replace

import torch

from edgex.errors import EdgexError
from edgex.export.language_model.valid_prefix import PrefixLengths

# How many tokens are read to see what they change.
PROBED = 2


def filled_dimensions(before: torch.Tensor, after: torch.Tensor) -> list[int]:
    """The dimensions along which reading the first tokens left what comes behind them as it was.

    Args:
        before: A buffer at the beginning.
        after: The same behind `PROBED` tokens.
    """
    rests = [(dim, size - PROBED) for dim, size in enumerate(after.shape) if size > PROBED]
    return [
        dim for dim, rest in rests if torch.equal(before.narrow(dim, PROBED, rest), after.narrow(dim, PROBED, rest))
    ]


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


def left_whole(cache: Mapping[str, torch.Tensor], prefix: PrefixLengths) -> list[str]:
    """Names of buffers that are as long as the context, and are read whole."""
    return [name for name, tensor in cache.items() if prefix.context in tensor.shape and name not in prefix.buffers]


def cause_of(error: Exception) -> str:
    """One line about what the user's code, or torch.export, did not take."""
    if isinstance(error, EdgexError) and error.why:
        line = error.why.strip().partition("\n")[0]
        return f"{line} ({error.where})" if error.where else line
    return str(error).strip().partition("\n")[0] or type(error).__name__
