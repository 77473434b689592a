"""Quantized programs: PT2E's quantize and dequantize as those that oneDNN fuses around a convolution or a product.

PT2E writes every quantized operator as dequantize, operator, quantize, with activations in s8. Here

- a dequantize makes nothing by itself; each operator that reads it gets one of its own, for oneDNN fuses it only so;
- activations become u8, their zero point 128 higher, which means the same numbers: oneDNN's kernels multiply u8 by s8;
- a quantize whose readers all compute in float32 (a gelu, an attention, a sum that oneDNN fuses into the convolution
  before it) is left out with its dequantizes, but for the clipping: rounding would only lose digits and cost time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from edgex.delegates.executorch.exir import debug_handle_of, operator_name
from edgex.delegates.graph.schema import named_arguments
from edgex.delegates.onednn.plan.region import RegionBuilder, make_value
from edgex.delegates.onednn.plan.values import Encoding, Refused, Value
from edgex.delegates.onednn.quantized.readers import (
    DEQUANTIZE,
    DEQUANTIZE_CHANNELS,
    QUANTIZE,
    is_computed_in_float,
    needs_quantized,
    same_encoding,
)

if TYPE_CHECKING:
    from torch.fx import Node

_SHIFT = 128


def _quantize(builder: RegionBuilder, node: Node) -> Value:
    given = named_arguments(node)
    _require_s8(given, whole=True)
    value = builder.value(given["input"])
    if value.integers is not None and same_encoding(given["input"], node):
        return value.integers
    if not needs_quantized(node):
        return _clip(builder, value, given)
    # What leaves the region is the tensor that the program says.
    dtype = "s8" if any(user.op == "output" for user in node.users) else "u8"
    encoding = _encoding(given, dtype)
    return builder.op("quantize", [value], value.shape, dtype=dtype, **encoding.attributes)


def _clip(builder: RegionBuilder, value: Value, given: Mapping[str, Any]) -> Value:
    """What a quantize does to a value beside rounding it: nothing is beyond the ends of its range."""
    scale, zero = given["scale"], given["zero_point"]
    low, high = (float(scale * (given[name] - zero)) for name in ("quant_min", "quant_max"))
    # Often it has been clipped so already: behind every operator that only moves numbers the program quantizes anew.
    if value.bounds is not None and low <= value.bounds[0] and value.bounds[1] <= high:
        return value
    result = builder.op("clamp", [value], value.shape, name="clip", min=low, max=high)
    result.bounds = (low, high)
    return result


def _dequantize(builder: RegionBuilder, node: Node) -> Value:
    given = named_arguments(node)
    _require_s8(given)
    source = given["input"]
    integers = builder.integers(source)
    if integers.dtype == "f32":  # a quantize that was left out
        return integers
    if source.op == "call_function" and is_computed_in_float(node):
        return _clip(builder, builder.value(source.args[0]), given)
    encoding = _encoding(given, integers.dtype)
    return Value("f32", integers.shape, integers=integers, encoding=encoding, handle=debug_handle_of(node) or 0)


def _dequantize_channels(builder: RegionBuilder, node: Node) -> Value:
    given = named_arguments(node)
    _require_s8(given)
    integers = builder.integers(given["input"])
    axis = given["axis"] % len(integers.shape)
    channels = integers.shape[axis]
    if not isinstance(channels, int) or not builder.is_constant(given["scales"]):
        raise Refused("non_constant_weight", "oneDNN wants the scales of channels at export")
    scales = builder.numbers(given["scales"], channels, 1.0)
    if given["zero_points"] is not None and any(builder.numbers(given["zero_points"], channels, 0.0)):
        raise Refused("attribute", "oneDNN takes no zero points that differ by channel")
    encoding = Encoding(tuple(scales), (0,) * channels, axis)
    return Value("f32", integers.shape, integers=integers, encoding=encoding, handle=debug_handle_of(node) or 0)


def free_input(builder: RegionBuilder, node: Node) -> Value:
    """What an operator reads that is looked at alone: dequantized where it is, else an input.

    Raises:
        Refused: It is nothing that oneDNN takes.
    """
    name = operator_name(node) if node.op == "call_function" else ""
    if name in (DEQUANTIZE, DEQUANTIZE_CHANNELS):
        found: Value = QUANTIZED_OPERATORS[name](builder, node)
        return found
    return make_value(node.meta["val"])


def _encoding(given: dict[str, Any], dtype: str) -> Encoding:
    shift = _SHIFT if dtype == "u8" else 0
    return Encoding((float(given["scale"]),), (int(given["zero_point"]) + shift,))


def _require_s8(given: dict[str, Any], *, whole: bool = False) -> None:
    """Refuse other integers; a quantize must use their whole range, for oneDNN's does not clamp to less."""
    import torch

    name = str(given["dtype"]).removeprefix("torch.")
    if given["dtype"] != torch.int8:
        raise Refused("dtype", f"oneDNN computes with signed 8-bit numbers here, not {name}")
    limits = given["quant_min"], given["quant_max"]
    if whole and limits != (-128, 127):
        raise Refused("attribute", f"oneDNN quantizes to all of int8, not to {limits[0]} .. {limits[1]}")
    if given.get("out_dtype") not in (None, torch.float32):
        raise Refused("dtype", f"oneDNN dequantizes to float32 here, not {given['out_dtype']}")


QUANTIZED_OPERATORS = {
    QUANTIZE: _quantize,
    DEQUANTIZE: _dequantize,
    DEQUANTIZE_CHANNELS: _dequantize_channels,
}
