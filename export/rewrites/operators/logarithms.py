"""Compute logarithms of sums of exponentials without leaving float32's range, as PyTorch's own kernels do.

```
before:  y = aten.log_sigmoid.default(x)                      # some engines: log(1 / (1 + exp(-x))), -inf from -18 on
after:   y = -softplus(-x)

before:  y = aten.logaddexp.default(a, b)                     # some engines: log(exp(a) + exp(b)), inf from 89 on
after:   e = exp(-abs(a - b))                                 # 0 to 1; 0 where both are the same infinity
         s = e / (2 + e)
         y = max(a, b) + 2 * s * (1 + s**2 / 3 + ... + s**12 / 13)

before:  y = aten.log.default(aten.sigmoid.default(x))        # ONNX Runtime's sigmoid is 17 % off at -15, 0 from -18 on
after:   y = log(1 / (1 + exp(-x)))

before:  y = aten.log1p.default(x)                            # ONNX: log(1 + x), 0 where x is 1e-8
after:   s = x / (2 + x)
         y = where(abs(x) < 0.25, 2 * s * (1 + s**2 / 3 + s**4 / 5 + s**6 / 7 + s**8 / 9), log(1 + x))
```

The same for `binary_cross_entropy_with_logits`, which has a log-sigmoid in it.

A probability that the model returns counts relatively too: 1e-7 is not 0 to who takes its logarithm. Large maps of
them (masks) keep the quicker sigmoid. So does one that is ranked: ONNX Runtime's ends at 1e-7, and makes equals of all
boxes below.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.torch_internals import FakeTensor
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.editor import constant_tensors
from edgex.export.rewrites.editing.substitution import Rule, Rules, substitute

aten = torch.ops.aten

# Behind these a relative error of a sigmoid counts, where elsewhere only its absolute one does.
_SENSITIVE = {
    *(aten.log.default, aten.log2.default, aten.log10.default, aten.reciprocal.default, aten.rsqrt.default),
    *(aten.sqrt.default, aten.pow.Tensor_Scalar, aten.pow.Tensor_Tensor),
}
_RANKING = {
    *(aten.topk.default, aten.sort.default, aten.sort.stable, aten.argsort.default, aten.argsort.stable),
    *(aten.argmax.default, aten.argmin.default, aten.max.dim, aten.min.dim),
}
_DIVISIONS = {aten.div.Tensor, aten.div.Tensor_mode}
# They make numbers that are written in the program.
_NUMBERS = {aten.zeros.default, aten.ones.default, aten.zeros_like.default, aten.ones_like.default}
_VIEWS = {
    *(aten.view.default, aten.reshape.default, aten.slice.Tensor, aten.select.int, aten.unsqueeze.default),
    *(aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.flatten.using_ints),
}
# They hand a relative error on.
_PASSING = _VIEWS | {aten.mul.Tensor, aten.mul.Scalar, aten.clamp.default, aten.clamp_min.default, aten.add.Tensor}
# They hand an order on.
_MOVING = {aten.permute.default, aten.transpose.int, aten.contiguous.default, aten.cat.default, aten.amax.default}
_MOST_RANKED = 1 << 20
# As many probabilities as heads of classifiers return; four operators for one would cost a mask more than they bring.
_MOST_RETURNED = 1 << 16


def steady_logarithms(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such logarithm in the steady form; the same program comes back without one."""
    rules: Rules = {
        aten.log_sigmoid.default: _log_sigmoid,
        aten.logaddexp.default: rule_of_sums(program),
        aten.log1p.default: Rule(log1p, where=_is_float32),
        aten.special_log1p.default: Rule(log1p, where=_is_float32),
        aten.expm1.default: Rule(_expm1, where=_is_float32),
        aten.special_expm1.default: Rule(_expm1, where=_is_float32),
        aten.binary_cross_entropy_with_logits.default: Rule(_cross_entropy, where=_is_float32),
        aten.sigmoid.default: Rule(lambda x: torch.reciprocal(torch.exp(-x) + 1), where=_counts_relatively),
    }
    detail = "{count} operator(s) ({operators}) keep their digits where numbers are large"
    return substitute(program, "steady_logarithms", rules, detail)


def _log_sigmoid(x: torch.Tensor) -> torch.Tensor:
    return torch.neg(torch.nn.functional.softplus(-x))


