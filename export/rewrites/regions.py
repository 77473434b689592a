"""Inline the regions that `torch.no_grad()` and a disabled `torch.autocast` leave in a program.

They mean nothing to inference, and they hide operators from the other passes and from the delegates' plans.

```
before:  submod = get_attr("submod_1")                                  # mul, cos
         region = wrap_with_set_grad_enabled(False, submod, p, freqs)   # or wrap_with_autocast(…, enabled=False, …)
         cos = region[0]
after:   mul = aten.mul.Tensor(p, freqs)
         cos = aten.cos.default(mul)
```

A region with autocast enabled changes dtypes and stays as it is.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import GraphModule, Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import higher_order_name, is_tuple
from edgex.export.rewrites.base import Rewrite, locations_of
from edgex.export.rewrites.editing.editor import ProgramEditor

# Position of the region's submodule among the arguments; its operands follow.
_REGION_POSITION = {"wrap_with_set_grad_enabled": 1, "wrap_with_autocast": 4}
_AUTOCAST_ENABLED_POSITION = 2


def inline_regions(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Inline every region without meaning for inference; the same program comes back where there is none."""
    if not any(_is_inlinable(node) for node in program.exported.graph.nodes):
        return program, None
    editor = ProgramEditor(program)
    count = 0
    inlined: list[Node] = []
    regions = [node for node in editor.graph.nodes if _is_inlinable(node)]
    while regions:
        nodes = _inline(editor, regions.pop(0))
        # What was nested in a region is at the top now.
        regions += [node for node in nodes if _is_inlinable(node)]
        inlined += [node for node in nodes if not _is_region(node)]
        count += 1
    detail = f"{count} region(s) of no_grad or disabled autocast inlined"
    return editor.finish(), Rewrite("inline_regions", count, detail, locations_of(inlined, program.source_root))


def _is_region(node: Node) -> bool:
    return higher_order_name(node) in _REGION_POSITION


def _is_inlinable(node: Node) -> bool:
    if not _is_region(node) or any(user.target is not operator.getitem for user in node.users):
        return False
    return higher_order_name(node) != "wrap_with_autocast" or not node.args[_AUTOCAST_ENABLED_POSITION]


def _inline(editor: ProgramEditor, node: Node) -> list[Node]:
    """Replace one region by copies of its nodes; returns these."""
    position = _REGION_POSITION[higher_order_name(node) or ""]
    attribute = node.args[position]
    assert isinstance(attribute, Node)
    region = editor.attribute(attribute)
    assert isinstance(region, GraphModule)
    copies: dict[Node, Any] = {}
    operands = iter(node.args[position + 1 :])
    outputs: Any = ()
    for inner in region.graph.nodes:
        if inner.op == "placeholder":
            copies[inner] = next(operands)
        elif inner.op == "output":
            outputs = torch.fx.map_arg(inner.args[0], lambda value: copies[value])
        else:
            with editor.graph.inserting_before(node):
                copies[inner] = editor.graph.node_copy(inner, lambda value: copies[value])
            if inner.op == "get_attr":
                value = operator.attrgetter(str(inner.target))(region)
                copies[inner].target = editor.add_attribute(str(inner.target).replace(".", "_"), value)
    if not is_tuple(outputs):
        outputs = (outputs,)
    for user in list(node.users):
        index = user.args[1]
        assert isinstance(index, int)
        user.replace_all_uses_with(outputs[index])
        editor.graph.erase_node(user)
    editor.graph.erase_node(node)
    if not attribute.users:
        editor.graph.erase_node(attribute)
    return [copy for inner, copy in copies.items() if inner.op == "call_function"]
