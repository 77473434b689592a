"""Write the padding of transposed convolutions, which takes rows away, as a crop, for engines without such padding.

```
before:  y = aten.conv_transpose2d.input(x, w, b, [2, 2], [1, 1], [1, 1])       # x: [1, 8, 6, 6], w: [8, 4, 3, 3]
after:   full = aten.conv_transpose2d.input(x, w, b, [2, 2])                    # [1, 4, 13, 13]
         y    = full[:, :, 1:13, 1:13]                                          # [1, 4, 12, 12]
```
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


def crop_transposed(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every padded transposed convolution so; the same program comes back without one."""
    rules: Rules = {
        aten.conv_transpose1d.default: _cropper(F.conv_transpose1d),
        aten.conv_transpose2d.input: _cropper(F.conv_transpose2d),
    }
    return substitute(program, "crop_transposed", rules, "{count} transposed convolution(s) are cropped, not padded")


def _cropper(convolve: Any) -> Any:
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
        count = weight.dim() - 2
        pads, extra = each(padding, count), each(output_padding, count)
        if not any(pads):
            return NotImplemented
        beyond = [max(0, more - pad) for more, pad in zip(extra, pads, strict=True)]
        y = convolve(x, weight, bias, stride, 0, beyond, groups, dilation)
        for axis, (pad, more) in enumerate(zip(pads, extra, strict=True), -count):
            y = y.narrow(axis, pad, y.shape[axis] - 2 * pad + min(pad, more))
        return y

    return write
