"""Compute logarithms of sums of exponentials without leaving float32's range, as PyTorch's own kernels do.

```
before:  y = aten.log_sigmoid.default(x)                      # some engines: log(1 / (1 + exp(-x))), -inf from -18 on
after:   y = -softplus(-x)

before:  y = aten.logaddexp.default(a, b)                     # some engines: log(exp(a) + exp(b)), inf from 89 on
after:   y = max(a, b) + log1p(exp(-abs(a - b)))

before:  y = aten.log.default(aten.sigmoid.default(x))        # ONNX Runtime's sigmoid is 17 % off at -15, 0 from -18 on
after:   y = log(1 / (1 + exp(-x)))
```

A probability that the model returns counts relatively too: 1e-7 is not 0 to who takes its logarithm. Large maps of
them (masks) keep the quicker sigmoid.
"""

from __future__ import annotations

import math

import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rule, Rules, substitute

aten = torch.ops.aten

# Behind these a relative error of a sigmoid counts, where elsewhere only its absolute one does.
_SENSITIVE = {
    *(aten.log.default, aten.log2.default, aten.log10.default, aten.reciprocal.default, aten.rsqrt.default),
    *(aten.sqrt.default, aten.pow.Tensor_Scalar, aten.pow.Tensor_Tensor),
}
_DIVISIONS = {aten.div.Tensor, aten.div.Tensor_mode}
_VIEWS = {
    *(aten.view.default, aten.reshape.default, aten.slice.Tensor, aten.select.int, aten.unsqueeze.default),
    *(aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.flatten.using_ints),
}
# They hand a relative error on.
_PASSING = _VIEWS | {aten.mul.Tensor, aten.mul.Scalar, aten.clamp.default, aten.clamp_min.default, aten.add.Tensor}
# As many probabilities as heads of classifiers return; four operators for one would cost a mask more than they bring.
_MOST_RETURNED = 1 << 16


def steady_logarithms(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such logarithm in the steady form; the same program comes back without one."""
    rules: Rules = {
        aten.log_sigmoid.default: _log_sigmoid,
        aten.logaddexp.default: add_in_logarithms,
        aten.logaddexp2.default: _add_in_binary_logarithms,
        aten.sigmoid.default: Rule(lambda x: torch.reciprocal(torch.exp(-x) + 1), where=_counts_relatively),
    }
    detail = "{count} operator(s) ({operators}) keep their digits where numbers are large"
    return substitute(program, "steady_logarithms", rules, detail)


def _log_sigmoid(x: torch.Tensor) -> torch.Tensor:
    return torch.neg(torch.nn.functional.softplus(-x))


def add_in_logarithms(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """`log(exp(a) + exp(b))`."""
    return torch.maximum(a, b) + torch.log1p(torch.exp(-_distance(a, b)))


def _add_in_binary_logarithms(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.maximum(a, b) + torch.log1p(torch.pow(2.0, -_distance(a, b))) * (1 / math.log(2))


def _distance(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """How far apart two numbers are; two equal infinities have no difference."""
    apart = torch.abs(a - b)
    return torch.where(a == b, torch.zeros_like(apart), apart)


def _counts_relatively(node: Node) -> bool:
    """Whether a logarithm, a root or a denominator follows, or nothing: it is returned."""
    if _is_returned(node):
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


def _is_returned(value: Node) -> bool:
    """Whether an output is a view of few such values."""
    count = value.meta["val"].numel()
    if not isinstance(count, int) or count > _MOST_RETURNED:
        return False
    return any(user.op == "output" or (user.target in _VIEWS and _is_returned(user)) for user in value.users)
