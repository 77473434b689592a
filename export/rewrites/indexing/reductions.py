"""Name the dimensions of a maximum over all of them, which the translation to ONNX asks for.

```
before:  y = aten.amax.default(x)                          # x: [3, 8]
after:   y = aten.amax.default(x, [0, 1])
```
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rules, substitute

aten = torch.ops.aten


def name_dimensions(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Name the dimensions of every `amax` and `amin`; the same program comes back where all have them."""
    rules: Rules = {aten.amax.default: _over_all(torch.amax), aten.amin.default: _over_all(torch.amin)}
    return substitute(program, "name_dimensions", rules, "{count} {operators} name(s) the dimensions, which are all")


def _over_all(reduce: Any) -> Any:
    def write(x: torch.Tensor, dim: Sequence[int], keepdim: bool) -> Any:
        if dim or x.dim() == 0:
            return NotImplemented
        return reduce(x, list(range(x.dim())), keepdim)

    return write
