"""Write softmax over another dimension than the last as one over the last, the only one that XNNPACK has.

```
before:  y = aten.softmax.int(x, 2)                                     # x: [1, 4, 16, 8400], boxes of a detector
after:   y = aten.softmax.int(x.transpose(2, 3), 3).transpose(2, 3)
```

ExecuTorch's kernel walks over the tensor with steps as long as what follows the dimension.
"""

from __future__ import annotations

from typing import Any

import torch

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rules, substitute


def move_softmax(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such softmax; the same program comes back without one."""
    rules: Rules = {torch.ops.aten.softmax.int: _softmax}
    return substitute(program, "move_softmax", rules, "{count} softmax(es) became one(s) over the last dimension")


def _softmax(x: torch.Tensor, dim: int, dtype: torch.dtype | None) -> Any:
    last = x.dim() - 1
    if last < 1 or dim % x.dim() == last or dtype not in (None, x.dtype):
        return NotImplemented
    if last == 3 and dim % 4 == 1:  # as images lie in memory behind a convolution
        return torch.softmax(x.permute(0, 2, 3, 1), last).permute(0, 3, 1, 2)
    return torch.softmax(x.transpose(dim, last), last).transpose(dim, last)
