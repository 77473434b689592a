"""Write numbers in arithmetic as delegates know them: no `alpha`, and floats beside floats.

```
before:  y = aten.add.Tensor(x, z, alpha=2)
after:   scaled = aten.mul.Tensor(z, 2.0)
         y      = aten.add.Tensor(x, scaled)
```

The same for `aten.sub.Tensor`. Only for tensors of one floating-point dtype. The product is rounded by itself, where
eager may round only the sum: the last bit can differ.

```
before:  y = aten.add.Tensor(x, 1)                          # x: f32
after:   y = aten.add.Tensor(x, 1.0)
```

ExecuTorch makes a tensor of whole numbers of the first, and converts it in every run, outside of the delegate.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import named_arguments
from edgex.export.rewrites.base import Rewrite, locations_of
from edgex.export.rewrites.editing.building import Replacement
from edgex.export.rewrites.editing.editor import ProgramEditor, constant_tensors
from edgex.export.rewrites.editing.substitution import Rule, Rules, substitute

aten = torch.ops.aten

_SCALED = (aten.add.Tensor, aten.sub.Tensor)
_WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
_OF_NUMBERS = (*_SCALED, aten.mul.Tensor, aten.div.Tensor, aten.rsub.Scalar)


def split_alpha(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Split every addition and subtraction with another alpha than 1; the same program comes back without one."""
    found = [node for node in program.exported.graph.nodes if _is_scaled(node)]
    if not found:
        return program, None
    editor = ProgramEditor(program)
    for node in found:
        step = Replacement(editor, node)
        # Read from the copy: an argument may have been replaced already.
        arguments = named_arguments(editor.node(node))
        scaled = step.call(aten.mul.Tensor, arguments["other"], float(arguments["alpha"]))
        step.finish(step.call(node.target, arguments["self"], scaled))
    detail = f"{len(found)} addition(s) with a factor became a multiplication and an addition"
    return editor.finish(), Rewrite("split_alpha", len(found), detail, locations_of(found, program.source_root))


def _is_scaled(node: Node) -> bool:
    if node.target not in _SCALED:
        return False
    arguments = named_arguments(node)
    if not isinstance(arguments["alpha"], (int, float)) or arguments["alpha"] == 1:
        return False
    tensors = [value.meta["val"] for value in (arguments["self"], arguments["other"]) if isinstance(value, Node)]
    dtypes = {tensor.dtype for tensor in (*tensors, node.meta["val"])}
    return len(tensors) == 2 and len(dtypes) == 1 and dtypes.pop().is_floating_point


def name_floats(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every whole number beside floats as a float, those of constants too; the same program without one."""
    constants = constant_tensors(program)

    def is_whole(value: object) -> bool:
        if isinstance(value, Node):
            return value in constants and value.meta["val"].dtype in _WHOLE
        return isinstance(value, int) and not isinstance(value, bool)

    def has_whole_number(node: Node) -> bool:
        plain = len(node.args) == 2 and not node.kwargs and node.meta["val"].is_floating_point()
        kept = isinstance(node.args[0], Node) and node.args[0].meta["val"].dtype == node.meta["val"].dtype
        return plain and kept and is_whole(node.args[1])

    rules: Rules = {
        target: Rule(_as_float(target), where=has_whole_number, operands=lambda node: tuple(node.args))
        for target in _OF_NUMBERS
    }
    return substitute(program, "name_floats", rules, "{count} whole number(s) beside floats became floats")


def _as_float(target: Any) -> Any:
    def write(x: torch.Tensor, number: Any) -> Any:
        return target(x, number.to(x.dtype) if isinstance(number, torch.Tensor) else float(number))

    return write
