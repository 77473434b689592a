"""RMSNorm in the form that ONNX Runtime makes one kernel of.

```
before:  Mul(x, Reciprocal(Sqrt(mean)))          # how torch's rsqrt is translated
after:   Div(x, Sqrt(mean))                      # what its fusion of Pow, ReduceMean, Add, Sqrt, Div, Mul looks for
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgex.delegates.onnxruntime.graph.edits import made_by, only_user

if TYPE_CHECKING:
    from edgex.delegates.onnxruntime.graph.edits import GraphEditor


def divide_by_roots(editor: GraphEditor) -> None:
    """Write every product with the reciprocal of a root as a quotient."""
    for node in list(editor.graph):
        if node.op_type != "Reciprocal" or node.domain not in ("", "ai.onnx"):
            continue
        product = only_user(node.outputs[0])
        if product is None or product.op_type != "Mul" or made_by(node.inputs[0], "Sqrt") is None:
            continue
        value = next((one for one in product.inputs if one is not node.outputs[0]), None)
        if value is None:
            continue
        old = product.outputs[0]
        types = [(old.dtype, old.shape)]
        (quotient,) = editor.insert("Div", [value, node.inputs[0]], f"{product.name}_quotient", at=product, types=types)
        editor.replace(old, quotient)
    editor.remove_unused()
