"""Write holes of transposed convolutions into their weights, for engines that have no dilated ones.

```
before:  y = aten.conv_transpose2d.input(x, w, b, [2, 2], [0, 0], [0, 0], 1, [2, 2])     # w: [8, 4, 3, 3], dilation 2
after:   y = aten.conv_transpose2d.input(x, wider, b, [2, 2], [0, 0], [0, 0], 1)         # wider: [8, 4, 5, 5]
```

Zeros are multiplied where there were holes: more work, and the only form that some engines have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional as F

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rules, substitute
from edgex.export.rewrites.pooling.windows import each

aten = torch.ops.aten


def fill_dilation(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every dilated transposed convolution without holes; the same program comes back without one."""
    rules: Rules = {
        aten.conv_transpose1d.default: _filler(F.conv_transpose1d),
        aten.conv_transpose2d.input: _filler(F.conv_transpose2d),
    }
    return substitute(program, "fill_dilation", rules, "{count} transposed convolution(s) have zeros for holes")


def _filler(convolve: Any) -> Any:
    def write(
        x: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        stride: Sequence[int],
        padding: Sequence[int],
        output_padding: Sequence[int],
        groups: int,
        dilation: Sequence[int],
    ) -> Any:
        holes = each(dilation, weight.dim() - 2)
        if all(hole == 1 for hole in holes):
            return NotImplemented
        for axis, hole in enumerate(holes, 2):
            taps = weight.shape[axis]
            spread = F.pad(weight.unsqueeze(axis + 1), [0, 0] * (weight.dim() - axis - 1) + [0, hole - 1])
            weight = spread.flatten(axis, axis + 1).narrow(axis, 0, (taps - 1) * hole + 1)
        return convolve(x, weight, bias, stride, padding, output_padding, groups)

    return write
