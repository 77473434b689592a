"""Linear layers with few-bit weights, and activations quantized at every run or not at all.

```
int8-dynamic   DynamicQuantizeLinear -> MatMulInteger -> Cast -> Mul(scales) -> Add(bias)     one scale a tensor
8da8w          the same with one scale a token, written out in standard operators
8da4w          MatMulNBits, accuracy_level 4: activations are quantized block by block inside the kernel; a head in
               8 bits is one too
int4-weight    MatMulNBits, accuracy_level 1: activations stay float32
```

ONNX Runtime makes one DynamicQuantizeMatMul of the first. For the second it has no fused kernel; the row-wise operators
cost little beside the product. MatMulNBits is its own operator (domain com.microsoft), known to 1.20 and newer.
"""

from __future__ import annotations

from typing import Any

from edgex.delegates.onnxruntime.graph.edits import GraphEditor
from edgex.delegates.onnxruntime.quantize.few_bits import block_tensors, channel_tensors
from edgex.delegates.onnxruntime.quantize.linears import Linear

CONTRIB = "com.microsoft"


class LinearRewriter:
    """Replaces linear layers; what several layers share (a weight, a quantized activation) is made once."""

    def __init__(self, editor: GraphEditor, channel_bits: int = 8) -> None:
        """Begin to rewrite the graph that `editor` edits; `channel_bits` are those of weights in integer products."""
        self._editor = editor
        self._channel_bits = channel_bits
        self._weights: dict[int, tuple[Any, ...]] = {}
        self._blocks: dict[tuple[int, int], tuple[Any, ...]] = {}
        self._activations: dict[int, tuple[Any, ...]] = {}

    def tensorwise(self, linear: Linear) -> None:
        """An integer product with an activation that has one scale and zero point, found at every run."""
        at, name = linear.last, linear.last.name
        weight, scales, _ = self._channels(linear, narrow=True)
        if id(linear.activation) not in self._activations:
            shape = linear.activation.shape
            kinds = _kinds()
            types = [(kinds.UINT8, shape), (kinds.FLOAT, []), (kinds.UINT8, [])]
            self._activations[id(linear.activation)] = self._editor.insert(
                "DynamicQuantizeLinear", [linear.activation], f"{name}_quantize", at=at, types=types
            )
        data, scale, zero = self._activations[id(linear.activation)]
        product = self._product(linear, [data, weight, zero])
        factor = self._float("Mul", [scale, scales], f"{name}_scale", at, [linear.weight.outputs])
        self._finish(linear, self._float("Mul", [product, factor], f"{name}_float", at, linear.output.shape))

    def tokenwise(self, linear: Linear) -> None:
        """An integer product with an activation that has a scale and a zero point for each row."""
        at, name, shape = linear.last, linear.last.name, linear.output.shape
        weight, scales, sums = self._channels(linear, narrow=False)
        if id(linear.activation) not in self._activations:
            self._activations[id(linear.activation)] = self._quantize_tokens(linear)
        data, scale, zero = self._activations[id(linear.activation)]
        product = self._product(linear, [data, weight])
        # MatMulInteger takes one zero point; the others' share is the zero point times the sum of each channel.
        offset = self._float("Mul", [zero, sums], f"{name}_offset", at, shape)
        centred = self._float("Sub", [product, offset], f"{name}_centred", at, shape)
        channels = self._float("Mul", [centred, scales], f"{name}_channels", at, shape)
        self._finish(linear, self._float("Mul", [channels, scale], f"{name}_float", at, shape))

    def blocks(self, linear: Linear, bits: int, group: int, accuracy_level: int) -> None:
        """A product with weights in 4 or 8 bits, in blocks that have a scale each.

        Args:
            linear: The layer.
            bits: Of a weight.
            group: Input features that share a scale.
            accuracy_level: MatMulNBits's: 1 keeps activations float32, 4 quantizes them block by block.
        """
        key = (linear.key, bits)
        if key not in self._blocks:
            packed, scales = block_tensors(linear.weight, bits, group)
            name = linear.weight.tensor.name
            self._blocks[key] = (
                self._editor.weight(f"{name}.int{bits}", packed),
                self._editor.weight(f"{name}.scale", scales),
            )
        inputs = [linear.activation, *self._blocks[key]]
        if linear.bias is not None:
            inputs += [None, None, linear.bias]
        attributes = {
            "K": linear.weight.inputs,
            "N": linear.weight.outputs,
            "bits": bits,
            "block_size": group,
            "accuracy_level": accuracy_level,
        }
        name, types = f"{linear.last.name}_nbits", [(_kinds().FLOAT, linear.output.shape)]
        (output,) = self._editor.insert(
            "MatMulNBits", inputs, name, at=linear.last, types=types, attributes=attributes, domain=CONTRIB
        )
        self._editor.replace(linear.output, output)

    def _quantize_tokens(self, linear: Linear) -> tuple[Any, Any, Any]:
        """A float activation as unsigned bytes, with a scale and a zero point (a float) for each row."""
        import numpy as np

        value, at, name = linear.activation, linear.last, f"{linear.last.name}_quantize"
        rows = None if value.shape is None else [*value.shape[:-1], 1]

        def number(label: str, content: float) -> Any:
            return self._editor.constant(label, np.array(content, np.float32))

        zero, one = number("zero", 0.0), number("one", 1.0)
        largest = self._float("Max", [self._reduce("ReduceMax", value, name, at, rows), zero], f"{name}_max", at, rows)
        least = self._float("Min", [self._reduce("ReduceMin", value, name, at, rows), zero], f"{name}_min", at, rows)
        width = self._float("Sub", [largest, least], f"{name}_range", at, rows)
        scale = self._float("Mul", [width, number("step", 1 / 255)], f"{name}_step", at, rows)
        scale = self._float(
            "Max", [scale, number("epsilon", float(np.finfo(np.float32).eps))], f"{name}_scale", at, rows
        )
        below = self._float("Div", [least, scale], f"{name}_below", at, rows)
        point = self._float("Neg", [self._float("Round", [below], f"{name}_round", at, rows)], f"{name}_zero", at, rows)
        steps = self._float("Div", [value, scale], f"{name}_steps", at, value.shape)
        shifted = self._float("Add", [steps, point], f"{name}_shifted", at, value.shape)
        zero_point = self._editor.constant("zero_point_0", np.array(0, np.uint8))
        types = [(_kinds().UINT8, value.shape)]
        (data,) = self._editor.insert("QuantizeLinear", [shifted, one, zero_point], name, at=at, types=types)
        return data, scale, point

    def _reduce(self, op_type: str, value: Any, name: str, at: Any, rows: Any) -> Any:
        import numpy as np

        inputs = [value, self._editor.constant("last_axis", np.array([-1], np.int64))]
        label = f"{name}_{op_type.removeprefix('Reduce').lower()}imum"
        types = [(_kinds().FLOAT, rows)]
        return self._editor.insert(op_type, inputs, label, at=at, types=types, attributes={"keepdims": 1})[0]

    def _channels(self, linear: Linear, *, narrow: bool) -> tuple[Any, Any, Any]:
        if linear.key not in self._weights:
            name = linear.weight.tensor.name
            quantized, scales, sums = channel_tensors(linear.weight, self._channel_bits, narrow=narrow)
            self._weights[linear.key] = (
                self._editor.weight(f"{name}.int8", quantized),
                self._editor.weight(f"{name}.scale", scales),
                self._editor.weight(f"{name}.sum", sums),
            )
        weight, scales, sums = self._weights[linear.key]
        return weight, scales, sums

    def _product(self, linear: Linear, inputs: list[Any]) -> Any:
        """The integer product as float32."""
        at, name, shape = linear.last, linear.last.name, linear.output.shape
        types = [(_kinds().INT32, shape)]
        (product,) = self._editor.insert("MatMulInteger", inputs, f"{name}_product", at=at, types=types)
        to = {"to": int(_kinds().FLOAT)}
        types = [(_kinds().FLOAT, shape)]
        return self._editor.insert("Cast", [product], f"{name}_cast", at=at, types=types, attributes=to)[0]

    def _finish(self, linear: Linear, value: Any) -> None:
        if linear.bias is not None:
            at = linear.last
            value = self._float("Add", [value, linear.bias], f"{at.name}_bias", at, linear.output.shape)
        self._editor.replace(linear.output, value)

    def _float(self, op_type: str, inputs: list[Any], name: str, at: Any, shape: Any) -> Any:
        types = [(_kinds().FLOAT, shape)]
        return self._editor.insert(op_type, inputs, name, at=at, types=types)[0]


def _kinds() -> Any:
    import onnx_ir

    return onnx_ir.DataType
