"""Which values may be infinite or NaN, told from how the program makes them.

What changes how a value is chosen or masked changes what becomes of a NaN that nobody chose. Four kinds are told apart,
for ordinary weights and inputs; no number grows out of all proportion but through an exponential:

```
x = input                      UNSURE      a NaN in its place may be the caller's, to be masked
y = linear(x)                  FINITE      it would have spread already
p = log(y), y / x              UNSURE      on what numbers it works is not known here
z = masked_fill(y, m, -inf)    INFINITE
s = softmax(z)                 NAN         of a row that is masked as a whole, and then in all that reads it
```
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.graph.schema import leaves_of, operator_name
from edgex.delegates.graph.torch_internals import FakeTensor

# Larger constants are trained ones: they are not read.
_MOST = 1 << 22


class Finiteness(enum.IntEnum):
    """What a value may hold; a larger one takes in those before it, but that UNSURE ends where places are mixed."""

    FINITE = 0
    UNSURE = 1
    INFINITE = 2
    NAN = 3


def _named(*names: str) -> frozenset[str]:
    return frozenset(f"aten::{name}" for name in names)


# Their results are operands, or the nearest numbers to them.
_KEEPS = _named(
    *("reshape", "view", "_unsafe_view", "permute", "transpose", "t", "expand", "expand_as", "slice", "unsqueeze"),
    *("squeeze", "select", "index", "gather", "cat", "clone", "contiguous", "detach", "alias", "pad", "flatten"),
    *("unflatten", "to", "_to_copy", "index_select", "roll", "repeat", "stack", "chunk", "split", "unbind", "flip"),
    *("split_with_sizes", "constant_pad_nd", "movedim", "unfold", "pixel_shuffle", "pixel_unshuffle", "dropout"),
    *("where", "masked_fill", "tril", "triu", "embedding", "select_scatter", "slice_scatter", "copy", "view_as"),
    *("neg", "abs", "relu", "relu6", "hardtanh", "clamp", "clamp_min", "clamp_max", "leaky_relu", "elu", "celu"),
    *("selu", "softplus", "maximum", "minimum", "max", "min", "amax", "amin", "sort", "topk", "floor", "ceil"),
    *("zeros", "ones", "full", "arange", "linspace", "eye", "scalar_tensor", "new_zeros", "new_ones", "new_full"),
    *("round", "trunc", "max_pool1d", "max_pool2d", "max_pool3d", "adaptive_max_pool2d", "prelu", "lift_fresh_copy"),
)
_BOUNDS = _named("sigmoid", "tanh", "hardsigmoid", "erf", "atan")
_GROWS = _named("exp", "exp2", "expm1", "sinh", "cosh")
# Place by place; infinity less infinity, or times 0, is no number.
_COUNTS = _named(
    *("add", "sub", "rsub", "mul", "square", "sin", "cos", "silu", "gelu", "mish", "hardswish", "logsigmoid"),
    *("log_sigmoid", "batch_norm", "lerp", "addcmul"),
)
# All that is one number for a row, a window or a matrix.
_MIXES = _named(
    *("mm", "bmm", "matmul", "linear", "addmm", "baddbmm", "einsum", "dot", "mv", "bilinear"),
    *("conv1d", "conv2d", "conv3d", "convolution", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"),
    *("layer_norm", "group_norm", "instance_norm", "rms_norm", "softmax", "log_softmax", "logsumexp", "sum", "mean"),
    *("var", "std", "linalg_vector_norm", "cumsum", "lstm", "gru", "rnn_tanh", "rnn_relu", "avg_pool1d", "avg_pool2d"),
    *("avg_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "grid_sampler"),
    *("upsample_linear1d", "upsample_bilinear2d", "upsample_bicubic2d", "upsample_trilinear3d", "embedding_bag"),
    "scaled_dot_product_attention",
)
# Their literal, which is not 0 here, scales and moves what is infinite.
_BY_LITERALS = _named("add", "sub", "rsub", "mul", "div")


class FinitenessOf:
    """Asks for the finiteness of a program's values, each of them once."""

    def __init__(self, constants: Mapping[Node, torch.Tensor]) -> None:
        """Take the placeholders whose value never changes, with that value."""
        self._constants = constants
        self._known: dict[Node, Finiteness] = {}

    def __call__(self, node: Node) -> Finiteness:
        """What a value may hold on ordinary inputs; what is not known is UNSURE."""
        pending = [node]
        while pending:
            first = pending[-1]
            unknown = [read for read in first.all_input_nodes if read not in self._known]
            if unknown and first not in self._known:
                pending += unknown
                continue
            pending.pop()
            if first not in self._known:
                self._known[first] = self._judge(first)
        return self._known[node]

    def _judge(self, node: Node) -> Finiteness:
        if not any(map(_is_float, leaves_of(node.meta.get("val")))):
            return Finiteness.FINITE
        if node in self._constants:
            return _of_tensor(self._constants[node])
        operands = [self._known[read] for read in node.all_input_nodes]
        literals = [leaf for leaf in leaves_of((node.args, node.kwargs)) if isinstance(leaf, float | int)]
        operands += [_of_number(literal) for literal in literals]
        worst = max(operands, default=Finiteness.UNSURE)
        return _of_result(node, worst, literals)


def _of_result(node: Node, worst: Finiteness, literals: list[float]) -> Finiteness:
    name = operator_name(node)
    if name is None:  # an input, or one of several results
        return worst if node.op == "call_function" else Finiteness.UNSURE
    if name in _KEEPS or (name in _BY_LITERALS and _has_literal(node, literals)):
        return worst
    if name in _BOUNDS:
        return Finiteness.FINITE if worst == Finiteness.INFINITE else worst
    if name in _GROWS:
        return Finiteness.INFINITE if worst == Finiteness.FINITE else worst
    if name in _MIXES or name in _COUNTS:
        if worst >= Finiteness.INFINITE:
            return Finiteness.NAN
        return Finiteness.FINITE if name in _MIXES else worst
    return max(worst, Finiteness.UNSURE) if worst != Finiteness.INFINITE else Finiteness.NAN


def _has_literal(node: Node, literals: list[float]) -> bool:
    return len(node.all_input_nodes) == 1 and bool(literals) and 0 not in literals and len(node.args) > 1


def _of_tensor(tensor: torch.Tensor) -> Finiteness:
    # Without values (`why`) it is a trained one.
    if isinstance(tensor, FakeTensor) or tensor.numel() > _MOST:
        return Finiteness.FINITE
    if bool(tensor.isnan().any()):
        return Finiteness.NAN
    return Finiteness.INFINITE if bool(tensor.isinf().any()) else Finiteness.FINITE


def _of_number(value: float) -> Finiteness:
    if math.isnan(value):
        return Finiteness.NAN
    return Finiteness.INFINITE if math.isinf(value) else Finiteness.FINITE


def _is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()
