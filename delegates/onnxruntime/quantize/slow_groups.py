"""Convolutions in groups of few channels, which ONNX Runtime computes more slowly in 8 bits than in float32.

```
before:  x_u8 -> DequantizeLinear -> Conv(w_s8 -> DequantizeLinear, group=48) -> QuantizeLinear -> y_u8
after:   x_u8 -> DequantizeLinear -> Conv(w_f32, group=48) -> QuantizeLinear -> y_u8
```

Its integer kernel goes through the groups one by one, with a product of a few columns for each. Measured with ONNX
Runtime 1.31 on one core of a Zen 4, between two 1 x 1 convolutions in 8 bits, times of 8 bits over those of float32:

| convolution | ratio |
|---|---|
| two outputs a channel, 7 x 7, 48 to 384 channels | 6.1 to 10.6 |
| two outputs a channel, 3 x 3 | 2.8 to 4.6 |
| groups of 2, 4, 8 channels, 3 x 3 | 3.5 to 5.4, 2.0 to 2.9, 1.1 to 1.4 |
| groups of 16, of 24 and more | 1.0, 0.5 to 0.7 |
| depthwise, 4 and 8 channels, 3 x 3 | 2.0, 1.3 |
| depthwise, 16 and 32 channels, 7 x 7 | 2.0, 1.4 |
| depthwise, more | 0.7 to 1.1 |

And depthwise ones on one core of a Xeon with AMX, whole networks of the three layers, where 8 bits beside such a layer
in float32 are compared. The kernel takes 16 channels at once, and what is left number by number:

| depthwise | no multiple of 16 channels | multiples of 16 |
|---|---|---|
| 5 x 5, 12 to 184 channels | 1.2 to 2.2 | 0.8 to 1.2 |
| 7 x 7, 120 and 184 channels; 48 and 96 | 1.8, 1.9 | 0.9, 1.0 |
| 3 x 3, 12, 20, 28 channels; 16 and 32 | 1.2 to 1.4 | 0.7, 0.9 |
| 3 x 3, 24 channels, 40 and more | 0.7 to 0.95 | 0.7 |
| in steps of 2, 3 x 3 and 5 x 5 | 0.4 to 1.0 | 0.3 to 0.9 |

The numbers are those of the quantized program, whose weights these are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from edgex.delegates.onnxruntime.graph.edits import GraphEditor, is_constant, made_by

_FEW_INPUTS = 8
_FEW_CHANNELS, _FEW_WITH_LARGE_KERNELS, _LARGE_KERNEL = 8, 32, 49
# What the depthwise kernel takes at once, and up to how many channels the rest decides, by taps.
_AT_ONCE, _MOST_WITH_REST, _MOST_WITH_FEW_TAPS = 16, 192, 28
_MANY_TAPS = 25


def spare_slow_groups(editor: GraphEditor) -> list[Any]:
    """Give such convolutions their weights in float32, so that nothing fuses with them; returns them."""
    import numpy as np
    import onnx_ir

    spared = []
    for node in list(editor.graph):
        if node.op_type != "Conv" or node.domain or not _is_slow(node):
            continue
        dequantize = made_by(node.inputs[1], "DequantizeLinear")
        if dequantize is None or not all(is_constant(value) for value in dequantize.inputs[:3]):
            continue
        weight, scale, zero = (value.const_value.numpy() for value in dequantize.inputs[:3])
        shape = (-1, *[1] * (weight.ndim - 1)) if scale.ndim else ()
        values = (weight.astype(np.int32) - zero.astype(np.int32).reshape(shape)) * scale.reshape(shape)
        source = dequantize.inputs[0]
        node.replace_input_with(1, editor.weight(f"{source.name}.float32", onnx_ir.Tensor(values.astype(np.float32))))
        spared.append(node)
    return spared


def _is_slow(node: Any) -> bool:
    group = node.attributes["group"].as_int() if "group" in node.attributes else 1
    shape = node.inputs[1].shape
    if group == 1 or shape is None:
        return False
    outputs, inputs, *kernel = (int(size) for size in shape)
    if outputs == group and inputs == 1:
        large = math.prod(kernel) >= _LARGE_KERNEL
        return group <= (_FEW_WITH_LARGE_KERNELS if large else _FEW_CHANNELS) or _leaves_rest(node, group, kernel)
    return inputs <= _FEW_INPUTS


def _leaves_rest(node: Any, group: int, kernel: Sequence[int]) -> bool:
    """Whether the channels beyond whole vectors of a depthwise convolution cost more than all others save."""
    strides = node.attributes["strides"].as_ints() if "strides" in node.attributes else (1,)
    rest = group % _AT_ONCE
    if rest == 0 or any(step != 1 for step in strides):
        return False
    if math.prod(kernel) >= _MANY_TAPS:
        return group <= _MOST_WITH_REST
    # A rest of 8 was no slower: 24 channels.
    return group <= _MOST_WITH_FEW_TAPS and rest != _AT_ONCE // 2
