"""Functions for which ONNX Runtime's CPU kernels are slow, in terms of those that are not.

```
before:  PRelu(x, slope)                       # 5 ns a number; behind convolutions it cost a third of their time
after:   LeakyRelu(x)                          # one slope: fused with a convolution
         Max(x, Mul(x, slope))                 # slopes between 0 and 1
         Add(Max(x, 0), Mul(Min(x, 0), slope)) # others; 1 ns

before:  Softplus(x)                                                # 13 ns
after:   Add(Relu(x), series of Exp(-|x|) / (2 + Exp(-|x|)))        # 4 ns

before:  Mish(x)                               # of ONNX's own definition: x * Tanh(Softplus(x)), 13 ns
after:   Mul(x, Div(n, n + 2))                 # n = e * (e + 2), e = Exp(Min(x, 20)); 2 ns

before:  ReduceLogSumExp(x)                                         # 5 ns
after:   Add(Log(ReduceSum(Exp(Sub(x, m)))), m)                     # m: ReduceMax(x), bounded; 1 ns
```

The series is that of log1p(e) = 2 artanh(e / (2 + e)), of which seven terms are right to the last bits of float32
for e up to 1. Measured with ONNX Runtime 1.31 on one thread of a Zen processor without AVX-512.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgex.delegates.onnxruntime.graph.edits import numbers_of, sizes_of

if TYPE_CHECKING:
    from edgex.delegates.onnxruntime.graph.edits import GraphEditor

# 2 artanh(s) = 2 s + 2/3 s^3 + 2/5 s^5 + …; s is 1/3 at most, and the next term 1.3e-8 of the sum.
_TERMS = (13, 11, 9, 7, 5, 3, 1)


def spare_functions(editor: GraphEditor) -> None:
    """Write every such function of float32 numbers."""
    import onnx_ir

    for node in list(editor.graph):
        write = _WRITERS.get(node.op_type)
        if write is None or node.domain not in ("", "ai.onnx") or node.inputs[0].dtype != onnx_ir.DataType.FLOAT:
            continue
        if (result := write(_Writer(editor, node), node)) is not None:
            editor.replace(node.outputs[0], result)
    editor.remove_unused()


@dataclass(frozen=True)
class _Writer:
    """Writes operators of float32 numbers in a node's place."""

    editor: GraphEditor
    node: Any

    def call(self, op_type: str, *inputs: Any, shape: Any = None, **attributes: Any) -> Any:
        sizes = self.node.inputs[0].shape if shape is None else shape
        name = f"{self.node.name}_{op_type.lower()}"
        types = [(self.node.inputs[0].dtype, sizes)]
        return self.editor.insert(op_type, list(inputs), name, at=self.node, types=types, attributes=attributes)[0]

    def number(self, value: float) -> Any:
        import numpy as np

        return self.editor.constant("number", np.array(value, dtype=np.float32))


def _prelu(write: _Writer, node: Any) -> Any:
    x, slope = node.inputs
    slopes = numbers_of(slope)
    if slopes is None or not slopes.size:
        return None
    if (slopes == slopes.flat[0]).all():
        return write.call("LeakyRelu", x, alpha=float(slopes.flat[0]))
    if ((slopes > 0) & (slopes <= 1)).all():  # not of 0, whose product with infinity is no number
        return write.call("Max", x, write.call("Mul", x, slope))
    zero = write.number(0.0)
    return write.call("Add", write.call("Max", x, zero), write.call("Mul", write.call("Min", x, zero), slope))


def _softplus(write: _Writer, node: Any) -> Any:
    (x,) = node.inputs
    e = write.call("Exp", write.call("Neg", write.call("Abs", x)))
    s = write.call("Div", e, write.call("Add", e, write.number(2.0)))
    square = write.call("Mul", s, s)
    series = write.number(2.0 / _TERMS[0])
    for term in _TERMS[1:]:
        series = write.call("Add", write.call("Mul", series, square), write.number(2.0 / term))
    return write.call("Add", write.call("Relu", x), write.call("Mul", series, s))


def _mish(write: _Writer, node: Any) -> Any:
    """tanh(log(1 + e)) is n / (n + 2), to which nothing is lost where e is small; from 20 on it is 1 in float32."""
    (x,) = node.inputs
    e = write.call("Exp", write.call("Min", x, write.number(20.0)))
    n = write.call("Mul", e, write.call("Add", e, write.number(2.0)))
    return write.call("Mul", x, write.call("Div", n, write.call("Add", n, write.number(2.0))))


def _log_sum_exp(write: _Writer, node: Any) -> Any:
    x = node.inputs[0]
    sizes = sizes_of(x)
    axes = numbers_of(node.inputs[1]) if len(node.inputs) > 1 and node.inputs[1] is not None else None
    if sizes is None or axes is None:
        return None
    reduced = [1 if at in {int(axis) % len(sizes) for axis in axes} else size for at, size in enumerate(sizes)]
    # A row of infinities has one as its maximum, whose difference from itself would be no number.
    most = 3.4028234663852886e38
    largest = write.call("ReduceMax", x, node.inputs[1], shape=reduced, keepdims=1)
    largest = write.call("Clip", largest, write.number(-most), write.number(most), shape=reduced)
    powers = write.call("Exp", write.call("Sub", x, largest))
    total = write.call("ReduceSum", powers, node.inputs[1], shape=reduced, keepdims=1)
    y = write.call("Add", write.call("Log", total, shape=reduced), largest, shape=reduced)
    kept = node.attributes.get("keepdims")
    if kept is not None and not kept.as_int():
        y = write.call("Squeeze", y, node.inputs[1], shape=node.outputs[0].shape)
    return y


_WRITERS: dict[str, Callable[[_Writer, Any], Any]] = {
    "PRelu": _prelu,
    "Softplus": _softplus,
    "Mish": _mish,
    "ReduceLogSumExp": _log_sum_exp,
}
