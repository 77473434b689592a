"""Write functions for which an engine has no kernel in terms of elementary ones.

```
before:  y = aten.hypot.default(a, b)
after:   big, small = maximum(abs(a), abs(b)), minimum(abs(a), abs(b))
         y = big * sqrt(1 + (small / big) ** 2)
```

| operator | becomes |
|---|---|
| `exp2(x)` | `pow(2, x)` |
| `fmax(a, b)`, `fmin(a, b)` | `maximum`, `minimum`, of the other where one is NaN |
| `copysign(a, b)` | `abs(a)`, negated where `1 / b` or `b` is below zero |
| `ldexp(a, b)` | `a * pow(2, b)` |
| `round(x, decimals=d)` | `round(x * 10**d) / 10**d` |
| `rrelu(x)` in eval mode | `leaky_relu` with the mean slope |
| `signbit(x)` | `x < 0`, or `1 / x < 0` |
| `clamp(x, 0, 1.5)` | `clamp(x, 0.0, 1.5)`: PyTorch's ONNX exporter has none with bounds of two types |
| `clamp(x, a, b)`, `a` and `b` tensors | `minimum(maximum(x, a), b)` |
| `lerp(x, y, w)` | `x + (y - x) * w`; from a half on `y - (y - x) * (1 - w)`; by tensors `x * (1 - w) + y * w` |
| `cross(a, b)` | products of `a` and `b` with their elements one and two places on |
| `cosh(x)` | `h + 0.25 / h` with `h = exp(abs(x) - log(2))`, since `exp(x)` alone is infinite from 88.7 on |
| `sinh(x)` | `h - 0.25 / h` with its sign, a series up to 1 |
| `_is_all_true(x)`, `_is_any_true(x)` | `all(x)`, `any(x)`, of which they are other names |
"""

from __future__ import annotations

import math
from typing import Any

import torch

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rule, Rules, substitute

aten = torch.ops.aten


def write_elementary(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such function in elementary ones; the same program comes back without one."""
    rules: Rules = {
        aten.exp2.default: Rule(_exp2),
        aten.special_exp2.default: Rule(_exp2),
        aten.fmax.default: Rule(_fmax),
        aten.fmin.default: Rule(_fmin),
        aten.hypot.default: Rule(_hypot),
        aten.copysign.Tensor: Rule(_copysign),
        aten.copysign.Scalar: Rule(_copysign),
        aten.signbit.default: Rule(_signbit),
        aten.ldexp.Tensor: Rule(_ldexp),
        aten.round.decimals: Rule(_round),
        aten.rrelu.default: Rule(_rrelu),
        aten.clamp.default: Rule(_clamp),
        aten.clamp.Tensor: Rule(_between),
        aten.clamp_min.Tensor: Rule(lambda x, least: _between(x, least, None)),
        aten.clamp_max.Tensor: Rule(lambda x, most: _between(x, None, most)),
        aten.lerp.Scalar: Rule(_lerp),
        aten.lerp.Tensor: Rule(_lerp),
        aten.linalg_cross.default: Rule(_cross),
        aten.cross.default: Rule(_cross),
        aten.sinh.default: Rule(_sinh),
        aten.cosh.default: Rule(_cosh),
        aten._is_all_true.default: Rule(torch.all),
        aten._is_any_true.default: Rule(torch.any),
    }
    return substitute(program, "write_elementary", rules, "{count} operator(s) ({operators}) became elementary ones")


def _exp2(x: torch.Tensor) -> Any:
    return torch.pow(2.0, x) if x.is_floating_point() else NotImplemented


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


def _clamp(x: torch.Tensor, least: float | None, most: float | None) -> Any:
    if not x.is_floating_point() or {type(least), type(most)} != {int, float}:
        return NotImplemented
    assert least is not None and most is not None
    return torch.clamp(x, float(least), float(most))


def _between(x: torch.Tensor, least: torch.Tensor | None, most: torch.Tensor | None) -> Any:
    bounds = [bound for bound in (least, most) if bound is not None]
    if not bounds or not x.is_floating_point() or any(torch.result_type(x, bound) != x.dtype for bound in bounds):
        return NotImplemented
    x = x if least is None else torch.maximum(x, least.to(x.dtype))
    return x if most is None else torch.minimum(x, most.to(x.dtype))


def _lerp(x: torch.Tensor, y: torch.Tensor, weight: Any) -> Any:
    if not x.is_floating_point():
        return NotImplemented
    if isinstance(weight, int | float) and abs(weight) >= 0.5:
        return y - (y - x) * (1.0 - weight)
    if isinstance(weight, torch.Tensor):
        return x * (1.0 - weight) + y * weight  # exact at 0 and 1
    return x + (y - x) * weight


def _cross(a: torch.Tensor, b: torch.Tensor, dim: int | None) -> Any:
    if dim is None or not a.is_floating_point():
        return NotImplemented
    if a.shape == b.shape and dim % a.dim() == a.dim() - 1 and a.dim() > 1:
        # Numbers that lie apart cost 4 to 40 ns each, rows of them 1.
        (p, q, r), (x, y, z) = (torch.split(value.movedim(-1, 0), 1) for value in (a, b))
        return torch.cat([q * z - r * y, r * x - p * z, p * y - q * x]).movedim(0, -1)
    first, second = (torch.cat([x.narrow(dim, 1, 2), x.narrow(dim, 0, 1)], dim) for x in (a, b))
    third, fourth = (torch.cat([x.narrow(dim, 2, 1), x.narrow(dim, 0, 2)], dim) for x in (b, a))
    return first * third - fourth * second


def _sinh(x: torch.Tensor) -> Any:
    if x.dtype != torch.float32:
        return NotImplemented
    half, square = _half_of_exponential(x), x * x
    series = x * (1 + square * (1 / 6 + square * (1 / 120 + square * (1 / 5040 + square * (1 / 362880)))))
    far = half - torch.reciprocal(half) * 0.25
    return torch.where(torch.abs(x) < 1, series, torch.where(x < 0, -far, far))


def _cosh(x: torch.Tensor) -> Any:
    if x.dtype != torch.float32:
        return NotImplemented
    half = _half_of_exponential(x)
    return half + torch.reciprocal(half) * 0.25


def _half_of_exponential(x: torch.Tensor) -> torch.Tensor:
    return torch.exp(torch.abs(x) - math.log(2))
