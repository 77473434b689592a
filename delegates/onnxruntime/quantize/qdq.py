"""Static recipes: PT2E's quantize and dequantize operators in the form that ONNX Runtime's CPU provider fuses.

PT2E (s8 activations, s8 weights, float bias) becomes

```
x_u8 -> DequantizeLinear ─┐
w_s8 -> DequantizeLinear ─┼─ Conv | Gemm | MatMul -> QuantizeLinear -> y_u8
b_s32-> DequantizeLinear ─┘
```

- Activations are unsigned: the zero point grows by 128 (by 32768 where they have 16 bits) and the scale stays, so every
  number is the same. The integer kernels for x86 multiply unsigned by signed bytes. With signed activations ONNX
  Runtime leaves most of a network in floating point, or (`session.qdqisint8allowed`) takes kernels that are 10 to 20
  times slower. Arm has kernels for both.
- Constants that are added or multiplied are unsigned too, because both operands must have one type.
- The bias is int32 at the scale of the accumulator, input scale times weight scale; with a float one nothing fuses.
- A linear layer of rank 3 and more is a Gemm between two reshapes of bytes, because only Gemm fuses with its bias.
- A Relu or Clip that cannot become part of the QuantizeLinear behind it works on bytes.
- A mean over both image axes is a GlobalAveragePool.
- A HardSigmoid is a sum in bytes (`edgex.delegates.onnxruntime.quantize.hard_sigmoids`).
- Transposes of weights are done here, not at every start.
- Convolutions in groups of few channels stay in floating point (`edgex.delegates.onnxruntime.quantize.slow_groups`).

MIGraphX multiplies signed by signed bytes and adds the bias in floating point: PT2E's own form, but for the transposes.
"""

from __future__ import annotations

import math
from typing import Any

from edgex.delegates.onnxruntime.graph.edits import GraphEditor, is_constant, made_by, only_user
from edgex.delegates.onnxruntime.quantize.hard_sigmoids import write_hard_sigmoids
from edgex.delegates.onnxruntime.quantize.slow_groups import spare_slow_groups

