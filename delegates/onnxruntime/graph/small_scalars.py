"""Keep scalars that are almost 0 or 1 from the optimizer, which takes them for exactly that.

```
before:  y = Add(x, 1e-10)                   # optimized: y = x, so that log(x + 1e-10) is -inf at zero
after:   y = Add(x, [1e-10])                 # of shape [1], which onnxscript's rules for no-ops leave alone
```

onnxscript drops `x + c` and `x - c` for |c| up to 1e-8, `x * c` and `x / c` for c within 1e-5 of 1: it compares with
the tolerances of `math.isclose` (`onnxscript/rewriter/rules/common/_no_op.py`). The epsilon of many a norm is smaller.
"""

from __future__ import annotations

from typing import Any

# By operator, what the optimizer drops, and how near it takes for equal.
_NEUTRAL = {"Add": (0.0, 1e-7), "Sub": (0.0, 1e-7), "Mul": (1.0, 1e-4), "Div": (1.0, 1e-4)}


def keep_small_scalars(model: Any) -> None:
    """Give every such scalar a dimension where it meets a tensor with one.

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
            if not any(_has_dimensions(other) for other in (node.inputs[1 - at], *node.outputs)):
                continue
            constant = onnx_ir.node("Constant", [], {"value": onnx_ir.tensor(array.reshape(1))})
            constant.metadata_props.update(node.metadata_props)
            node.graph.insert_before(node, constant)
            node.replace_input_with(at, constant.outputs[0])


def _scalar_of(value: Any) -> Any:
    """The array of a floating constant without dimensions; None of anything else."""
    producer = None if value is None else value.producer()
    if producer is None or producer.op_type != "Constant" or "value" not in producer.attributes:
        return None
    tensor = producer.attributes["value"].value
    return tensor.numpy() if tensor.dtype.is_floating_point() and tensor.shape.rank() == 0 else None


def _is_almost(number: float, neutral: float, tolerance: float) -> bool:
    return number != neutral and abs(number - neutral) <= tolerance


def _has_dimensions(value: Any) -> bool:
    return value.shape is not None and value.shape.rank() > 0
