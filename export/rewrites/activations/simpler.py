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

before:  y = aten.softplus.default(x)                               # log(1 + exp(x))
after:   e = exp(-abs(x)); u = e + 1
         y = relu(x) + (log(u) + (e - (u - 1)))                     # the last term is what rounding took from u

before:  y = aten.log_softmax.int(x, 1)
after:   below = x - aten.amax.default(x, [1], True); y = below - log(sum(exp(below), [1], True))

before:  y = aten.selu.default(x)                                   # and `celu`
after:   y = aten.elu.default(x, 1.6732632) * 1.050701
```

ExecuTorch would run them in up to seven of its own kernels. `logsigmoid(x)` is `-softplus(-x)`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional as F

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rules, static, substitute

aten = torch.ops.aten

_LARGEST = torch.finfo(torch.float32).max
# XNNPACK has a PReLU for images.
_IMAGE_RANK = 4
# exp(-15) is less than half the last digit of 15 in float32.
_LEAST_THRESHOLD = 15.0
# Klambauer et al., Self-Normalizing Neural Networks, 2017, equation 14.
_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772, 1.0507009873554805


def write_gelu(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every GELU with tanh as a sigmoid; the same program comes back without one."""
    rules: Rules = {aten.gelu.default: _gelu}
    return substitute(program, "write_gelu", rules, "{count} GELU(s) with tanh were written with the sigmoid")


def _gelu(x: torch.Tensor, approximate: str) -> Any:
    if approximate != "tanh":
        return NotImplemented
    cube = x * x * x
    return x * torch.sigmoid((x + cube * 0.044715) * (2 * math.sqrt(2 / math.pi)))


def write_activations(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such activation, PReLU of other tensors than images; the same program comes back without one."""
    rules: Rules = {
        aten.mish.default: _mish,
        aten.log_softmax.int: _log_softmax,
        aten._log_softmax.default: _log_softmax,
        aten.logsumexp.default: _log_of_sum,
        aten.prelu.default: _prelu,
        aten.softplus.default: _softplus,
        aten.log_sigmoid.default: lambda x: -_positive(-x),
        aten.elu.default: _elu,
        aten.selu.default: lambda x: F.elu(x, _SELU_ALPHA) * _SELU_SCALE,
        aten.celu.default: lambda x, alpha: F.elu(x) if alpha == 1 else F.elu(x * (1 / alpha)) * alpha,
    }
    return substitute(program, "write_activations", rules, "{count} activation(s) ({operators}) became simpler ones")


def _log_softmax(x: torch.Tensor, dim: int, asked: Any) -> Any:
    if x.dtype != torch.float32 or asked not in (None, False, x.dtype) or x.dim() == 0:
        return NotImplemented
    if not static(x.shape[dim]) or x.shape[dim] == 0:
        return NotImplemented
    below = x - torch.amax(x, [dim], keepdim=True)
    return below - torch.log(torch.exp(below).sum([dim], keepdim=True))


def _log_of_sum(x: torch.Tensor, dims: Sequence[int], keepdim: bool) -> Any:
    sizes = [x.shape[dim] for dim in dims] if x.dim() else []
    if x.dtype != torch.float32 or not sizes or not static(*sizes) or 0 in sizes:
        return NotImplemented
    # Of what is infinite nothing is subtracted: the sum is zero or infinite by itself.
    largest = torch.amax(x, list(dims), keepdim=True).clamp(-_LARGEST, _LARGEST)
    found = torch.log(torch.exp(x - largest).sum(list(dims), keepdim=True)) + largest
    return found if keepdim else found.reshape([size for at, size in enumerate(x.shape) if at not in _all(dims, x)])


def _all(dims: Sequence[int], x: torch.Tensor) -> set[int]:
    return {dim % x.dim() for dim in dims}


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


def _softplus(x: torch.Tensor, beta: float, threshold: float) -> Any:
    if threshold < _LEAST_THRESHOLD or beta <= 0:
        return NotImplemented
    return _positive(x) if beta == 1 else _positive(x * beta) * (1 / beta)


def _positive(x: torch.Tensor) -> torch.Tensor:
    """`log(1 + exp(x))`, with all of its digits below zero too."""
    power = torch.exp(-torch.abs(x))
    above_one = power + 1.0
    return torch.relu(x) + (torch.log(above_one) + (power - (above_one - 1.0)))


def _elu(x: torch.Tensor, alpha: float, scale: float, input_scale: float) -> Any:
    if scale == input_scale == 1:
        return NotImplemented
    y = F.elu(x if input_scale == 1 else x * input_scale, alpha * input_scale)
    return y if scale == input_scale else y * (scale / input_scale)
