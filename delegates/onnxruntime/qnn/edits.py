"""What is written otherwise for QNN: operators that the HTP takes in another form only."""

from __future__ import annotations

import math
from typing import Any

from edgex.delegates.onnxruntime.graph.edits import GraphEditor, is_constant


def flatten_gathers(editor: GraphEditor) -> None:
    """Gather along one axis what is gathered along several: the HTP takes no GatherND of many dimensions.

    ```
    before:  x[4, 8, 5], indices[2, 3, 2] -> GatherND -> y[2, 3, 5]
    after:   x -> Reshape -> rows[32, 5]
             indices -> + sizes where negative -> * [8, 1] -> ReduceSum -> row[2, 3]
             rows, row -> Gather -> y[2, 3, 5]
    ```

    Constant indices are computed here. Sizes are fixed; one that is not leaves the node as it is.
    """
    for node in list(editor.graph):
        if node.op_type == "GatherND" and node.domain == "" and _batch_dims(node) == 0:
            _flatten(editor, node)
    editor.remove_unused()


def _batch_dims(node: Any) -> int:
    return int(node.attributes["batch_dims"].as_int()) if "batch_dims" in node.attributes else 0


def _flatten(editor: GraphEditor, node: Any) -> None:
    import numpy as np

    data, indices = node.inputs
    output = node.outputs[0]
    if not _is_fixed(data) or not _is_fixed(indices):
        return
    depth = int(indices.shape[-1])
    sizes, rest = [int(size) for size in data.shape[:depth]], [int(size) for size in data.shape[depth:]]
    strides = [math.prod(sizes[axis + 1 :]) for axis in range(depth)]
    shape = editor.constant("rows_shape", np.array([math.prod(sizes), *rest], np.int64))
    (rows,) = editor.insert(
        "Reshape", [data, shape], f"{node.name}_rows", at=node, types=[(data.dtype, [math.prod(sizes), *rest])]
    )
    if is_constant(indices):
        known = indices.const_value.numpy() % np.array(sizes)
        row = editor.constant(f"{node.name}_row", (known * np.array(strides)).sum(-1).astype(np.int64))
    else:
        row = _compute_row(editor, node, sizes, strides)
    types = [(output.dtype, output.shape)]
    (gathered,) = editor.insert("Gather", [rows, row], f"{node.name}_flat", at=node, types=types)
    editor.replace(output, gathered)


def _compute_row(editor: GraphEditor, node: Any, sizes: list[int], strides: list[int]) -> Any:
    """The row that each of the indices means; a negative one counts from the end."""
    import numpy as np
    import onnx_ir

    indices = node.inputs[1]
    integers, shape = onnx_ir.DataType.INT64, list(indices.shape)
    zero = editor.constant("zero", np.array(0, np.int64))
    size = editor.constant("sizes", np.array(sizes, np.int64))
    stride = editor.constant("strides", np.array(strides, np.int64))
    last = editor.constant("last_axis", np.array([-1], np.int64))

    def put(kind: str, inputs: list[Any], dtype: Any, sizes: list[Any], **attributes: Any) -> Any:
        name = f"{node.name}_{kind.lower()}"
        return editor.insert(kind, inputs, name, at=node, types=[(dtype, sizes)], attributes=attributes)[0]

    negative = put("Less", [indices, zero], onnx_ir.DataType.BOOL, shape)
    wrapped = put("Add", [indices, size], integers, shape)
    positive = put("Where", [negative, wrapped, indices], integers, shape)
    steps = put("Mul", [positive, stride], integers, shape)
    return put("ReduceSum", [steps, last], integers, shape[:-1], keepdims=0)


def _is_fixed(value: Any) -> bool:
    return value.shape is not None and all(isinstance(size, int) for size in value.shape)
