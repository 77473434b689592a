"""Give attention the zeros that PyTorch gives a row without any key, for engines that give something else.

A query for which the mask lets nothing through has no weights to share out: eager answers 0, ONNX Runtime and oneDNN
give NaN or the mean of all values. Such rows come with padding, and with masks of an input that nobody tried.

```
before:  y = aten.scaled_dot_product_attention.default(q, k, v, mask)         # mask: bool, made when the model runs
after:   y = aten.scaled_dot_product_attention.default(q, k, v, mask)
         seen = aten.any.dim(mask, -1, True)                                  # once for all layers that share the mask
         y = aten.where.ScalarOther(seen, y, 0.0)
```

A mask of floats is compared with -inf first. Left alone: attention without a mask, constant masks in which every row
has a key, and biases that the model computes as sums of products (relative positions).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import named_arguments, operator_name
from edgex.export.rewrites.base import Rewrite, locations_of
from edgex.export.rewrites.editing.building import Replacement
from edgex.export.rewrites.editing.editor import ProgramEditor, constant_tensors
from edgex.export.rewrites.editing.finiteness import Finiteness, FinitenessOf


def guard_empty_rows(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Guard every attention whose mask may leave a row empty; the same program comes back where there is none."""
    constants = constant_tensors(program)
    finiteness = FinitenessOf(constants)
    found = [node for node in program.exported.graph.nodes if _may_be_empty(node, constants, finiteness)]
    if not found:
        return program, None
    editor = ProgramEditor(program)
    seen: dict[Node, Node] = {}
    for node in found:
        _guard(editor, node, seen)
    detail = f"{len(found)} attention operator(s) give 0 where the mask lets nothing through, as PyTorch does"
    return editor.finish(), Rewrite("guard_empty_rows", len(found), detail, locations_of(found, program.source_root))


def _may_be_empty(node: Node, constants: Mapping[Node, torch.Tensor], finiteness: FinitenessOf) -> bool:
    if operator_name(node) != "aten::scaled_dot_product_attention":
        return False
    mask = named_arguments(node)["attn_mask"]
    if not isinstance(mask, Node):
        return False
    known = constants.get(mask)
    if known is None or hasattr(known, "fake_mode"):
        return mask.meta["val"].dtype == torch.bool or finiteness(mask) != Finiteness.FINITE
    return not bool((known if known.dtype == torch.bool else known != -math.inf).any(-1).all())


def _guard(editor: ProgramEditor, node: Node, seen: dict[Node, Node]) -> None:
    aten = torch.ops.aten
    step = Replacement(editor, node)
    # Read from the copy: what came in may have been replaced already.
    arguments: dict[str, Any] = named_arguments(editor.node(node))
    mask = arguments["attn_mask"]
    if mask not in seen:
        some = mask if mask.meta["val"].dtype == torch.bool else step.call(aten.ne.Scalar, mask, -math.inf)
        seen[mask] = step.call(aten.any.dim, some, -1, True)
    given = editor.node(node)
    again = step.call(node.target, *given.args, **given.kwargs)
    step.finish(step.call(aten.where.ScalarOther, seen[mask], again, 0.0))
