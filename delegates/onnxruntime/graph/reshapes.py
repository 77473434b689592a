"""Reshapes without sizes of zero, in the form that every engine takes.

```
before:  Reshape(x, [2, -1], allowzero=1)        # a 0 in the shape would mean no element
after:   Reshape(x, [2, -1])                     # a 0 would mean the input's size; there is none
```

torch's exporter asks for the first everywhere, and MIGraphX takes the second only.
"""

from __future__ import annotations

from typing import Any


def plain_reshapes(model: Any) -> None:
    """Drop `allowzero` from every Reshape to constant sizes without a zero, in place; `model` is an `onnx_ir.Model`."""
    import onnx_ir

    for node in onnx_ir.traversal.RecursiveGraphIterator(model.graph):
        if node.op_type == "Reshape" and node.domain in ("", "ai.onnx") and "allowzero" in node.attributes:
            sizes = node.inputs[1].const_value
            if sizes is not None and 0 not in sizes.numpy():
                del node.attributes["allowzero"]
