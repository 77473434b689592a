"""Write functions of statistics and physics, for which engines have no kernel or a rough one, in elementary ones.

```
before:  y = aten.special_log_ndtr.default(x)     # onnx: log((1 + erf(x / sqrt(2))) / 2), -inf from -6 on
after:   t = x / sqrt(2)
         y = where(x < -1, log(erfcx(-t) / 2) - t * t, log1p(-erfc(t) / 2))
```

| operator | becomes |
|---|---|
| `erfc(x)` | `1 - erf(x)` up to 0.5, above that `t * exp(-x * x + polynomial(t))` |
| `erfcx(x)` | `t * exp(polynomial(t))`, and `2 * exp(x * x)` less that below zero |
| `ndtr(x)`, `log_ndtr(x)` | `erfc(-x / sqrt(2)) / 2`, and above |
| `erfinv(x)` | `x * polynomial(-log((1 - x) * (1 + x)))`, another polynomial in its root from 5 on |
| `ndtri(p)` | `sqrt(2) * erfinv(2 * p - 1)`, with the logarithm of `4 * p * (1 - p)` |
| `i0(x)`, `i0e(x)`, `i1(x)`, `i1e(x)` | polynomials in `x * x` up to 3.75, then in `1 / x` and `exp(x) / sqrt(x)` |
| `lgamma(x)` | Lanczos' sum, mirrored by `log(pi / sin(pi * x))` below 0.5 |
| `digamma(x)`, `polygamma(1, x)` | six steps up, then the series in `1 / x`, mirrored below 0.5 |
| `mvlgamma(x, p)` | a sum of `lgamma(x - i / 2)` |
| `xlog1py(x, y)` | `x * log1p(y)`, 0 where `x` is |

All have a relative error of some 1e-7 where the function has no zero; float64 is left alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rules, substitute
from edgex.export.rewrites.operators.logarithms import log1p

aten = torch.ops.aten

# All polynomials: highest powers first.
# Numerical Recipes in C, 2nd edition, section 6.2, `erfcc`: relative error below 1.2e-7 everywhere.
_ERFC = (
    *(0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807),
    *(-0.18628806, 0.09678418, 0.37409196, 1.00002368, -1.26551223),
)
# M. Giles, Approximating the erfinv function, GPU Computing Gems Jade Edition, 2011, table 5: relative error below
# 3.5e-7. The first is in w - 2.5 for w < 5, the second in sqrt(w) - 3.
_ERFINV_CENTRE = (
    *(2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087),
    *(-0.00125372503, -0.00417768164, 0.246640727, 1.50140941),
)
_ERFINV_TAIL = (
    *(-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773),
    *(-0.0076224613, 0.00943887047, 1.00167406, 2.83297682),
)
# Abramowitz and Stegun, Handbook of Mathematical Functions, 9.8.1 to 9.8.4: in (x / 3.75) ** 2 up to 3.75, and in
# 3.75 / x from there; absolute errors below 2.2e-7.
_I0_CENTRE = (0.0045813, 0.0360768, 0.2659732, 1.2067492, 3.0899424, 3.5156229, 1.0)
_I0_TAIL = (
    *(0.00392377, -0.01647633, 0.02635537, -0.02057706, 0.00916281),
    *(-0.00157565, 0.00225319, 0.01328592, 0.39894228),
)
_I1_CENTRE = (0.00032411, 0.00301532, 0.02658733, 0.15084934, 0.51498869, 0.87890594, 0.5)
_I1_TAIL = (
    *(-0.00420059, 0.01787654, -0.02895312, 0.02282967, -0.01031555),
    *(0.00163801, -0.00362018, -0.03988024, 0.39894228),
)
# Numerical Recipes in C, 2nd edition, section 6.1, `gammln`: Lanczos' sum with gamma = 5 and six terms.
_LANCZOS = (
    *(76.18009172947146, -86.50532032941677, 24.01409824083091),
    *(-1.231739572450155, 0.1208650973866179e-2, -0.5395239384953e-5),
)
# Abramowitz and Stegun, 6.3.5 and 6.4.6: how far up before the series of 6.3.18 and 6.4.12 have float32's digits.
_STEPS = 6


def write_special_functions(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such function in elementary ones; the same program comes back without one."""
    written: dict[Any, Callable[..., Any]] = {
        aten.erfc.default: _erfc,
        aten.special_erfc.default: _erfc,
        aten.special_erfcx.default: _erfcx,
        aten.special_ndtr.default: lambda x: _erfc(x * -math.sqrt(0.5)) * 0.5,
        aten.special_log_ndtr.default: _log_ndtr,
        aten.erfinv.default: _erfinv,
        aten.special_erfinv.default: _erfinv,
        aten.special_ndtri.default: _ndtri,
        aten.i0.default: _i0,
        aten.special_i0.default: _i0,
        aten.special_modified_bessel_i0.default: _i0,
        aten.special_i0e.default: _i0e,
        aten.special_i1.default: _i1,
        aten.special_modified_bessel_i1.default: _i1,
        aten.special_i1e.default: _i1e,
        aten.lgamma.default: _lgamma,
        aten.special_gammaln.default: _lgamma,
        aten.mvlgamma.default: _mvlgamma,
        aten.special_multigammaln.default: _mvlgamma,
        aten.digamma.default: _digamma,
        aten.special_digamma.default: _digamma,
        aten.special_psi.default: _digamma,
        aten.special_xlog1py.default: _xlog1py,
    }
    rules: Rules = {operator: _of_float32(write) for operator, write in written.items()} | {
        aten.polygamma.default: _of_float32(_polygamma),
        aten.special_polygamma.default: _of_float32(_polygamma),
    }
    detail = "{count} operator(s) ({operators}) became elementary ones"
    return substitute(program, "write_special_functions", rules, detail)


