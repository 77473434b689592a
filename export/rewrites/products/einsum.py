"""Take Einstein sums with an ellipsis apart, which ONNX Runtime reads wrongly where it stands for several sizes.

```
before:  y = aten.einsum.default("...ij,...jk->...ik", [a, b])             # a: [2, 3, 4, 5], b: [3, 5, 2]
after:   views of a and b, aten.bmm.default, a view                         # as PyTorch computes it
```
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rule, Rules, substitute


def split_einsum(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Take every sum with an ellipsis apart; the same program comes back without one."""
    rules: Rules = {torch.ops.aten.einsum.default: Rule(_einsum, apart=True)}
    return substitute(program, "split_einsum", rules, "{count} einsum(s) with an ellipsis became products of matrices")


def _einsum(equation: str, operands: Sequence[torch.Tensor], path: Sequence[int] | None) -> Any:
    del path
    return torch.einsum(equation, *operands) if "..." in equation else NotImplemented
