"""Write functions for which an engine has no kernel in terms of elementary ones.

```
before:  y = aten.hypot.default(a, b)
after:   big, small = maximum(abs(a), abs(b)), minimum(abs(a), abs(b))
         y = big * sqrt(1 + (small / big) ** 2)
```

| operator | becomes |
|---|---|
| `exp2(x)` | `pow(2, x)` |
| `erfc(x)` | `1 - erf(x)` up to 0.5, above that `t * exp(-x * x + polynomial(t))` |
| `fmax(a, b)`, `fmin(a, b)` | `maximum`, `minimum`, of the other where one is NaN |
| `copysign(a, b)` | `abs(a)`, negated where `1 / b` or `b` is below zero |
| `ldexp(a, b)` | `a * pow(2, b)` |
| `round(x, decimals=d)` | `round(x * 10**d) / 10**d` |
| `rrelu(x)` in eval mode | `leaky_relu` with the mean slope |
| `signbit(x)` | `x < 0`, or `1 / x < 0` |
| `erfinv(x)` | `x * polynomial(-log((1 - x) * (1 + x)))`, another polynomial in its root from 5 on |
| `clamp(x, 0, 1.5)` | `clamp(x, 0.0, 1.5)`: PyTorch's ONNX exporter has none with bounds of two types |
"""

from __future__ import annotations

import math
from typing import Any

import torch

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rule, Rules, substitute

aten = torch.ops.aten

# Numerical Recipes in C, 2nd edition, section 6.2, `erfcc`: relative error below 1.2e-7 everywhere.
_ERFC = (
    *(-1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806),
    *(0.27886807, -1.13520398, 1.48851587, -0.82215223, 0.17087277),
)
# M. Giles, Approximating the erfinv function, GPU Computing Gems Jade Edition, 2011, table 5: relative error below
# 3.5e-7. The first is in w - 2.5 for w < 5, the second in sqrt(w) - 3; highest powers first.
_ERFINV_CENTRE = (
    *(2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087),
    *(-0.00125372503, -0.00417768164, 0.246640727, 1.50140941),
)
_ERFINV_TAIL = (
    *(-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773),
    *(-0.0076224613, 0.00943887047, 1.00167406, 2.83297682),
)


def write_elementary(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such function in elementary ones; the same program comes back without one."""
    rules: Rules = {
        aten.exp2.default: Rule(_exp2),
        aten.special_exp2.default: Rule(_exp2),
        aten.erfc.default: Rule(_erfc),
        aten.special_erfc.default: Rule(_erfc),
        aten.fmax.default: Rule(_fmax),
        aten.fmin.default: Rule(_fmin),
        aten.hypot.default: Rule(_hypot),
        aten.copysign.Tensor: Rule(_copysign),
        aten.copysign.Scalar: Rule(_copysign),
        aten.signbit.default: Rule(_signbit),
        aten.ldexp.Tensor: Rule(_ldexp),
        aten.round.decimals: Rule(_round),
        aten.rrelu.default: Rule(_rrelu),
        aten.erfinv.default: Rule(_erfinv),
        aten.special_erfinv.default: Rule(_erfinv),
        aten.clamp.default: Rule(_clamp),
    }
    return substitute(program, "write_elementary", rules, "{count} operator(s) ({operators}) became elementary ones")


def _exp2(x: torch.Tensor) -> Any:
    return torch.pow(2.0, x) if x.is_floating_point() else NotImplemented


def _erfc(x: torch.Tensor) -> Any:
    if x.dtype != torch.float32:
        return NotImplemented
    size = torch.abs(x)
    t = torch.reciprocal(size * 0.5 + 1)
    exponent = torch.full_like(x, _ERFC[-1])
    for factor in reversed(_ERFC[:-1]):
        exponent = exponent * t + factor
    tail = t * torch.exp(exponent - size * size)
    return torch.where(size < 0.5, 1 - torch.erf(x), torch.where(x < 0, 2 - tail, tail))


def _fmax(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.where(torch.isnan(a), b, torch.where(torch.isnan(b), a, torch.maximum(a, b)))


def _fmin(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.where(torch.isnan(a), b, torch.where(torch.isnan(b), a, torch.minimum(a, b)))


def _hypot(a: torch.Tensor, b: torch.Tensor) -> Any:
    if not (a.is_floating_point() and a.dtype == b.dtype):
        return NotImplemented
    a, b = torch.abs(a), torch.abs(b)
    big = torch.maximum(a, b)
    ratio = torch.minimum(a, b) / torch.where(big == 0, torch.ones_like(big), big)
    found = big * torch.sqrt(ratio * ratio + 1)
    # An infinity is as far away as anything can be, even beside a NaN (IEEE 754).
    infinite = (a == math.inf) | (b == math.inf)
    return torch.where(infinite, torch.full_like(big, math.inf), found)


def is_negative(x: torch.Tensor) -> torch.Tensor:
    """Whether the sign is a minus, also that of zero."""
    return (x < 0) | ((x == 0) & (torch.reciprocal(x) < 0))


def _signbit(x: torch.Tensor) -> Any:
    return is_negative(x) if x.is_floating_point() else x < 0


def _copysign(a: torch.Tensor, b: Any) -> Any:
    if not a.is_floating_point():
        return NotImplemented
    if isinstance(b, int | float):
        return -torch.abs(a) if math.copysign(1.0, b) < 0 else torch.abs(a)
    if not b.is_floating_point():
        return NotImplemented
    size = torch.abs(a)
    return torch.where(is_negative(b), -size, size)


def _ldexp(a: torch.Tensor, b: torch.Tensor) -> Any:
    if not a.is_floating_point():
        return NotImplemented
    return a * torch.pow(2.0, b.to(a.dtype))


def _round(x: torch.Tensor, decimals: int) -> Any:
    if not x.is_floating_point():
        return NotImplemented
    factor = 10.0 ** abs(decimals)
    return torch.round(x * factor) / factor if decimals >= 0 else torch.round(x / factor) * factor


def _rrelu(x: torch.Tensor, lower: float, upper: float, training: bool, *_generator: Any) -> Any:
    return NotImplemented if training else torch.nn.functional.leaky_relu(x, (lower + upper) / 2)


def _erfinv(x: torch.Tensor) -> Any:
    if x.dtype != torch.float32:
        return NotImplemented
    w = -torch.log((1 - x) * (1 + x))  # NaN beyond 1
    centre = _polynomial(_ERFINV_CENTRE, w - 2.5)
    tail = _polynomial(_ERFINV_TAIL, torch.sqrt(torch.clamp(w, min=5.0, max=20.0)) - 3)
    found = x * torch.where(w < 5, centre, tail)
    found = torch.where(torch.abs(x) > 1, torch.full_like(x, math.nan), found)
    return torch.where(torch.abs(x) == 1, x * math.inf, found)


def _polynomial(factors: tuple[float, ...], x: torch.Tensor) -> torch.Tensor:
    found = x * factors[0] + factors[1]
    for factor in factors[2:]:
        found = found * x + factor
    return found


def _clamp(x: torch.Tensor, least: float | None, most: float | None) -> Any:
    if not x.is_floating_point() or {type(least), type(most)} != {int, float}:
        return NotImplemented
    assert least is not None and most is not None
    return torch.clamp(x, float(least), float(most))
