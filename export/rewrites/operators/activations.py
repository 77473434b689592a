"""Write the GELU with tanh in operators that XNNPACK has; its own is the other GELU, with the error function.

```
before:  y = aten.gelu.default(x, approximate="tanh")
after:   y = x * sigmoid(2 sqrt(2 / pi) * (x + 0.044715 * x**3))
```

`0.5 * (1 + tanh(z))` is `sigmoid(2 z)`. ExecuTorch 1.5 drops `approximate` when it writes XNNPACK's graph: the result
is 75 dB from the right one, in every Gemma and SigLIP.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rules, substitute


def write_gelu(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every GELU with tanh as a sigmoid; the same program comes back without one."""
    rules: Rules = {torch.ops.aten.gelu.default: _gelu}
    return substitute(program, "write_gelu", rules, "{count} GELU(s) with tanh were written with the sigmoid")


def _gelu(x: torch.Tensor, approximate: str) -> Any:
    if approximate != "tanh":
        return NotImplemented
    cube = x * x * x
    return x * torch.sigmoid((x + cube * 0.044715) * (2 * math.sqrt(2 / math.pi)))