# The bias must leave room in 32 bits for the products that are added to it.
_LARGEST_BIAS = 1 << 30
# The integers that activations have, as PT2E writes them and as they are stored.
_SIGNED = ("INT8", "INT16")
_UNSIGNED = ("UINT8", "UINT16")
# Operators that a DequantizeLinear is moved behind.
_MOVED_BEHIND = ("MaxPool", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Slice", "Flatten")
_LAYERS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
_IMAGE_AXES = ((2, 3), (-2, -1), (-1, -2), (3, 2), (2, -1))


def fold_weight_transposes(editor: GraphEditor) -> None:
    """Transpose quantized weights instead of what their DequantizeLinear makes of them."""
    import numpy as np
    import onnx_ir

    for node in list(editor.graph):
        dequantize = made_by(node.inputs[0], "DequantizeLinear") if node.op_type == "Transpose" else None
        if dequantize is None or not is_constant(dequantize.inputs[0]):
            continue
        weight = dequantize.inputs[0]
        order = node.attributes["perm"].as_ints()
        axis = _axis(dequantize)
        per_channel = len(dequantize.inputs[1].shape) > 0
        turned = np.transpose(weight.const_value.numpy(), order)
        (output,) = editor.insert(
            "DequantizeLinear",
            [editor.weight(f"{weight.name}.T", onnx_ir.Tensor(turned)), *dequantize.inputs[1:]],
            f"{dequantize.name}_turned",
            at=node,
            types=[(node.outputs[0].dtype, node.outputs[0].shape)],
            attributes={"axis": order.index(axis)} if per_channel else {},
        )
        editor.replace(node.outputs[0], output)
    editor.remove_unused()


def fuse_for_cpu(editor: GraphEditor, *, as_units: bool = False) -> list[Any]:
    """Bring the graph into the form above; its numbers stay, but for the rounding of biases to int32.

    Returns the convolutions that are left in floating point because that is quicker.

    Args:
        editor: Of the graph.
        as_units: Let no operator work on bytes: what only moves them stands between DequantizeLinear and QuantizeLinear
            as the others do, as QNN takes it.
    """
    spared = [] if as_units else spare_slow_groups(editor)
    _spare_float_layers(editor)
    _pool_means(editor)
    _flatten_linears(editor)
    _make_unsigned(editor)
    _make_constants_unsigned(editor)
    if as_units:
        _wrap_moves(editor)
    else:
        _clip_bytes(editor)
        write_hard_sigmoids(editor)
    for node in list(editor.graph):
        if node.op_type in ("Conv", "Gemm") and node.domain == "":
            _quantize_bias(editor, node)
    editor.remove_unused()
    return spared


def _spare_float_layers(editor: GraphEditor) -> None:
    """Put a Clip that changes nothing before layers that stay in floating point.

    ONNX Runtime quantizes the float weights of a layer between DequantizeLinear and QuantizeLinear by itself
    (its WeightBiasQuantization): of all layers those that were kept because 8 bits are not enough for them.
    """
    for node in list(editor.graph):
        if node.op_type not in _LAYERS or node.domain or not is_constant(node.inputs[1]):
            continue
        dequantize = _dequantize_before(node.inputs[0])
        if dequantize is None or not _is_signed_tensor(dequantize) or not is_constant(dequantize.inputs[1]):
            continue
        scale, zero = float(dequantize.inputs[1].const_value.numpy()), int(dequantize.inputs[2].const_value.numpy())
        bounds = [editor.constant("bound", _float32(scale * (end - zero))) for end in _beyond(dequantize)]
        value = node.inputs[0]
        types = [(value.dtype, value.shape)]
        (clipped,) = editor.insert("Clip", [value, *bounds], f"{node.name}_input", at=node, types=types)
        node.replace_input_with(0, clipped)


def _dequantize_before(value: Any) -> Any | None:
    """What dequantizes a value, maybe before operators behind which ONNX Runtime puts it."""
    node = value.producer()
    while node is not None and node.op_type in _MOVED_BEHIND and node.domain == "":
        node = node.inputs[0].producer()
    return node if node is not None and node.op_type == "DequantizeLinear" else None


def has_quantized_weight(node: Any) -> bool:
    """Whether a node is a layer whose constant weight is quantized."""
    weight = made_by(node.inputs[1], "DequantizeLinear") if node.op_type in _LAYERS and not node.domain else None
    return weight is not None and is_constant(weight.inputs[0])


def unfused_reason(node: Any) -> str | None:
    """Why ONNX Runtime computes a layer with a quantized weight in float; None where it fuses.

    Products fuse with or without a QuantizeLinear behind them; convolutions with one only.
    """
    if node.op_type == "ConvTranspose":
        return "there is no integer kernel for transposed convolutions"
    activation = made_by(node.inputs[0], "DequantizeLinear")
    if activation is None or activation.inputs[0].dtype.name not in _UNSIGNED:
        return "its input is not quantized, or not used as bytes alone"
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    if bias is not None and made_by(bias, "DequantizeLinear") is None:
        return "its bias is computed, or too large for 32 bits at the scale of its products"
    if node.op_type == "Conv" and following_quantize(node.outputs[0]) is None:
        return "what follows it is not quantized"
    return None


def following_quantize(value: Any) -> Any | None:
    """The QuantizeLinear, with one scale, that alone uses a value; maybe behind a Relu or Clip, which it replaces."""
    user = only_user(value)
    if user is not None and user.op_type in ("Relu", "Clip") and user.domain == "":
        user = only_user(user.outputs[0])
    return user if user is not None and user.op_type == "QuantizeLinear" and not len(user.inputs[1].shape) else None


def _make_constants_unsigned(editor: GraphEditor) -> None:
    """Turn signed constants that are no weights, the summand of an Add for example, into unsigned ones."""
    import numpy as np
    import onnx_ir

    turned: dict[int, Any] = {}
    for node in list(editor.graph):
        if node.op_type != "DequantizeLinear" or not is_constant(node.inputs[0]) or not _is_signed_tensor(node):
            continue
        if any(user.op_type in _LAYERS and index == 1 for user, index in node.outputs[0].uses()):
            continue
        data = node.inputs[0]
        if id(data) not in turned:
            unsigned = _unsigned(node)
            content = (data.const_value.numpy().astype(np.int32) + _middle(node)).astype(unsigned.numpy())
            turned[id(data)] = editor.weight(f"{data.name}.{unsigned.name.lower()}", onnx_ir.Tensor(content))
        node.replace_input_with(0, turned[id(data)])
        _shift_zero_point(editor, node)


def _shift_zero_point(editor: GraphEditor, node: Any) -> None:
    import numpy as np

    unsigned = _unsigned(node)
    zero = int(node.inputs[2].const_value.numpy()) + _middle(node)
    name = f"zero_point_{zero}" + ("" if unsigned.name == "UINT8" else "_16")
    node.replace_input_with(2, editor.constant(name, np.array(zero, unsigned.numpy())))


def _make_unsigned(editor: GraphEditor) -> None:
    """Turn signed activations between QuantizeLinear and DequantizeLinear, and what only moves them, into unsigned."""
    import onnx_ir

    for node in list(editor.graph):
        if node.op_type != "QuantizeLinear" or not _is_signed_tensor(node):
            continue
        region = _signed_region(node.outputs[0])
        if region is None:
            continue
        values, dequantizes = region
        unsigned = _unsigned(node)
        for user in (node, *dequantizes):
            _shift_zero_point(editor, user)
        for value in values:
            value.type = onnx_ir.TensorType(unsigned)


def _is_signed_tensor(node: Any) -> bool:
    """Whether a (de)quantizing node has one scale, and a signed zero point that is a constant."""
    if len(node.inputs) < 3 or not is_constant(node.inputs[2]) or not is_constant(node.inputs[1]):
        return False
    zero = node.inputs[2]
    return zero.dtype.name in _SIGNED and math.prod(zero.shape) == 1 and len(zero.shape) == 0


def _middle(node: Any) -> int:
    """What makes the integers of a signed (de)quantizing node unsigned ones."""
    return 128 if node.inputs[2].dtype.name == "INT8" else 1 << 15


def _beyond(node: Any) -> tuple[int, int]:
    """The integers just outside those of a signed (de)quantizing node."""
    return -_middle(node) - 1, _middle(node)


def _unsigned(node: Any) -> Any:
    """The dtype that `_middle` leads to."""
    import onnx_ir

    return onnx_ir.DataType.UINT8 if node.inputs[2].dtype.name == "INT8" else onnx_ir.DataType.UINT16


def _signed_region(start: Any) -> tuple[list[Any], list[Any]] | None:
    """The signed values behind one, and the nodes that dequantize them; None where anything else looks at them."""
    values, dequantizes, queue = [], [], [start]
    while queue:
        value = queue.pop()
        values.append(value)
        if value.is_graph_output():
            return None
        for user, index in value.uses():
            if user.op_type == "DequantizeLinear" and index == 0 and _is_signed_tensor(user):
                dequantizes.append(user)
            elif user.op_type in ("Reshape", "Squeeze") and index == 0:
                queue.append(user.outputs[0])
            elif user.op_type != "Shape":
                return None
    return values, dequantizes


def _wrap_moves(editor: GraphEditor) -> None:
    """Let what moves bytes move numbers, between the quantization of those who read them.

    ```
    before:  x_u8 -> Reshape -> y_u8 -> DequantizeLinear
    after:   x_u8 -> DequantizeLinear -> Reshape -> QuantizeLinear -> y_u8 -> DequantizeLinear
    ```
    """
    for node in list(editor.graph):
        if node.op_type not in ("Reshape", "Squeeze") or node.inputs[0].dtype.name not in _UNSIGNED:
            continue
        data, moved = node.inputs[0], node.outputs[0]
        reader = _reader_of(moved)
        if reader is None:
            continue
        quantization = reader.inputs[1:]
        number = reader.outputs[0].dtype
        name, types = f"{node.name}_numbers", [(number, data.shape)]
        (numbers,) = editor.insert("DequantizeLinear", [data, *quantization], name, at=node, types=types)
        types = [(number, moved.shape)]
        attributes = {key: value.value for key, value in node.attributes.items()}
        inputs = [numbers, *node.inputs[1:]]
        (result,) = editor.insert(
            node.op_type, inputs, f"{node.name}_moved", at=node, types=types, attributes=attributes
        )
        types = [(moved.dtype, moved.shape)]
        (quantized,) = editor.insert(
            "QuantizeLinear", [result, *quantization], f"{node.name}_bytes", at=node, types=types
        )
        editor.replace(moved, quantized)
    editor.remove_unused()


def _reader_of(value: Any) -> Any | None:
    """The first node that dequantizes a value, maybe after others have moved it."""
    for user, _ in value.uses():
        if user.op_type == "DequantizeLinear":
            return user
        found = _reader_of(user.outputs[0]) if user.op_type in ("Reshape", "Squeeze") else None
        if found is not None:
            return found
    return None


def _clip_bytes(editor: GraphEditor) -> None:
    """A Relu or Clip between equal scales, which is what PT2E makes of ReLU6, as a Clip of the bytes themselves."""
    import numpy as np

    for node in list(editor.graph):
        before: Any = made_by(node.inputs[0], "DequantizeLinear") if node.op_type in ("Relu", "Clip") else None
        after = only_user(node.outputs[0]) if before is not None else None
        if after is None or after.op_type != "QuantizeLinear":
            continue
        constants = [*before.inputs[1:], *after.inputs[1:], *(value for value in node.inputs[1:] if value is not None)]
        if before.inputs[0].dtype.name != "UINT8" or not all(is_constant(value) for value in constants):
            continue
        scale, zero = (value.const_value.numpy() for value in before.inputs[1:3])
        same = [
            np.array_equal(value.const_value.numpy(), want)
            for value, want in zip(after.inputs[1:], (scale, zero), strict=False)
        ]
        if len(same) != 2 or not all(same) or scale.ndim:
            continue
        bounds = [
            None if bound is None else editor.constant(f"{name}_byte", _as_byte(bound, scale, zero))
            for name, bound in zip(("least", "largest"), _bounds(node), strict=True)
        ]
        types = [(before.inputs[0].dtype, node.outputs[0].shape)]
        (output,) = editor.insert("Clip", [before.inputs[0], *bounds], f"{node.name}_bytes", at=node, types=types)
        editor.replace(after.outputs[0], output)
    editor.remove_unused()


def _bounds(node: Any) -> tuple[float | None, float | None]:
    if node.op_type == "Relu":
        return 0.0, None
    given = [None if value is None else float(value.const_value.numpy()) for value in node.inputs[1:3]]
    return given[0] if given else None, given[1] if len(given) > 1 else None


def _as_byte(bound: float, scale: Any, zero: Any) -> Any:
    """A real number as QuantizeLinear writes it."""
    import numpy as np

    return np.clip(np.rint(np.float32(bound) / scale) + zero, 0, 255).astype(np.uint8)


def _quantize_bias(editor: GraphEditor, node: Any) -> None:
    """Replace a constant float bias by int32 at the scale of the accumulator, where it fits."""
    import numpy as np

    bias: Any = node.inputs[2] if len(node.inputs) > 2 else None
    if not has_quantized_weight(node) or not is_constant(bias) or len(bias.shape) != 1:
        return
    activation, weight = (made_by(value, "DequantizeLinear") for value in node.inputs[:2])
    if activation is None or not is_constant(activation.inputs[1]) or not is_constant(weight.inputs[1]):
        return
    scales = [operand.inputs[1] for operand in (activation, weight)]
    values = bias.const_value.numpy()
    scale = (scales[0].const_value.numpy() * scales[1].const_value.numpy()).astype(np.float32)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        steps = np.rint(values.astype(np.float64) / scale)
    steps[values == 0] = 0
    if not bool((np.abs(steps) <= _LARGEST_BIAS).all()):
        return
    per_channel = scale.ndim > 0
    quantized = editor.constant(f"{bias.name}.int32", steps.astype(np.int32))
    (output,) = editor.insert(
        "DequantizeLinear",
        [quantized, editor.constant(f"{bias.name}.scale", scale)],
        f"{node.name}_bias",
        at=node,
        types=[(bias.dtype, bias.shape)],
        attributes={"axis": 0} if per_channel else {},
    )
    node.replace_input_with(2, output)


def _pool_means(editor: GraphEditor) -> None:
    """The mean over both image axes, between quantized values, as a GlobalAveragePool."""
    for node in list(editor.graph):
        if node.op_type != "ReduceMean" or made_by(node.inputs[0], "DequantizeLinear") is None:
            continue
        axes = _reduced_axes(node)
        value, shape, quantize = node.inputs[0], node.outputs[0].shape, following_quantize(node.outputs[0])
        if quantize is None or value.shape is None or len(value.shape) != 4 or axes not in _IMAGE_AXES:
            continue
        pooled = [value.shape[0], value.shape[1], 1, 1]
        (output,) = editor.insert(
            "GlobalAveragePool", [value], f"{node.name}_pool", at=node, types=[(node.outputs[0].dtype, pooled)]
        )
        _swap_before(editor, node.outputs[0], output, quantize)
        if len(shape) == 2:
            target = editor.constant("channels_shape", _int64([-1, int(value.shape[1])]))
            _reshape_after(editor, quantize, target, list(shape))
    editor.remove_unused()


def _flatten_linears(editor: GraphEditor) -> None:
    """MatMul and Add of a bias, on quantized operands, as a Gemm on the flattened activation."""
    flattened: dict[int, Any] = {}
    for node in list(editor.graph):
        add = only_user(node.outputs[0]) if node.op_type == "MatMul" and node.domain == "" else None
        dequantize = made_by(node.inputs[0], "DequantizeLinear")
        if add is None or add.op_type != "Add" or dequantize is None or not has_quantized_weight(node):
            continue
        activation, weight = node.inputs
        bias: Any = next((value for value in add.inputs if value is not node.outputs[0]), None)
        quantize = following_quantize(add.outputs[0])
        if quantize is None or not is_constant(bias) or len(weight.shape) != 2 or activation.shape is None:
            continue
        if list(bias.shape) != [weight.shape[1]] or len(activation.shape) < 3:
            continue
        if id(activation) not in flattened:
            flattened[id(activation)] = _flatten(editor, dequantize, int(weight.shape[0]))
        flat = flattened[id(activation)]
        types = [(add.outputs[0].dtype, [flat.shape[0], weight.shape[1]])]
        (product,) = editor.insert("Gemm", [flat, weight, bias], f"{add.name}_gemm", at=add, types=types)
        shape = [*activation.shape[:-1], weight.shape[1]]
        _swap_before(editor, add.outputs[0], product, quantize)
        _reshape_after(editor, quantize, _rows_shape(editor, dequantize.inputs[0], shape, quantize), shape)
    editor.remove_unused()


def _flatten(editor: GraphEditor, dequantize: Any, depth: int) -> Any:
    """A value with one row an entry of the leading dimensions: bytes are reshaped, so that nodes still fuse."""
    data, output = dequantize.inputs[0], dequantize.outputs[0]
    sizes = list(output.shape)[:-1]
    rows = math.prod(sizes) if all(isinstance(size, int) for size in sizes) else None
    target = editor.constant("rows_shape", _int64([-1, depth]))
    types = [(data.dtype, [rows, depth])]
    (flat,) = editor.insert("Reshape", [data, target], f"{dequantize.name}_rows", at=dequantize, types=types)
    types = [(output.dtype, [rows, depth])]
    inputs = [flat, *dequantize.inputs[1:]]
    (value,) = editor.insert("DequantizeLinear", inputs, f"{dequantize.name}_flat", at=dequantize, types=types)
    return value


def _rows_shape(editor: GraphEditor, data: Any, shape: list[Any], at: Any) -> Any:
    """The shape of a linear layer's output, computed where more than one of its sizes is known only at run time."""
    import onnx_ir

    if sum(not isinstance(size, int) for size in shape) <= 1:
        return editor.constant("full_shape", _int64([size if isinstance(size, int) else -1 for size in shape]))
    int64 = onnx_ir.DataType.INT64
    types = [(int64, [len(shape) - 1])]
    (leading,) = editor.insert("Shape", [data], f"{at.name}_sizes", at=at, types=types, attributes={"end": -1})
    width = editor.constant("width", _int64([shape[-1]]))
    types = [(int64, [len(shape)])]
    return editor.insert("Concat", [leading, width], f"{at.name}_shape", at=at, types=types, attributes={"axis": 0})[0]


def _swap_before(editor: GraphEditor, old: Any, new: Any, quantize: Any) -> None:
    """Let `quantize`, and a Relu or Clip before it, work on another value of another shape."""
    import onnx_ir

    editor.replace(old, new)
    for value in (quantize.inputs[0], quantize.outputs[0]):
        value.shape = onnx_ir.Shape(list(new.shape))


def _reshape_after(editor: GraphEditor, quantize: Any, target: Any, shape: list[Any]) -> None:
    """Give the bytes that `quantize` makes another shape, for all who use them."""
    data = quantize.outputs[0]
    types = [(data.dtype, shape)]
    name = f"{quantize.name}_reshaped"
    (reshaped,) = editor.insert("Reshape", [data, target], name, at=quantize, after=True, types=types)
    editor.replace(data, reshaped, but=reshaped.producer())


def _reduced_axes(node: Any) -> tuple[int, ...]:
    if "axes" in node.attributes:
        return tuple(node.attributes["axes"].as_ints())
    axes: Any = node.inputs[1] if len(node.inputs) > 1 else None
    return tuple(axes.const_value.numpy().tolist()) if is_constant(axes) else ()


def _axis(dequantize: Any) -> int:
    return int(dequantize.attributes["axis"].as_int()) if "axis" in dequantize.attributes else 1


def _float32(value: float) -> Any:
    import numpy as np

    return np.array(value, np.float32)


def _int64(values: list[Any]) -> Any:
    import numpy as np

    return np.array(values, np.int64)
