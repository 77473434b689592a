"""Write what a condition chooses with the operators that an engine has: places, and the elements themselves.

```
before:  rows, columns = aten.where.default(chosen)        # chosen: [4, 6]
after:   place   = aten.index.Tensor(aten.arange(24), [chosen.reshape(24)])
         rows    = place // 6
         columns = place % 6

before:  y = aten.masked_select.default(x, mask)           # which ONNX does not have
after:   y = aten.index.Tensor(x, [mask])
```

ExecuTorch's `nonzero` gives the places of several dimensions in another order than the program is told, and those of
one in a layout that its other kernels refuse. How many there are is still found by the run, and has the same symbol.
"""

from __future__ import annotations

import math

import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import is_tuple
from edgex.export.rewrites.base import Rewrite, locations_of
from edgex.export.rewrites.editing.building import Replacement
from edgex.export.rewrites.editing.editor import FakeMode, ProgramEditor
from edgex.export.rewrites.editing.substitution import static

aten = torch.ops.aten

_TABLES = (aten.nonzero.default, aten.argwhere.default)
_COLUMNS = (aten.where.default, aten.nonzero_numpy.default)


def count_through(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Find places by counting through all elements; the same program comes back without any."""
    graph = program.exported.graph
    found = [node for target in (*_TABLES, *_COLUMNS) for node in graph.find_nodes(op="call_function", target=target)]
    found = [node for node in found if _is_counted(node.all_input_nodes[0])]
    if not found:
        return program, None
    editor = ProgramEditor(program)
    for node in found:
        step = Replacement(editor, node)
        x = editor.node(node).all_input_nodes[0]
        place, shape = _place(step, node, x), list(x.meta["val"].shape)
        step.finish(_columns(step, place, shape) if node.target in _COLUMNS else _table(step, place, shape))
    detail = f"{len(found)} search(es) for places count through all elements"
    return editor.finish(), Rewrite("count_through", len(found), detail, locations_of(found, program.source_root))


def index_by_masks(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every `masked_select` as an index; the same program comes back without one."""
    found = program.exported.graph.find_nodes(op="call_function", target=aten.masked_select.default)
    if not found:
        return program, None
    editor = ProgramEditor(program)
    for node in found:
        step = Replacement(editor, node)
        x, mask = editor.node(node).args
        assert isinstance(x, Node) and isinstance(mask, Node)
        with FakeMode([node.meta["val"]]):
            shape = list(torch.where(mask.meta["val"], x.meta["val"], x.meta["val"]).shape)
        x, mask = (
            part if list(part.meta["val"].shape) == shape else step.call(aten.expand.default, part, shape)
            for part in (x, mask)
        )
        chosen = step.insert(aten.index.Tensor, (x, [mask]), {}, node.meta["val"])
        chosen.meta["unbacked_bindings"] = node.meta.get("unbacked_bindings", {})
        step.finish(chosen)
    detail = f"{len(found)} masked_select became an index"
    return editor.finish(), Rewrite("index_by_masks", len(found), detail, locations_of(found, program.source_root))


def _is_counted(x: Node) -> bool:
    shape = x.meta["val"].shape
    return len(shape) > 0 and static(*shape)


def _place(step: Replacement, node: Node, x: Node) -> Node:
    """The places in the flat tensor."""
    value = node.meta["val"]
    count = (value[0] if is_tuple(value) else value).shape[0]
    flat = step.call(aten.reshape.default, x, [-1])
    if flat.meta["val"].dtype != torch.bool:
        flat = step.call(aten.ne.Scalar, flat, 0)
    with FakeMode([flat.meta["val"]]):
        made = torch.empty((count,), dtype=torch.int64)
    every = step.call(aten.arange.default, flat.meta["val"].shape[0], dtype=torch.int64)
    place = step.insert(aten.index.Tensor, (every, [flat]), {}, made)
    # Where the symbol is read: the first of several results, or the only one.
    bindings = node.meta.get("unbacked_bindings", {})
    place.meta["unbacked_bindings"] = {name: path[is_tuple(value) :] for name, path in bindings.items()}
    return place


def _columns(step: Replacement, place: Node, shape: list[int]) -> list[Node]:
    """The places of each dimension, apart."""
    columns: list[Node] = []
    for size in reversed(shape[1:]):
        columns.insert(0, step.call(aten.remainder.Scalar, place, size))
        place = step.call(aten.div.Tensor_mode, place, size, rounding_mode="floor")
    return [place, *columns]


def _table(step: Replacement, place: Node, shape: list[int]) -> Node:
    """The same as the columns of a table: joined ones would lose their shape where nothing is chosen."""
    places = step.call(aten.unsqueeze.default, place, 1)
    if len(shape) == 1:
        return places
    steps = torch.tensor([math.prod(shape[at + 1 :]) for at in range(len(shape))])
    quotients = step.call(aten.div.Tensor_mode, places, step.constant("steps", steps), rounding_mode="floor")
    return step.call(aten.remainder.Tensor, quotients, step.constant("sizes", torch.tensor(shape)))