def _of_float32(write: Callable[..., Any]) -> Callable[..., Any]:
    """The function for tensors of float32 alone, which is what the constants are made for."""

    def checked(*values: Any) -> Any:
        tensors = [value for value in values if isinstance(value, torch.Tensor)]
        return write(*values) if all(tensor.dtype == torch.float32 for tensor in tensors) else NotImplemented

    return checked


def _polynomial(factors: tuple[float, ...], x: torch.Tensor) -> torch.Tensor:
    found = x * factors[0] + factors[1]
    for factor in factors[2:]:
        found = found * x + factor
    return found


def _mirrored_erfcx(x: torch.Tensor) -> torch.Tensor:
    """`exp(x * x) * erfc(abs(x))`."""
    t = torch.reciprocal(torch.abs(x) * 0.5 + 1)
    return t * torch.exp(_polynomial(_ERFC, t))


def _erfc(x: torch.Tensor) -> torch.Tensor:
    size = torch.abs(x)
    t = torch.reciprocal(size * 0.5 + 1)
    tail = t * torch.exp(_polynomial(_ERFC, t) - size * size)
    return torch.where(size < 0.5, 1 - torch.erf(x), torch.where(x < 0, 2 - tail, tail))


def _erfcx(x: torch.Tensor) -> torch.Tensor:
    found = _mirrored_erfcx(x)
    return torch.where(x < 0, torch.exp(x * x) * 2 - found, found)


def _log_ndtr(x: torch.Tensor) -> torch.Tensor:
    t = x * math.sqrt(0.5)
    above = log1p(_erfc(t) * -0.5)
    return torch.where(x < -1, torch.log(_mirrored_erfcx(t) * 0.5) - t * t, above)


def _erfinv(x: torch.Tensor) -> torch.Tensor:
    found = x * _slope_of_erfinv((1 - x) * (1 + x))
    found = torch.where(torch.abs(x) > 1, torch.full_like(x, math.nan), found)
    return torch.where(torch.abs(x) == 1, x * math.inf, found)


def _slope_of_erfinv(rest: torch.Tensor) -> torch.Tensor:
    """`erfinv(x) / x`, of `1 - x * x`; NaN below zero."""
    w = -torch.log(rest)
    tail = _polynomial(_ERFINV_TAIL, torch.sqrt(torch.clamp(w, min=5.0, max=20.0)) - 3)
    return torch.where(w < 5, _polynomial(_ERFINV_CENTRE, w - 2.5), tail)


