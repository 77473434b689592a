"""Products of rows that are sorted by expert with that expert's matrix, as transformers writes its mixtures.

```
before:  y = transformers.grouped_mm_fallback.default(x, weights, ends)   # [S, K], [E, K, N], [E]
after:   expert = sum(arange(S)[:, None] >= ends[None, :], 1)             # whose row it is: [S]
         y = bmm(x[:, None, :], weights[expert])[:, 0, :]                 # S rows, up to E of them

         every = matmul(x, weights)                                       # [E, S, N], of more rows than experts
         y = sum(where(arange(E)[:, None, None] == expert[None, :, None], every, 0), 0)
```

Few rows read the matrices that they need, as one token's do; many rows are multiplied by each, since a copy of its
matrix for every row would take more memory than the model. Rows behind the last end are zeros.
"""

from __future__ import annotations

from typing import Any

import torch

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rules, static, substitute

_NAMES = (("aten", "_grouped_mm"), ("transformers", "grouped_mm_fallback"))


def write_experts(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such product with `matmul`; the same program comes back without one."""
    rules: Rules = {
        getattr(getattr(torch.ops, library), name).default: _product
        for library, name in _NAMES
        if hasattr(getattr(torch.ops, library), name)  # transformers may not be imported
    }
    return substitute(program, "write_experts", rules, "{count} product(s) by experts ({operators}) became matmul")


def _product(rows: torch.Tensor, weights: torch.Tensor, ends: torch.Tensor | None, *rest: Any) -> Any:
    if rows.dim() != 2 or weights.dim() != 3 or ends is None or any(given is not None for given in rest):
        return NotImplemented
    if not static(*rows.shape, *weights.shape):
        return NotImplemented
    count, experts = rows.shape[0], weights.shape[0]
    place = torch.arange(count, dtype=ends.dtype, device=ends.device)
    expert = (place.unsqueeze(1) >= ends.unsqueeze(0)).sum(1)
    if count <= experts:
        chosen = torch.index_select(weights, 0, expert.clamp(max=experts - 1))
        found = torch.bmm(rows.unsqueeze(1), chosen).squeeze(1)
        return torch.where((expert < experts).unsqueeze(1), found, torch.zeros_like(found))
    every = torch.matmul(rows.unsqueeze(0), weights)
    own = torch.arange(experts, device=ends.device).reshape(-1, 1, 1) == expert.reshape(1, -1, 1)
    return torch.where(own, every, torch.zeros_like(every)).sum(0)
