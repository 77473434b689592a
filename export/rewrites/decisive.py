"""Find the float32 arithmetic that a lower precision would not blur but break.

```
positions: i64                       float16 holds integers up to 2048, bfloat16 up to 256:
f = positions.to(float32) * freqs    an angle off by 1 rad, a wrong bucket, another branch
cos(f), log(f).to(int64), x > 0      <- found: these, and what they are computed from
```

Only values that no parameter and no state went into are found; after the first layer all is rounded anyway.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.export.graph_signature import InputKind
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import leaves_of, operator_name
from edgex.export.rewrites.editing.editor import placeholders
from edgex.export.rewrites.editing.mutation import mutated_nodes

# A rounded argument moves their result by any amount once the argument is large.
_ILL_CONDITIONED = frozenset({"aten::sin", "aten::cos"})

# They read a size, not values.
_READS_SIZE = frozenset({"aten::sym_size", "aten::sym_stride", "aten::sym_numel", "aten::sym_storage_offset"})


def decisive_nodes(program: CapturedProgram) -> set[Node]:
    """The nodes to keep in float32: those that decide something, and all that they are computed from.

    A node decides when it is a sine or cosine, or makes something other than float32 from float32.
    """
    found: set[Node] = set()
    pending = [node for node in _without_parameters(program) if _decides(node)]
    while pending:
        node = pending.pop()
        if node not in found:
            found.add(node)
            pending += node.all_input_nodes
    return found


def is_float32(value: Any) -> bool:
    """Whether a value is a float32 tensor."""
    return isinstance(value, torch.Tensor) and value.dtype == torch.float32


def _without_parameters(program: CapturedProgram) -> dict[Node, None]:
    """The nodes that no parameter, state or in-place write has a part in."""
    mutated = mutated_nodes(program.exported)
    state = {spec.name for spec in program.state}
    found = {
        node: None
        for node, spec in placeholders(program.exported)
        if spec.kind is not InputKind.PARAMETER and spec.target not in state and node not in mutated
    }
    for node in program.exported.graph.nodes:
        if node.op == "call_function" and node not in mutated and all(arg in found for arg in node.all_input_nodes):
            found[node] = None
    return found


def _decides(node: Node) -> bool:
    name = operator_name(node)
    if name is None or name in _READS_SIZE or not any(is_float32(arg.meta["val"]) for arg in node.all_input_nodes):
        return False
    results = leaves_of(node.meta.get("val"))
    return name in _ILL_CONDITIONED or any(not is_float32(result) for result in results if result is not None)
