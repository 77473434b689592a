"""Write functions that XNNPACK lacks, or gets wrong at some points, in functions that it has.

| operator | becomes, with t = 2^-100 |
|---|---|
| `sqrt(x)`, `1 / rsqrt(x)` | `sqrt(x / 16 + 2^-126) * clamp(x * 2^126, 0, 4)`: XNNPACK's are wrong at 0 and at 3e38 |
| `erf(x)` | `(2 gelu(y) - y) / (y + t)` with `y = x sqrt(2)`, since `2 gelu(y) = y + y erf(x)`; a series up to 0.25 |
| `log1p(x)` | `x * (log(u) + t) / (u - 1 + t)` with `u = 1 + x`: what rounds `u` rounds both (Kahan's formula) |
| `expm1(x)` | `x * (u - 1 + t) / (log(u) + t)` with `u = exp(x)` (Kahan's too), from 1 on `exp(x) - 1` |
| `round(x)` | `abs(x) + 2^23 - 2^23` with the sign of `x`: float32's own rounding, to even |

ExecuTorch's portable kernels take 25 to 50 ns a number for each of them (one thread of a Xeon), an operator of XNNPACK
half of one, and each cuts a region in two: magnitudes of spectrograms, lengths of vectors. Zeros and infinities are
those of PyTorch, so that comparisons with them hold; a root of less than 5e-38 is within 1e-18 of the true one, `erf`
within 1e-6, the rest within a few units in the last place. Left alone: other types than float32, and roots that a
bound, or a little that is added, keeps from 0.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.fx import Node
from torch.nn import functional as F

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import named_arguments, operator_name
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rule, Rules, substitute

aten = torch.ops.aten

# The least normal number of float32, and the largest.
LEAST = 2.0**-126
_LARGEST = torch.finfo(torch.float32).max

_TINY = 2.0**-100
# From here on float32 has whole numbers only.
_WHOLE = 2.0**23
# From here on float32's `erf` is 1.
_MOST_ERF = 6.0
# Up to here `erf` is a series: the term left out is at most 2e-9 of it.
_MOST_SERIES = 0.25
# Beyond it the logarithm of `1 + x` is that of `x`.
_LARGE = 2.0**60
# What is added to keep a root from 0: nothing is its negative by accident.
_MOST_GUARD = 1e-3


def spare_portable_functions(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such function of float32 numbers; the same program comes back without one."""
    rules: Rules = {
        aten.sqrt.default: Rule(_sqrt, where=_may_be_zero),
        aten.rsqrt.default: Rule(lambda x: 1.0 / _sqrt(x), where=_may_be_zero),
        aten.erf.default: Rule(_erf, where=_is_float32),
        aten.log1p.default: Rule(_log1p, where=_is_float32),
        aten.expm1.default: Rule(_expm1, where=_is_float32),
        aten.special_expm1.default: Rule(_expm1, where=_is_float32),
        aten.round.default: Rule(_round, where=_is_float32),
    }
    detail = "{count} function(s) ({operators}) are computed by others, in the delegate"
    return substitute(program, "spare_portable_functions", rules, detail, keeps_float=True)


def _is_float32(node: Node) -> bool:
    return all(value.dtype == torch.float32 for value in (node.meta["val"], node.args[0].meta["val"]))  # type: ignore[union-attr]


def _may_be_zero(node: Node) -> bool:
    """Whether nothing keeps a root's argument from 0: a bound, or a little that is added to what has no bound below."""
    source = node.args[0]
    assert isinstance(source, Node)
    if not _is_float32(node):
        return False
    if (least := _bound_below(source)) is not None:
        return least < LEAST
    if operator_name(source) != "aten::add":
        return True
    other, added = source.args[:2]
    guarded = isinstance(added, float) and LEAST <= added <= _MOST_GUARD
    return not guarded or (isinstance(other, Node) and (_bound_below(other) or 0.0) < 0)


def _bound_below(node: Node) -> float | None:
    """The literal bound that a clamp has below; None for anything else."""
    if operator_name(node) not in ("aten::clamp", "aten::clamp_min"):
        return None
    least = named_arguments(node)["min"]
    return float(least) if isinstance(least, int | float) else None


def _sqrt(x: torch.Tensor) -> torch.Tensor:
    # A sixteenth, whose root is a quarter, is far enough from infinity.
    quarter = torch.sqrt(torch.clamp(x * 2.0**-4, max=2.0**124) + LEAST)
    return quarter * torch.clamp(x * 2.0**126, 0.0, 4.0) + (x - torch.clamp(x, max=_LARGEST))


def _erf(x: torch.Tensor) -> torch.Tensor:
    small = torch.clamp(x, -_MOST_SERIES, _MOST_SERIES)
    square = small * small
    series = 1.0 + square * (-1 / 3 + square * (1 / 10 + square * (-1 / 42 + square * (1 / 216))))
    return small * series * (2 / math.sqrt(math.pi)) + (_large_erf(x) - _large_erf(small))


def _large_erf(x: torch.Tensor) -> torch.Tensor:
    """Within 1e-6, which is nothing of a small number's."""
    y = torch.clamp(x, -_MOST_ERF, _MOST_ERF) * math.sqrt(2.0)
    return (2.0 * F.gelu(y) - y) / (y + _TINY)


def _log1p(x: torch.Tensor) -> torch.Tensor:
    near = torch.clamp(x, max=_LARGE)
    u = near + 1.0
    return near * ((torch.log(u) + _TINY) / ((u - 1.0) + _TINY)) + torch.log(torch.clamp(x * (1 / _LARGE), min=1.0))


def _expm1(x: torch.Tensor) -> torch.Tensor:
    # Beyond 1 nothing is lost by the subtraction, and beyond 88.7 the quotient would be one of infinities.
    small = torch.clamp(x, -16.0, 1.0)
    u = torch.exp(small)
    near = small * (((u - 1.0) + _TINY) / (torch.log(u) + _TINY))
    # XNNPACK's exponential is infinite a little sooner than PyTorch's.
    root = torch.exp(torch.clamp(x, min=1.0) * 0.5)
    return near + (root * root - math.e)


def _round(x: torch.Tensor) -> Any:
    rounded = (torch.clamp(x.abs(), max=_WHOLE) + _WHOLE) - _WHOLE
    # Less than a half is rounded to 0, whose sign is that of the number.
    return rounded * torch.clamp(x * 4.0, -1.0, 1.0) + (x - torch.clamp(x, -_WHOLE, _WHOLE))
