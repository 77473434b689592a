"""Fusions that oneDNN 3.2 makes but computes slowly or wrongly: they are taken apart at export.

Slowly: an activation that opens a partition takes in an operator of two tensors behind it, and oneDNN then computes
both with its reference kernel: tanh(x) + 1 over 128 x 3072 numbers takes 40 ms instead of less than one. Behind a
convolution, a product or another operator of two tensors the same pair is fast.

So it does for most repetitions of an operand behind a product or a convolution, and for a second tensor that is added
in another layout: `layout/repetition.py` has the list. And for a softmax with what writes its result in another order:
the quantize before a convolution over the heads of an attention.

Wrongly: a product with a matrix of weights is computed with all dimensions but the last as one. An operand behind it
that is repeated along some of them, and not along others, is then read at the wrong places. Behind a softmax the same
happens to one number for each place along dimension 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from edgex.delegates.onednn.layout.orders import Order, channels_last, find_order, row_major
from edgex.delegates.onednn.layout.repetition import (
    is_fast_behind_convolution,
    is_fast_behind_product,
    is_whole,
    kept_dims,
)
from edgex.delegates.onednn.layout.sizes import Size
from edgex.delegates.onednn.plan import graph_api
from edgex.delegates.onednn.plan.values import Operation, Value

ACTIVATIONS = frozenset(
    (
        *("abs", "clamp", "elu", "exp", "gelu", "hard_sigmoid", "hard_swish", "leaky_relu", "log", "mish", "relu"),
        *("round", "sigmoid", "softplus", "sqrt", "square", "tanh"),
    )
)
OF_TWO = frozenset(("add", "divide", "maximum", "minimum", "multiply", "subtract"))
_SOFTMAX = ("softmax", "log_softmax")
_CONVOLUTIONS = ("convolution", "conv_transpose")
_ENCODINGS = ("quantize", "dequantize")
_IMAGES = (*_CONVOLUTIONS, "max_pool", "avg_pool", "interpolate", "batch_norm_inference")


def end_unfit_partitions(operations: Sequence[Operation]) -> None:
    """Let nothing be fused where oneDNN would take its reference kernel, or compute something else.

    What was behind it opens a partition of its own, so that oneDNN is asked again until all are fit.
    """
    makers = {operation.output: operation for operation in operations}
    while True:
        unfit = [
            last
            for found in graph_api.partition(operations)
            if (last := _last_fit([operations[number] for number in found.operators], makers)) is not None
        ]
        if not unfit:
            return
        for operation in unfit:
            operation.ends_partition = True


def _last_fit(fused: Sequence[Operation], makers: Mapping[Value, Operation]) -> Operation | None:
    """The operator that must end its partition, or None where all is well; `fused` is in program order."""
    return _last_right(fused) or _last_fast(fused) or _last_inside(fused) or _last_of_fast_operands(fused, makers)


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


def _last_inside(fused: Sequence[Operation]) -> Operation | None:
    """A softmax whose numbers do not lie side by side in what is written, for its reference kernel would write that."""
    written = fused[-1].output
    if written.opaque or written.layout is None:
        return None
    for operation in fused[:-1]:
        if operation.kind in _SOFTMAX and operation.output.shape == written.shape:
            axis = operation.attributes["axis"]
            if written.shape[axis] != 1 and written.layout.strides[axis] != 1:
                return operation
    return None


def _last_of_fast_operands(fused: Sequence[Operation], makers: Mapping[Value, Operation]) -> Operation | None:
    """The operator before the first one whose other operand oneDNN's fast kernels do not take."""
    first = next((operation for operation in fused if operation.kind not in _ENCODINGS), None)
    if first is None:
        return None
    made = {first.output: first}
    seen: list[Operation] = [first]
    for operation in fused[fused.index(first) + 1 :]:
        before = [made[value] for value in operation.inputs if value in made]
        if not before:
            continue
        if operation.kind in OF_TWO:
            others = [value for value in operation.inputs if value not in made]
            if not others and not _is_gate(operation, made):
                return min(before, key=seen.index)  # read twice: on the way to this operator, and by it
            if not all(_takes(seen, operation, value, makers) for value in others):
                return before[0]
        made[operation.output] = operation
        seen.append(operation)
    return None


def _is_gate(operation: Operation, made: Mapping[Value, Operation]) -> bool:
    """Whether it is x * sigmoid(x), or x * x, which is one activation."""
    one, other = operation.inputs
    pairs = ((one, other), (other, one))
    return one is other or any(made[a].kind == "sigmoid" and made[a].inputs[0] is b for a, b in pairs)


def _takes(before: Sequence[Operation], operation: Operation, other: Value, makers: Mapping[Value, Operation]) -> bool:
    """Whether the kernel of the operators before takes in one more with that operand."""
    first, shape = before[0], operation.output.shape
    if first.kind == "matmul":
        # Without AVX-512 its kernels add a whole tensor only before they do anything else.
        late_sum = before[1:] and operation.kind == "add" and is_whole(other.shape, shape) and not _adds_whole(before)
        return not late_sum and is_fast_behind_product(other.shape, shape, folded=_folds_batch(first))
    if first.kind in _CONVOLUTIONS:
        if not is_fast_behind_convolution(other.shape, shape):
            return False
        if not is_whole(other.shape, shape):
            return True
        whole = [step for step in before[1:] if step.kind in OF_TWO]
        groups = first.attributes["groups"]
        dilated = any(step != 1 for step in first.attributes["dilations"])
        # The first sum is one that its kernels know; others read a tensor as they find it. Those of groups, and of
        # single channels whose windows have gaps, know it before any activation only.
        if operation.kind == "add" and not whole:
            return not (len(before) > 1 and groups > 1 and (groups != shape[1] or dilated))
        return _order_of(other, makers) == channels_last(other)
    if first.kind in OF_TWO:
        order = _order_of(first.inputs[0], makers)
        same = is_whole(other.shape, shape) and order is not None and _order_of(other, makers) == order
        return same or not kept_dims(other.shape, shape)
    return first.kind not in _SOFTMAX


def _adds_whole(before: Sequence[Operation]) -> bool:
    """Whether a tensor of the result's shape is added behind the first operator already."""
    shape = before[0].output.shape
    return any(step.kind == "add" and all(is_whole(value.shape, shape) for value in step.inputs) for step in before[1:])


def _order_of(value: Value, makers: Mapping[Value, Operation]) -> Order | None:
    """In which order a value lies, or will; None where that is oneDNN's decision and cannot be told."""
    if not value.opaque:
        return find_order(value, channels_last(value) if len(value.shape) > 2 else None)
    maker = makers.get(value)
    while maker is not None and maker.kind in ACTIVATIONS | OF_TWO:
        value = maker.inputs[0]
        if not value.opaque:
            return find_order(value, channels_last(value) if len(value.shape) > 2 else None)
        maker = makers.get(value)
    if maker is None or maker.kind == "concat":
        return None
    return channels_last(value) if maker.kind in _IMAGES else row_major(value)
