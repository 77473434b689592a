"""Fusions that oneDNN 3.2 makes but has no fast kernel for: they are taken apart at export.

An activation that opens a partition takes in an operator of two tensors behind it, and oneDNN then computes both with
its reference kernel: tanh(x) + 1 over 128 x 3072 numbers takes 40 ms instead of less than one. Behind a convolution, a
product or another operator of two tensors the same pair is fast.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgex.delegates.onednn import graph_api
from edgex.delegates.onednn.values import Operation

_ACTIVATIONS = frozenset(
    (
        *("abs", "clamp", "elu", "exp", "gelu", "hard_sigmoid", "hard_swish", "leaky_relu", "log", "mish", "relu"),
        *("round", "sigmoid", "softplus", "sqrt", "square", "tanh"),
    )
)
_OF_TWO = frozenset(("add", "divide", "maximum", "minimum", "multiply", "subtract"))


def end_slow_partitions(operations: Sequence[Operation]) -> None:
    """Let nothing be fused behind an activation where oneDNN would take its reference kernel.

    What was behind it opens a partition of its own, so that oneDNN is asked again until all are fast.
    """
    while True:
        slow = [
            last
            for found in graph_api.partition(operations)
            if (last := _last_fast([operations[number] for number in found.operators])) is not None
        ]
        if not slow:
            return
        for operation in slow:
            operation.ends_partition = True


def _last_fast(fused: Sequence[Operation]) -> Operation | None:
    """The operator that must end its partition, or None where that is fast; `fused` is in program order."""
    first, *rest = fused
    if first.kind not in _ACTIVATIONS:
        return None
    last = first
    if rest and first.kind == "sigmoid" and rest[0].kind == "multiply":
        other = [value for value in rest[0].inputs if value is not first.output]
        if other == [first.inputs[0]]:  # x * sigmoid(x) is one activation
            last, *rest = rest
    return last if any(operation.kind in _OF_TWO for operation in rest) else None
