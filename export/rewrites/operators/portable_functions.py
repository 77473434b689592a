"""Write functions that XNNPACK lacks, or gets wrong at one point, in functions that it has.

| operator | becomes, with t = 2^-100 |
|---|---|
| `sqrt(x)`, `rsqrt(x)` | of `x + 2^-126`, the least normal number: XNNPACK's are wrong at 0 and right from there on |
| `erf(x)` | `(2 gelu(y) - y) / (y + t)` with `y = x sqrt(2)`, up to 6, since `2 gelu(y) = y + y erf(x)` |
| `log1p(x)` | `x * (log(u) + t) / (u - 1 + t)` with `u = 1 + x`: what rounds `u` rounds both (Kahan's formula) |
| `expm1(x)` | `x * (u - 1 + t) / (log(u) + t)` with `u = exp(x)` (Kahan's too), from 1 on `exp(x) - 1` |
| `round(x)` | `x + 1.5 * 2^23 - 1.5 * 2^23`, up to 2^22: float32's own rounding, to even |

ExecuTorch's portable kernels take 25 to 50 ns a number for each of them (one thread of a Xeon), XNNPACK's half of one,
and each cuts a region in two: magnitudes of spectrograms, lengths of vectors. A root is at most 1.1e-19 from the true
one, the rest within a few units in the last place, `erf` within 1e-6. Left alone: other types than float32, and roots
in programs that ask for infinities, which the root's reciprocal at 0 may be.
"""

from __future__ import annotations

import math

import torch
from torch.fx import Node
from torch.nn import functional as F

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import leaves_of, operator_name
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rule, Rules, substitute

aten = torch.ops.aten

# The least normal number of float32.
LEAST = 2.0**-126

_TINY = 2.0**-100
# One unit of float32 at it is 1, also after a number below 2^22 was added.
_WHOLE = 1.5 * 2.0**23
_MOST_ROUNDED = 2.0**22
# What is added to keep a root from 0: nothing is its negative by accident.
_MOST_GUARD = 1e-3
# From here on float32's `erf` is 1.
_MOST_ERF = 6.0

_ASKS_FOR_INFINITY = frozenset(f"aten::{name}" for name in ("isinf", "isposinf", "isneginf", "isfinite", "nan_to_num"))
_COMPARISONS = frozenset(f"aten::{name}" for name in ("eq", "ne", "lt", "le", "gt", "ge"))


def spare_portable_functions(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such function of float32 numbers; the same program comes back without one."""
    rules: Rules = {
        aten.erf.default: Rule(_erf, where=_is_float32),
        aten.log1p.default: Rule(_log1p, where=_is_float32),
        aten.expm1.default: Rule(_expm1, where=_is_float32),
        aten.special_expm1.default: Rule(_expm1, where=_is_float32),
        aten.round.default: Rule(_round, where=_is_float32),
    }
    if not any(map(_asks_for_infinity, program.exported.graph.nodes)):
        root = Rule(lambda x: torch.sqrt(x + LEAST), where=_may_be_zero)
        rules = {**rules, aten.sqrt.default: root, aten.rsqrt.default: Rule(_rsqrt, where=_may_be_zero)}
    detail = "{count} function(s) ({operators}) are computed by others, in the delegate"
    return substitute(program, "spare_portable_functions", rules, detail, keeps_float=True)


def _is_float32(node: Node) -> bool:
    return all(value.dtype == torch.float32 for value in (node.meta["val"], node.args[0].meta["val"]))  # type: ignore[union-attr]


def _may_be_zero(node: Node) -> bool:
    """Whether nothing keeps a root's argument from 0: a bound, or a little that is added."""
    source = node.args[0]
    assert isinstance(source, Node)
    least = next((leaf for leaf in leaves_of(source.args[1:]) if isinstance(leaf, float)), 0.0)
    bounded = operator_name(source) in ("aten::clamp", "aten::clamp_min") and least >= LEAST
    guarded = operator_name(source) == "aten::add" and LEAST <= least <= _MOST_GUARD
    return _is_float32(node) and not bounded and not guarded


def _asks_for_infinity(node: Node) -> bool:
    """Whether an operator tells infinities from numbers."""
    name = operator_name(node)
    if name in _ASKS_FOR_INFINITY:
        return True
    return name in _COMPARISONS and any(isinstance(leaf, float) and math.isinf(leaf) for leaf in leaves_of(node.args))


def _rsqrt(x: torch.Tensor) -> torch.Tensor:
    return torch.rsqrt(x + LEAST)


def _erf(x: torch.Tensor) -> torch.Tensor:
    y = torch.clamp(x, -_MOST_ERF, _MOST_ERF) * math.sqrt(2.0)
    return (2.0 * F.gelu(y) - y) / (y + _TINY)


def _log1p(x: torch.Tensor) -> torch.Tensor:
    u = x + 1.0
    return x * ((torch.log(u) + _TINY) / ((u - 1.0) + _TINY))


def _expm1(x: torch.Tensor) -> torch.Tensor:
    # Beyond 1 nothing is lost by the subtraction, and beyond 88.7 the quotient would be one of infinities.
    small = torch.clamp(x, -16.0, 1.0)
    u = torch.exp(small)
    near = small * (((u - 1.0) + _TINY) / (torch.log(u) + _TINY))
    # XNNPACK's exponential is infinite a little sooner than PyTorch's.
    root = torch.exp(torch.clamp(x, min=1.0) * 0.5)
    return near + (root * root - math.e)


def _round(x: torch.Tensor) -> torch.Tensor:
    near = torch.clamp(x, -_MOST_ROUNDED, _MOST_ROUNDED)
    return ((near + _WHOLE) - _WHOLE) + (x - near)
