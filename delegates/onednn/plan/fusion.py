"""Fusions that oneDNN 3.2 makes but computes slowly or wrongly: they are taken apart at export.

Slowly: an activation that opens a partition takes in an operator of two tensors behind it, and oneDNN then computes
both with its reference kernel: tanh(x) + 1 over 128 x 3072 numbers takes 40 ms instead of less than one. Behind a
convolution, a product or another operator of two tensors the same pair is fast.

Wrongly: a product with a matrix of weights is computed with all dimensions but the last as one. An operand behind it
that is repeated along some of them, and not along others, is then read at the wrong places. Behind a softmax the same
happens to one number for each place along dimension 1.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgex.delegates.onednn.layout.sizes import Size
from edgex.delegates.onednn.plan import graph_api
from edgex.delegates.onednn.plan.values import Operation

ACTIVATIONS = frozenset(
    (
        *("abs", "clamp", "elu", "exp", "gelu", "hard_sigmoid", "hard_swish", "leaky_relu", "log", "mish", "relu"),
        *("round", "sigmoid", "softplus", "sqrt", "square", "tanh"),
    )
)
OF_TWO = frozenset(("add", "divide", "maximum", "minimum", "multiply", "subtract"))
_SOFTMAX = ("softmax", "log_softmax")


def end_unfit_partitions(operations: Sequence[Operation]) -> None:
    """Let nothing be fused where oneDNN would take its reference kernel, or compute something else.

    What was behind it opens a partition of its own, so that oneDNN is asked again until all are fit.
    """
    while True:
        unfit = [
            last
            for found in graph_api.partition(operations)
            if (last := _last_fit([operations[number] for number in found.operators])) is not None
        ]
        if not unfit:
            return
        for operation in unfit:
            operation.ends_partition = True


def _last_fit(fused: Sequence[Operation]) -> Operation | None:
    """The operator that must end its partition, or None where all is well; `fused` is in program order."""
    return _last_right(fused) or _last_fast(fused)


def _last_right(fused: Sequence[Operation]) -> Operation | None:
    """The operator after which an operand would be read at the wrong places."""
    chain = [operation for operation in fused if operation.kind in _SOFTMAX or _folds_batch(operation)]
    for operation in fused:
        before = [one for one in chain if one.output in operation.inputs]
        if not before:
            continue
        shape = operation.output.shape
        if operation.kind in OF_TWO and not all(_folds(value.shape, shape) for value in operation.inputs):
            return before[0]
        chain.append(operation)
    return None


def _folds_batch(operation: Operation) -> bool:
    """Whether it is a product that oneDNN computes as one of two matrices."""
    return operation.kind == "matmul" and len(operation.inputs[1].shape) == 2 and len(operation.output.shape) > 2


def _folds(shape: Sequence[Size], result: Sequence[Size]) -> bool:
    """Whether a tensor is repeated along all dimensions of the result but the last, or along none of them."""
    missing = len(result) - len(shape)
    pairs = [pair for pair in zip((*[1] * missing, *shape)[:-1], result[:-1], strict=True) if pair[1] != 1]
    return all(size == 1 for size, _ in pairs) or all(size == whole for size, whole in pairs)


def _last_fast(fused: Sequence[Operation]) -> Operation | None:
    """The operator that must end its partition, or None where that is fast."""
    first, *rest = fused
    if first.kind not in ACTIVATIONS:
        return None
    last = first
    if rest and first.kind == "sigmoid" and rest[0].kind == "multiply":
        other = [value for value in rest[0].inputs if value is not first.output]
        if other == [first.inputs[0]]:  # x * sigmoid(x) is one activation
            last, *rest = rest
    return last if any(operation.kind in OF_TWO for operation in rest) else None
