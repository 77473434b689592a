"""Name the dimensions of a maximum over all of them, and those that a squeeze removes: ONNX takes no others.

```
before:  y = aten.amax.default(x)                          # x: [3, 8]
after:   y = aten.amax.default(x, [0, 1])

before:  y = aten.squeeze.dims(x, [0, 1])                  # x: [1, 8], of which PyTorch leaves the second
after:   y = aten.squeeze.dims(x, [0])
```
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rules, static, substitute

aten = torch.ops.aten


def name_dimensions(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Name the dimensions of every such operator; the same program comes back where all have them."""
    rules: Rules = {
        aten.amax.default: _over_all(torch.amax),
        aten.amin.default: _over_all(torch.amin),
        aten.squeeze.default: lambda x: _squeezed(x, range(x.dim())),
        aten.squeeze.dim: lambda x, dim: _squeezed(x, [dim]),
        aten.squeeze.dims: _squeezed,
    }
    return substitute(program, "name_dimensions", rules, "{count} operator(s) ({operators}) name their dimensions")


def _over_all(reduce: Any) -> Any:
    def write(x: torch.Tensor, dim: Sequence[int], keepdim: bool) -> Any:
        if dim or x.dim() == 0:
            return NotImplemented
        return reduce(x, list(range(x.dim())), keepdim)

    return write


def _squeezed(x: torch.Tensor, dims: Sequence[int]) -> Any:
    if x.dim() == 0:
        return x.clone()
    # A size that varies is not 1: capture has made sure of it.
    kept = [dim for dim in dims if static(x.shape[dim]) and x.shape[dim] == 1]
    if len(kept) == len(dims):
        return NotImplemented
    return x.squeeze(kept) if kept else x.clone()
