"""Write constant boolean masks of attention as what is added to the scores, for delegates that only add.

Such a delegate would compute the same 0 and -inf in every run, and not know them when it compiles: it could not tell
that every row has a key.

```
before:  y = aten.scaled_dot_product_attention.default(q, k, v, b_mask)     # bool
after:   y = aten.scaled_dot_product_attention.default(q, k, v, c_bias)     # 0 where True, -inf where False
```

Left alone: masks that are computed when the model runs, and masks whose numbers take more than `ALLOWANCE_BYTES`.
"""

from __future__ import annotations

import hashlib
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
from edgex.export.rewrites.folding.literals import ALLOWANCE_BYTES


def write_masks(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every constant boolean mask as numbers; the same program comes back where there is none."""
    constants = constant_tensors(program)
    found = [node for node in program.exported.graph.nodes if _has_constant_mask(node, constants)]
    if not found:
        return program, None
    editor = ProgramEditor(program)
    biases: dict[tuple[Any, ...], Node] = {}
    for node in found:
        arguments = named_arguments(node)
        mask, dtype = constants[arguments["attn_mask"]], arguments["query"].meta["val"].dtype
        # Each layer may have made a mask of its own.
        known = (dtype, tuple(mask.shape), hashlib.sha256(mask.contiguous().numpy().tobytes()).digest())
        if known not in biases:
            values = torch.zeros(mask.shape, dtype=dtype).masked_fill(~mask, -math.inf)
            biases[known] = Replacement(editor, node).constant("attention_bias", values)
        editor.node(node).replace_input_with(editor.node(arguments["attn_mask"]), biases[known])
    detail = f"the boolean masks of {len(found)} attention operator(s) became {len(biases)} constant(s)"
    made = program.literals | editor.new_constants()
    return editor.finish(literals=made), Rewrite(
        "write_masks", len(found), detail, locations_of(found, program.source_root)
    )


def _has_constant_mask(node: Node, constants: Mapping[Node, torch.Tensor]) -> bool:
    if operator_name(node) != "aten::scaled_dot_product_attention":
        return False
    arguments = named_arguments(node)
    known = constants.get(arguments["attn_mask"])
    if known is None or known.dtype != torch.bool or hasattr(known, "fake_mode"):
        return False
    return bool(known.numel() * arguments["query"].meta["val"].element_size() <= ALLOWANCE_BYTES)
