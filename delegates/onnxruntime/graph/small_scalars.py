"""Keep scalars that are almost 0 or 1 from the optimizer, which takes them for exactly that.

```
before:  y = Add(x, 1e-10)                   # optimized: y = x, so that log(x + 1e-10) is -inf at zero
after:   y = Add(x, [1e-10])                 # of shape [1], which onnxscript's rules for no-ops leave alone

before:  y = Add(norm, 1e-10)                # norm has no dimensions
after:   y = Squeeze(Add(norm, [1e-10]), [0])
```

onnxscript drops `x + c` and `x - c` for |c| up to 1e-8, `x * c` and `x / c` for c within 1e-5 of 1: it compares with
the tolerances of `math.isclose` (`onnxscript/rewriter/rules/common/_no_op.py`). The epsilon of many a norm is smaller,
and a weight may be a scalar too.
"""

from __future__ import annotations

from typing import Any

# By operator, what the optimizer drops, and how near it takes for equal.
_NEUTRAL = {"Add": (0.0, 1e-7), "Sub": (0.0, 1e-7), "Mul": (1.0, 1e-4), "Div": (1.0, 1e-4)}


def keep_small_scalars(model: Any) -> None:
    """Give every such scalar a dimension.

    Args:
        model: An `onnx_ir.Model` before it is optimized, changed in place.
    """
    import onnx_ir

    for node in list(onnx_ir.traversal.RecursiveGraphIterator(model.graph)):
        if node.domain not in ("", "ai.onnx") or node.op_type not in _NEUTRAL:
            continue
        for at, value in enumerate(node.inputs):
            array = _scalar_of(value)
            if array is None or not _is_almost(float(array), *_NEUTRAL[node.op_type]):
                continue
            ranks = [_rank_of(other) for other in (node.inputs[1 - at], *node.outputs)]
            if not any(rank is not None for rank in ranks):
                continue
            node.replace_input_with(at, _insert(node, "Constant", [], {"value": onnx_ir.tensor(array.reshape(1))}))
            if not any(ranks):
                _squeeze(node)
            break


def _squeeze(node: Any) -> None:
    """Give those who read a node's output, which has one dimension now, a scalar again."""
    import numpy as np
    import onnx_ir

    made = node.outputs[0]
    axes = _insert(node, "Constant", [], {"value": onnx_ir.tensor(np.zeros(1, np.int64))})
    scalar = _insert(node, "Squeeze", [made, axes], {}, after=True)
    scalar.type, scalar.shape, made.shape = made.type, onnx_ir.Shape([]), onnx_ir.Shape([1])
    for user, index in list(made.uses()):
        if user is not scalar.producer():
            user.replace_input_with(index, scalar)
    for index, output in enumerate(node.graph.outputs):
        if output is made:
            node.graph.outputs[index] = scalar


def _insert(node: Any, op_type: str, inputs: list[Any], attributes: dict[str, Any], *, after: bool = False) -> Any:
    """The output of a new operator beside a node, whose source it shares."""
    import onnx_ir

    new = onnx_ir.node(op_type, inputs, attributes)
    new.metadata_props.update(node.metadata_props)
    if after:
        node.graph.insert_after(node, new)
    else:
        node.graph.insert_before(node, new)
    return new.outputs[0]


def _scalar_of(value: Any) -> Any:
    """The array of a floating constant or weight without dimensions; None of anything else."""
    if value is None:
        return None
    producer, tensor = value.producer(), value.const_value
    if producer is not None:
        is_constant = producer.op_type == "Constant" and "value" in producer.attributes
        tensor = producer.attributes["value"].value if is_constant else None
    if tensor is None or not tensor.dtype.is_floating_point() or tensor.shape.rank() != 0:
        return None
    return tensor.numpy()


def _is_almost(number: float, neutral: float, tolerance: float) -> bool:
    return number != neutral and abs(number - neutral) <= tolerance


def _rank_of(value: Any) -> int | None:
    return None if value.shape is None else value.shape.rank()
