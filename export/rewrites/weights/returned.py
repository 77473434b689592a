"""Give an output that is a weight a constant of its own, for backends that pack the weight away.

```
before:  y = aten.add.Tensor(x, p_w)
         return (y, p_w)
after:   y = aten.add.Tensor(x, p_w)
         return (y, p_w_1)                                  # the same numbers, once more in the file
```
"""

from __future__ import annotations

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.editor import ProgramEditor, constant_tensors


def copy_returned_constants(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Copy every weight that is an output and is computed with; the same program comes back without one."""
    output = program.exported.graph.output_node()
    constants = constant_tensors(program)
    found = [node for node in output.all_input_nodes if node in constants and len(node.users) > 1]
    if not found:
        return program, None
    editor = ProgramEditor(program)
    for node in found:
        name = str(editor.spec(editor.node(node)).target)
        copied = editor.add_constant(name, constants[node].detach().clone(), node.meta["val"], is_parameter=True)
        editor.node(output).replace_input_with(editor.node(node), copied)
    detail = f"{len(found)} weight(s) that are outputs too are in the file twice"
    return editor.finish(), Rewrite("copy_returned_constants", len(found), detail, ())
