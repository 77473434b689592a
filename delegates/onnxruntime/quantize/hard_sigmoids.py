"""Hard sigmoids of bytes, for which ONNX Runtime has no integer kernel, as sums: their QuantizeLinear clips them.

```
before:  x_u8 -> DequantizeLinear(s) -> HardSigmoid(1/6, 1/2) -> QuantizeLinear(a range inside 0 .. 1) -> y_u8
after:   x_u8 -> DequantizeLinear(s/6) ──┐
         128  -> DequantizeLinear(1/256) ┴─ Add -> QuantizeLinear -> y_u8
```

Before it is rounded the function is the same, since none of the bytes behind it is beyond 0 or 1. ONNX Runtime makes
one `QLinearAdd` of the second form, and of the first a conversion to float32, the function, and one back.
"""

from __future__ import annotations

from typing import Any

from edgex.delegates.onnxruntime.graph.edits import GraphEditor, is_constant, made_by, only_user

# 1, and what scales in float32 lose.
_LARGEST = 1 + 1e-6


def write_hard_sigmoids(editor: GraphEditor) -> None:
    """Bring each one between unsigned bytes with constant scales into the second form."""
    import numpy as np

    for node in list(editor.graph):
        before: Any = made_by(node.inputs[0], "DequantizeLinear") if node.op_type == "HardSigmoid" else None
        after = only_user(node.outputs[0]) if before is not None else None
        if after is None or not _stays_inside(before, after):
            continue
        slope, middle = (node.attributes[name].as_float() for name in ("alpha", "beta"))
        number = node.outputs[0].dtype
        types = [(number, node.outputs[0].shape)]
        scale = np.array(float(before.inputs[1].const_value.numpy()) * slope, np.float32)
        source = [before.inputs[0], editor.constant(f"{node.name}.scale", scale), before.inputs[2]]
        (product,) = editor.insert("DequantizeLinear", source, f"{node.name}_product", at=node, types=types)
        half = [
            editor.constant("half_byte", np.array(128, np.uint8)),
            editor.constant(f"{node.name}.half", np.array(middle / 128, np.float32)),
            editor.constant("zero_byte", np.array(0, np.uint8)),
        ]
        (summand,) = editor.insert("DequantizeLinear", half, f"{node.name}_half", at=node, types=[(number, [])])
        (total,) = editor.insert("Add", [product, summand], f"{node.name}_sum", at=node, types=types)
        editor.replace(node.outputs[0], total)
    editor.remove_unused()


def _stays_inside(before: Any, after: Any) -> bool:
    """Whether it reads unsigned bytes, and gives ones that mean 0 to 1 at most, with constant scales."""
    import numpy as np

    if after.op_type != "QuantizeLinear" or before.inputs[0].dtype.name != "UINT8":
        return False
    constants = [*before.inputs[1:3], *after.inputs[1:3]]
    if len(constants) != 4 or not all(is_constant(value) and not len(value.shape) for value in constants):
        return False
    scale, zero = (value.const_value.numpy() for value in after.inputs[1:3])
    return bool(zero.dtype == np.uint8 and zero == 0 and 255 * scale <= _LARGEST)
