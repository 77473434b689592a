"""Reshapes in the form that every engine takes, and those that the optimizer must not take away.

Without sizes of zero:

```
before:  Reshape(x, [2, -1], allowzero=1)        # a 0 in the shape would mean no element
after:   Reshape(x, [2, -1])                     # a 0 would mean the input's size; there is none
```

torch's exporter asks for the first everywhere, and MIGraphX takes the second only.

Around products, which the optimizer drops by the looks of their sizes alone:

```
before:  a = Reshape(x, [4, 16, 16]); b = MatMul(a, w); y = Reshape(b, [4, 4, 4, 4])     # x: [4, 4, 4, 16]
         # optimized: y = MatMul(x, w), which has the same sizes where w is [4, 16, 4], and other numbers
after:   a = Reshape(x, [4, 16, 16]); b = MatMul(a, w); y = Reshape(b, [-1, 4, 4, 4])    # which it leaves alone
```

onnxscript drops them where the product of what is reshaped would have the sizes of the result
(`onnxscript/rewriter/rules/common/_broadcast_to_matmul.py` of 0.7). It compares with sizes as they are written, and a
-1 is none of them. What only joins the dimensions before the matrices, or the rows of a layer, is left to it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any


def plain_reshapes(model: Any) -> None:
    """Drop `allowzero` from every Reshape to constant sizes without a zero, in place; `model` is an `onnx_ir.Model`."""
    import onnx_ir

    for node in onnx_ir.traversal.RecursiveGraphIterator(model.graph):
        if node.op_type == "Reshape" and node.domain in ("", "ai.onnx") and "allowzero" in node.attributes:
            sizes = node.inputs[1].const_value
            if sizes is not None and 0 not in sizes.numpy():
                del node.attributes["allowzero"]


def keep_reshapes(model: Any) -> None:
    """Write -1 for the first size of what such a product becomes, where its factors are not the same unreshaped.

    Args:
        model: An `onnx_ir.Model` before it is optimized, changed in place.
    """
    import numpy as np
    import onnx_ir

    for node in list(onnx_ir.traversal.RecursiveGraphIterator(model.graph)):
        product = _made_by(node.inputs[0], "MatMul") if _is(node, "Reshape") else None
        if product is None or not any(_made_by(factor, "Reshape") for factor in product.inputs):
            continue
        sizes = _sizes_of(node.outputs[0])
        if sizes is None or 0 in sizes or not sizes or _are_the_same(*map(_unreshaped, product.inputs)):
            continue
        rest = onnx_ir.tensor(np.array([-1, *sizes[1:]], np.int64))
        constant = onnx_ir.node("Constant", [], {"value": rest})
        constant.metadata_props.update(node.metadata_props)
        node.graph.insert_before(node, constant)
        node.replace_input_with(1, constant.outputs[0])


def _are_the_same(left: tuple[Any, Any], right: tuple[Any, Any]) -> bool:
    """Whether factors multiply alike before and after they were reshaped; each is a pair of sizes, None if unknown."""
    (left_before, left_after), (right_before, right_after) = left, right
    if not all((left_before, left_after, right_before, right_after)) or min(len(left_before), len(right_before)) < 2:
        return False
    if right_before[-2:] != right_after[-2:]:
        return False
    if len(right_after) == 2:  # a layer: rows are rows
        return math.prod(right_before[:-2]) == 1 and bool(left_before[-1] == left_after[-1])
    stacks = [_without_ones(before[:-2]) for before in (left_before, right_before)]
    return bool(left_before[-2:] == left_after[-2:]) and stacks[0] == stacks[1]


def _without_ones(sizes: Sequence[int]) -> Sequence[int]:
    """Sizes from the first that is not 1 on."""
    first = next((at for at, size in enumerate(sizes) if size != 1), len(sizes))
    return sizes[first:]


def _unreshaped(factor: Any) -> tuple[Any, Any]:
    """Sizes of what a factor was reshaped from, and its own."""
    reshape = _made_by(factor, "Reshape")
    return _sizes_of(factor if reshape is None else reshape.inputs[0]), _sizes_of(factor)


def _sizes_of(value: Any) -> list[int] | None:
    sizes = None if value.shape is None else list(value.shape)
    return sizes if sizes is not None and all(isinstance(size, int) for size in sizes) else None


def _made_by(value: Any, op_type: str) -> Any:
    producer = None if value is None else value.producer()
    return producer if producer is not None and _is(producer, op_type) else None


def _is(node: Any, op_type: str) -> bool:
    return node.op_type == op_type and node.domain in ("", "ai.onnx")
