"""What is written otherwise for QNN: operators that the HTP takes in another form only."""

from __future__ import annotations

import math
from typing import Any

from edgex.delegates.onnxruntime.graph.edits import GraphEditor, is_constant


def write_for_htp(editor: GraphEditor) -> None:
    """All of the below."""
    flatten_gathers(editor)
    unfold_norms(editor)
    part_constants(editor)


def part_constants(editor: GraphEditor) -> None:
    """Give each scale its own copy of a constant that several read: QNN reads all with the scale of the first.

    ```
    before:  c_u8 -> DequantizeLinear (0.003) -> 0.75;  c_u8 -> DequantizeLinear (0.001) -> 0.25
    after:   c_u8 -> DequantizeLinear (0.003) -> 0.75;  d_u8 -> DequantizeLinear (0.001) -> 0.25
    ```

    The positive scalars of a model are all 255 in 8 bits. Measured with onnxruntime-qnn 2.7.0: 0.25 became 0.75,
    without a word.
    """
    import onnx_ir

    copies: dict[int, dict[tuple[Any, ...], Any]] = {}
    for node in editor.graph:
        if node.op_type != "DequantizeLinear" or not all(is_constant(value) for value in node.inputs):
            continue
        data = node.inputs[0]
        own = copies.setdefault(id(data), {})
        key = _quantization_of(node)
        if not own:
            own[key] = data
        elif key not in own:
            own[key] = editor.weight(f"{data.name}.scale_{len(own)}", onnx_ir.Tensor(data.const_value.numpy()))
        node.replace_input_with(0, own[key])


def _quantization_of(node: Any) -> tuple[Any, ...]:
    """Scale, zero point and axis of a node whose inputs are constants; equal where these are."""
    arrays = [value.const_value.numpy() for value in node.inputs[1:]]
    axis = node.attributes["axis"].as_int() if "axis" in node.attributes else None
    return (axis, *((array.dtype.str, array.shape, array.tobytes()) for array in arrays))


def unfold_norms(editor: GraphEditor) -> None:
    """Take layer norms apart whose result becomes 16 bits: beside such integers the HTP's own gives other numbers.

    ```
    before:  x -> LayerNormalization -> y -> QuantizeLinear (uint16)
    after:   x - ReduceMean(x) -> c;  c / Sqrt(ReduceMean(c * c) + epsilon) * scale + bias -> y -> QuantizeLinear
    ```

    Measured with onnxruntime-qnn 2.7.0 as sm8650: -1 dB before, 48 dB after.
    """
    for node in list(editor.graph):
        if node.op_type == "LayerNormalization" and node.domain == "" and _becomes_16_bits(node.outputs[0]):
            _unfold_norm(editor, node)
    editor.remove_unused()


def _becomes_16_bits(value: Any) -> bool:
    """Whether a QuantizeLinear to 16 bits reads it, which its zero point tells."""
    import onnx_ir

    wide = (onnx_ir.DataType.UINT16, onnx_ir.DataType.INT16)
    readers = [reader for reader, _ in value.uses() if reader.op_type == "QuantizeLinear"]
    return any(len(reader.inputs) > 2 and reader.inputs[2].dtype in wide for reader in readers)


def _unfold_norm(editor: GraphEditor, node: Any) -> None:
    import numpy as np

    x, scale, bias = (*node.inputs, None)[:3]
    if not _is_fixed(x):
        return
    rank = len(x.shape)
    axis = int(node.attributes["axis"].as_int()) if "axis" in node.attributes else -1
    epsilon = float(node.attributes["epsilon"].as_float()) if "epsilon" in node.attributes else 1e-5
    axes = editor.constant(f"{node.name}_axes", np.arange(axis % rank, rank, dtype=np.int64))
    least = editor.constant(f"{node.name}_epsilon", np.array(epsilon, np.float32))
    whole = list(x.shape)
    row = [size if at < axis % rank else 1 for at, size in enumerate(whole)]

    def put(kind: str, name: str, inputs: list[Any], sizes: list[Any]) -> Any:
        types = [(x.dtype, sizes)]
        return editor.insert(kind, inputs, f"{node.name}_{name}", at=node, types=types)[0]

    centred = put("Sub", "centred", [x, put("ReduceMean", "mean", [x, axes], row)], whole)
    squares = put("Mul", "squares", [centred, centred], whole)
    variance = put("Add", "variance", [put("ReduceMean", "power", [squares, axes], row), least], row)
    y = put("Div", "normal", [centred, put("Sqrt", "deviation", [variance], row)], whole)
    y = put("Mul", "scaled", [y, scale], whole)
    if bias is not None:
        y = put("Add", "shifted", [y, bias], whole)
    editor.replace(node.outputs[0], y)


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
