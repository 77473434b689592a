"""Non-maximum suppression: which boxes stay is computed for all of them, one after another by their scores.

```
before:  kept = torchvision.nms.default(boxes, scores, 0.5)         # boxes: [64, 4], scores: [64]
after:   order = argsort(scores, descending=True)
         over = upper triangle of (intersection over union of boxes[order] > 0.5)       # [64, 64], 0 and 1
         stays = stays * (1 - stays[:, i : i + 1] * over[i : i + 1])                     # 63 times, [1, 64]
         kept = order[stays > 0]                                    # how many they are, the run finds
```
"""

from __future__ import annotations

import torch
from torch.fx import Node
from torch.fx.experimental.proxy_tensor import make_fx

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import operator_name
from edgex.export.rewrites.base import Rewrite, locations_of
from edgex.export.rewrites.editing.building import Replacement
from edgex.export.rewrites.editing.editor import FakeMode, ProgramEditor
from edgex.export.rewrites.editing.substitution import static

# Boxes: the operators grow in number with them, five a box.
MOST_BOXES = 256


def suppress_neighbours(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every suppression of at most `MOST_BOXES` boxes; the same program comes back without one."""
    found = [node for node in program.exported.graph.nodes if operator_name(node) == "torchvision::nms" and _fits(node)]
    if not found:
        return program, None
    editor = ProgramEditor(program)
    for node in found:
        step = Replacement(editor, node)
        boxes, scores, most = editor.node(node).args
        assert isinstance(boxes, Node) and isinstance(scores, Node)
        order, stays = _spliced(step, node, boxes, scores, float(most))  # type: ignore[arg-type]
        kept = step.insert(torch.ops.aten.index.Tensor, (order, [stays]), {}, node.meta["val"])
        kept.meta["unbacked_bindings"] = node.meta.get("unbacked_bindings", {})
        step.finish(kept)
    detail = f"{len(found)} suppression(s) of boxes look at one box after another"
    return editor.finish(), Rewrite("suppress_neighbours", len(found), detail, locations_of(found, program.source_root))


def _fits(node: Node) -> bool:
    boxes = node.args[0]
    assert isinstance(boxes, Node)
    shape = boxes.meta["val"].shape
    return static(*shape) and 0 < shape[0] <= MOST_BOXES


def _spliced(step: Replacement, node: Node, boxes: Node, scores: Node, most: float) -> tuple[Node, Node]:
    """The operators of `_stay`, put in the place of a node."""
    with torch.no_grad(), FakeMode([node.meta["val"]]):
        module = make_fx(lambda boxes, scores: _stay(boxes, scores, most), pre_dispatch=True)(
            boxes.meta["val"], scores.meta["val"]
        )
    made: dict[Node, Node] = dict(zip(module.graph.find_nodes(op="placeholder"), (boxes, scores), strict=True))
    for one in module.graph.nodes:
        if one.op == "get_attr":
            made[one] = step.constant("number", getattr(module, str(one.target)))
        elif one.op == "call_function":
            args, kwargs = torch.fx.map_arg((one.args, one.kwargs), made.__getitem__)
            made[one] = step.insert(one.target, args, kwargs, one.meta["val"])
    order, stays = module.graph.output_node().all_input_nodes
    return made[order], made[stays]


def _stay(boxes: torch.Tensor, scores: torch.Tensor, most: float) -> tuple[torch.Tensor, torch.Tensor]:
    """The boxes' places by falling scores, `int64[boxes]`, and which of them stay, `bool[boxes]`."""
    count = boxes.shape[0]
    order = torch.sort(scores, stable=True, dim=0, descending=True).indices
    left, top, right, bottom = boxes.index_select(0, order).unbind(1)
    area = (right - left) * (bottom - top)
    width = torch.minimum(right.unsqueeze(1), right) - torch.maximum(left.unsqueeze(1), left)
    height = torch.minimum(bottom.unsqueeze(1), bottom) - torch.maximum(top.unsqueeze(1), top)
    shared = torch.relu(width) * torch.relu(height)
    over = (shared / (area.unsqueeze(1) + area - shared) > most).to(boxes.dtype)
    stays = torch.ones((1, count), dtype=boxes.dtype)
    behind = torch.ones((count, count), dtype=boxes.dtype).triu(1)
    over = over * behind
    for at in range(count - 1):
        stays = stays * (1.0 - stays.narrow(1, at, 1) * over.narrow(0, at, 1))
    return order, stays.reshape(count) > 0.5
