"""Write softmax over another dimension than the last as one over rows of a matrix, which ONNX Runtime turns quickly.

```
before:  y = aten.softmax.int(k, 2)                                     # k: [1, 8, 3137, 8], keys of CoaT
after:   y = aten.softmax.int(k.reshape(8, 3137, 8), 1).reshape(k.shape)

before:  y = aten.softmax.int(x, 2)                                     # x: [1, 4, 4, 8400]: few numbers, often
after:   e = aten.exp.default(x - x.amax(2, True))
         y = e / e.sum(2, True)
```

ONNX Runtime moves the dimension to the end, computes and moves it back. Two neighbouring dimensions change places
quickly; with more behind it, the tensor is walked through number by number: over the channels of 1 x 64 x 80 x 80 that
takes 2,480 us, over those of 1 x 64 x 6400 it takes 240. Behind a permute the optimizer makes the slow form of the
quick one, since it carries permutes over a softmax; a reshape stops it. Each row of a short softmax costs a call:
16 x 4 x 8400 takes 1,490 us, in parts 260. One thread, Zen 4.
"""

from __future__ import annotations

from math import prod
from typing import Any

import torch

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rules, static, substitute

# Below this length, and with at least as many neighbours, the parts are as quick or quicker (measured from 2 to 64).
_SHORT = 12
_MANY = 256


def flatten_softmax(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such softmax; the same program comes back without one."""
    rules: Rules = {torch.ops.aten.softmax.int: _softmax}
    return substitute(program, "flatten_softmax", rules, "{count} softmax(es) became those of matrices")


def _softmax(x: torch.Tensor, dim: int, dtype: torch.dtype | None) -> Any:
    if x.dim() < 2 or dtype not in (None, x.dtype) or not static(*x.shape[1:]):
        return NotImplemented
    dim %= x.dim()
    behind = prod(x.shape[dim + 1 :])
    if dim == x.dim() - 1 or not static(x.shape[dim]) or 0 in x.shape[1:]:
        return NotImplemented
    if x.shape[dim] < _SHORT and behind >= _MANY and x.dtype == torch.float32:
        powers = torch.exp(x - x.amax(dim, True))
        return powers / powers.sum(dim, True)
    if dim == x.dim() - 2 and x.dim() < 4:
        return NotImplemented
    return torch.softmax(x.reshape(-1, x.shape[dim], behind), 1).reshape(x.shape)
