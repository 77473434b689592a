"""The precision that a model computes in by itself: a float32 export of a bfloat16 layer has bfloat16's digits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch.export import ExportedProgram

# From the most digits to the fewest.
_NAMES = {torch.float16: "fp16", torch.bfloat16: "bf16"}
_ORDER = ("fp32", "fp16", "bf16")


def find_inner_precision(program: ExportedProgram) -> str:
    """The lowest precision to which an operator of the program rounds, in regions under autocast too.

    Returns:
        `fp32`, `fp16` or `bf16`. A 16-bit input or weight that is only read, and computed with in float32, is `fp32`.
    """
    found = {"fp32"}
    for part in program.graph_module.modules():
        if isinstance(part, torch.fx.GraphModule):
            for node in part.graph.nodes:
                if node.op == "call_function":
                    found |= {_NAMES[dtype] for dtype in _dtypes_of(node.meta.get("val")) if dtype in _NAMES}
    return max(found, key=_ORDER.index)


def lower_precision(one: str, other: str) -> str:
    """The one with fewer digits."""
    return max(one, other, key=_ORDER.index)


def _dtypes_of(value: Any) -> set[torch.dtype]:
    if isinstance(value, torch.Tensor):
        return {value.dtype}
    return {t.dtype for t in value if isinstance(t, torch.Tensor)} if isinstance(value, (list, tuple)) else set()
