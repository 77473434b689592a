"""Write attention over more or fewer dimensions than four with four, which all delegates know.

```
before:  y = aten.scaled_dot_product_attention.default(q, k, v)         # [2, 4, 16, 196, 24]: images, heads, blocks
after:   q, k, v = aten.reshape.default(…, [2, 64, 196, 24])
         y = aten.reshape.default(aten.scaled_dot_product_attention.default(q, k, v), [2, 4, 16, 196, 24])
```

PyTorch's decomposition of others guards against rows without any key by six operators on all scores, which run outside
of a delegate or one by one. A mask keeps its meaning: one for all, or one for each of the joined dimensions together.
Left alone: dynamic sizes, keys that several heads share, and masks that are repeated along some of the joined
dimensions only.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import static, substitute

aten = torch.ops.aten
_RANK = 4


def join_ranks(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such attention operator; the same program comes back where there is none."""
    return substitute(
        program,
        "join_ranks",
        {aten.scaled_dot_product_attention.default: _joined},
        "{count} attention operator(s) have four dimensions now",
    )


def _joined(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    outer = query.shape[:-2]
    tensors = (query, key, value)
    if query.dim() == _RANK or query.dim() < 3 or dropout_p or enable_gqa:
        return NotImplemented
    if not all(static(*tensor.shape) and tensor.shape[:-2] == outer for tensor in tensors):
        return NotImplemented
    # The first dimension stays the batch's.
    sizes = (outer[0], math.prod(outer[1:]))
    mask = attn_mask
    if mask is not None:
        if not static(*mask.shape):
            return NotImplemented
        over = (*(1,) * (len(outer) + 2 - mask.dim()), *mask.shape[:-2])
        inner = math.prod(over[1:])
        if inner != 1 and over[1:] != outer[1:]:
            return NotImplemented
        mask = mask.reshape(over[0], inner, *mask.shape[-2:]) if mask.dim() > 2 else mask
    joined = (tensor.reshape(*sizes, *tensor.shape[-2:]) for tensor in tensors)
    made = aten.scaled_dot_product_attention.default(*joined, mask, 0.0, is_causal, scale=scale)
    return made.reshape(*outer, query.shape[-2], value.shape[-1])
