"""Lay weights out in the order of their dimensions, for targets that lower no other: `model.to(memory_format=...)`.

```
before:  p_weight: [4, 3, 3, 3] with strides (27, 1, 9, 3)
         y = aten.view.default(conv, [1, 64])
after:   p_weight: [4, 3, 3, 3] with strides (27, 9, 3, 1)
         y = aten.reshape.default(conv, [1, 64])              # whatever order the convolution now gives its result
```
"""

from __future__ import annotations

import torch

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.editor import ProgramEditor, constant_tensors

aten = torch.ops.aten


def order_weights(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Lay out every weight anew that is in another order; the same program comes back where none is."""
    found = {node: weight for node, weight in constant_tensors(program).items() if not weight.is_contiguous()}
    if not found:
        return program, None
    editor = ProgramEditor(program)
    with torch.no_grad():
        editor.replace_tensors({id(weight): weight.contiguous() for weight in found.values()})
        for node in found:
            editor.node(node).meta["val"] = node.meta["val"].contiguous()
    for node in editor.graph.find_nodes(op="call_function", target=aten.view.default):
        node.target = aten.reshape.default
    detail = f"{len(found)} weight(s) lie in memory in the order of their dimensions"
    return editor.finish(), Rewrite("order_weights", len(found), detail, ())