def rule_of_sums(program: CapturedProgram) -> Rule:
    """How `logaddexp` is written: with less where one of two is known to be finite, as in `logaddexp(zeros, x - 4)`."""
    constants = constant_tensors(program)

    def is_finite(value: Any) -> bool:
        if not isinstance(value, Node):
            return True
        if value.target is aten.full.default:
            return isinstance(value.args[1], int) or (isinstance(value.args[1], float) and math.isfinite(value.args[1]))
        known = constants.get(value)
        if known is None or isinstance(known, FakeTensor):
            return value.target in _NUMBERS
        return bool(torch.isfinite(known).all())

    def operands(node: Node) -> tuple[Any, ...]:
        return *node.args, any(map(is_finite, node.args))

    return Rule(add_in_logarithms, where=lambda node: len(node.args) == 2, operands=operands)


def add_in_logarithms(a: torch.Tensor, b: torch.Tensor, finite: bool = False) -> torch.Tensor:
    """`log(exp(a) + exp(b))`; `finite` where they are not both infinite."""
    distance = torch.abs(a - b) if finite else _distance(a, b)
    return torch.maximum(a, b) + _log1p_of_share(torch.exp(-distance))


def add_in_binary_logarithms(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """`log2(2**a + 2**b)`."""
    return torch.maximum(a, b) + _log1p_of_share(torch.pow(2.0, -_distance(a, b))) * (1 / math.log(2))


def _log1p_of_share(x: torch.Tensor) -> torch.Tensor:
    """`log(1 + x)` of what lies between 0 and 1: `2 * atanh(x / (2 + x))`, by its series, in arithmetic alone.

    The eighth term is 1.3e-8 of the sum for 1, less than the last bit.
    """
    s = x / (x + 2)
    square = s * s
    series = square * (1 / 13) + 1 / 11
    for denominator in (9, 7, 5, 3):
        series = series * square + 1 / denominator
    return (series * square + 1) * s * 2


def log1p(x: torch.Tensor) -> torch.Tensor:
    """`log(1 + x)` with the digits of a small x: `2 * atanh(x / (2 + x))`, by its series.

    Exact to 4e-9 up to 0.25. Dividing what rounding makes of `1 + x` out again (Kahan) takes fewer operators, but
    asks for a logarithm that is exact beside 1, where oneDNN's is off by 3e-4 of itself.
    """
    s = x / (x + 2)
    square = s * s
    series = square * (square * (square * (square * (1 / 9) + 1 / 7) + 1 / 5) + 1 / 3) + 1
    return torch.where(torch.abs(x) < 0.25, s * 2 * series, torch.log(x + 1))


def _expm1(x: torch.Tensor) -> torch.Tensor:
    """`exp(x) - 1` with the digits of a small x: `2 * t / (1 - t)` of `t = tanh(x / 2)`."""
    t = torch.tanh(x * 0.5)
    return torch.where(torch.abs(x) < 0.5, t * 2 / (1 - t), torch.exp(x) - 1)


def _cross_entropy(
    x: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None, positive: torch.Tensor | None, reduction: int
) -> torch.Tensor:
    loss = torch.nn.functional.softplus(-x)
    loss = (1 - target) * x + (loss if positive is None else ((positive - 1) * target + 1) * loss)
    loss = loss if weight is None else loss * weight
    return loss.mean() if reduction == 1 else loss.sum() if reduction == 2 else loss


def _is_float32(node: Node) -> bool:
    return all(source.meta["val"].dtype == torch.float32 for source in node.all_input_nodes)


def _distance(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """How far apart two numbers are; two equal infinities have no difference."""
    apart = torch.abs(a - b)
    return torch.where(a == b, torch.zeros_like(apart), apart)


def _counts_relatively(node: Node) -> bool:
    """Whether a logarithm, a root or a denominator follows, or nothing: it is returned."""
    if _is_returned(node) or _is_ranked(node):
        return True
    waiting, seen = [node], {node}
    while waiting:
        value = waiting.pop()
        for user in value.users:
            if user.target in _SENSITIVE or (user.target in _DIVISIONS and user.args[1] is value):
                return True
            if user.target in _PASSING and user not in seen:
                seen.add(user)
                waiting.append(user)
    return False


def _is_ranked(node: Node) -> bool:
    """Whether such values, not too many, are put into an order: boxes by their scores, pixels of a heat map."""
    count = node.meta["val"].numel()
    if not isinstance(count, int) or count > _MOST_RANKED:
        return False
    waiting, seen = [node], {node}
    while waiting:
        for user in waiting.pop().users:
            if user.target in _RANKING:
                return True
            if user.target in _PASSING | _MOVING and user not in seen:
                seen.add(user)
                waiting.append(user)
    return False


def _is_returned(value: Node) -> bool:
    """Whether an output is a view of few such values."""
    count = value.meta["val"].numel()
    if not isinstance(count, int) or count > _MOST_RETURNED:
        return False
    return any(user.op == "output" or (user.target in _VIEWS and _is_returned(user)) for user in value.users)