def _ndtri(p: torch.Tensor) -> torch.Tensor:
    found = (p - 0.5) * (2 * math.sqrt(2)) * _slope_of_erfinv(p * (1 - p) * 4)
    found = torch.where((p < 0) | (p > 1), torch.full_like(p, math.nan), found)
    return torch.where((p == 0) | (p == 1), (p - 0.5) * math.inf, found)


def _i0e(x: torch.Tensor) -> torch.Tensor:
    size = torch.abs(x)
    return _bessel(size, _polynomial(_I0_CENTRE, size * size * (1 / 3.75**2)), _I0_TAIL)


def _i1e(x: torch.Tensor) -> torch.Tensor:
    size = torch.abs(x)
    found = _bessel(size, size * _polynomial(_I1_CENTRE, size * size * (1 / 3.75**2)), _I1_TAIL)
    return torch.where(x < 0, -found, found)


def _i0(x: torch.Tensor) -> torch.Tensor:
    return torch.exp(torch.abs(x)) * _i0e(x)


def _i1(x: torch.Tensor) -> torch.Tensor:
    return torch.exp(torch.abs(x)) * _i1e(x)


def _bessel(size: torch.Tensor, centre: torch.Tensor, factors: tuple[float, ...]) -> torch.Tensor:
    """A modified Bessel function of the first kind, times `exp(-size)`."""
    far = torch.clamp(size, min=3.75)
    tail = _polynomial(factors, torch.reciprocal(far) * 3.75) / torch.sqrt(far)
    return torch.where(size < 3.75, torch.exp(-size) * centre, tail)


def _lgamma(x: torch.Tensor) -> torch.Tensor:
    mirrored = x < 0.5
    z = torch.where(mirrored, 1 - x, x)
    terms = [torch.reciprocal(z + step) * factor for step, factor in enumerate(_LANCZOS)]
    total = sum(terms, torch.full_like(z, 1.000000000190015)) * math.sqrt(2 * math.pi)
    far = z + 4.5
    found = (z - 0.5) * torch.log(far) - far + torch.log(total)
    found = torch.where(mirrored, math.log(math.pi) - torch.log(torch.abs(_sine(x))) - found, found)
    return torch.where(torch.abs(x) == math.inf, torch.full_like(x, math.inf), found)


def _mvlgamma(x: torch.Tensor, p: int) -> torch.Tensor:
    return sum((_lgamma(x - 0.5 * at) for at in range(p)), torch.full_like(x, p * (p - 1) / 4 * math.log(math.pi)))


def _sine(x: torch.Tensor) -> torch.Tensor:
    """`sin(pi * x)`, up to its sign."""
    return torch.sin((x - torch.round(x)) * math.pi)


def _digamma(x: torch.Tensor) -> torch.Tensor:
    mirrored = x < 0.5
    z = torch.where(mirrored, 1 - x, x)
    v = torch.reciprocal(z + _STEPS)
    square = v * v
    series = square * (1 / 12 - square * (1 / 120 - square * (1 / 252)))
    found = torch.log(z + _STEPS) - v * 0.5 - series
    for step in range(_STEPS):
        found = found - torch.reciprocal(z + step)
    angle = (x - torch.round(x)) * math.pi
    found = torch.where(mirrored, found - torch.cos(angle) * math.pi / torch.sin(angle), found)
    # At zero the sign is that of the zero; at the other poles it has none.
    found = torch.where((x < 0) & (angle == 0), torch.full_like(x, math.nan), found)
    return torch.where(x == 0, -torch.reciprocal(x), found)


def _polygamma(n: int, x: torch.Tensor) -> Any:
    if n > 1:
        return NotImplemented
    return _digamma(x) if n == 0 else _trigamma(x)


def _trigamma(x: torch.Tensor) -> torch.Tensor:
    mirrored = x < 0.5
    z = torch.where(mirrored, 1 - x, x)
    v = torch.reciprocal(z + _STEPS)
    square = v * v
    found = v + square * 0.5 + v * square * (1 / 6 - square * (1 / 30 - square * (1 / 42)))
    for step in range(_STEPS):
        part = torch.reciprocal(z + step)
        found = found + part * part
    part = math.pi / _sine(x)
    return torch.where(mirrored, part * part - found, found)


def _xlog1py(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    found = x * log1p(y)
    return torch.where((x == 0) & torch.logical_not(torch.isnan(y)), torch.zeros_like(found), found)
