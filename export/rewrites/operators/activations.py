"""Write activations in operators that XNNPACK has. Its own GELU is the other one, with the error function.

```
before:  y = aten.gelu.default(x, approximate="tanh")
after:   y = x * sigmoid(2 sqrt(2 / pi) * (x + 0.044715 * x**3))
```

`0.5 * (1 + tanh(z))` is `sigmoid(2 z)`. ExecuTorch 1.5 drops `approximate` when it writes XNNPACK's graph: the result
is 75 dB from the right one, in every Gemma and SigLIP.

```
before:  y = aten.mish.default(x)                                   # x * tanh(log(1 + exp(x)))
after:   n = exp(min(x, 20)) * (exp(min(x, 20)) + 2); y = x * (n / (n + 2))

before:  y = aten.prelu.default(x, weight)                          # x: [1, 128, 200], not an image
after:   y = relu(x) - weight.view(128, 1) * relu(-x)
```

ExecuTorch would run both in five of its own kernels.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rules, substitute

# XNNPACK has a PReLU for images.
_IMAGE_RANK = 4


def write_gelu(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every GELU with tanh as a sigmoid; the same program comes back without one."""
    rules: Rules = {torch.ops.aten.gelu.default: _gelu}
    return substitute(program, "write_gelu", rules, "{count} GELU(s) with tanh were written with the sigmoid")


def _gelu(x: torch.Tensor, approximate: str) -> Any:
    if approximate != "tanh":
        return NotImplemented
    cube = x * x * x
    return x * torch.sigmoid((x + cube * 0.044715) * (2 * math.sqrt(2 / math.pi)))


def write_activations(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every Mish, and every PReLU of other tensors than images; the same program comes back without one."""
    rules: Rules = {torch.ops.aten.mish.default: _mish, torch.ops.aten.prelu.default: _prelu}
    return substitute(program, "write_activations", rules, "{count} activation(s) ({operators}) became simpler ones")


def _mish(x: torch.Tensor) -> Any:
    # tanh(log(a)) is (a * a - 1) / (a * a + 1), here with a = 1 + exp(x); above 20 it is 1 in float32.
    power = torch.exp(torch.clamp(x, max=20.0))
    over = power * (power + 2.0)
    return x * (over / (over + 2.0))


def _prelu(x: torch.Tensor, weight: torch.Tensor) -> Any:
    if x.dim() in (0, _IMAGE_RANK):
        return NotImplemented
    slope = weight if weight.numel() == 1 or x.dim() == 1 else weight.view(-1, *[1] * (x.dim() - 2))
    return torch.relu(x) - slope * torch.relu(-x)
