"""Write attention as products of matrices, for delegates that know no attention operator.

PyTorch's own decomposition guards against rows without any key: operators that such a delegate leaves to slow kernels.

```
before:  y = aten.scaled_dot_product_attention.default(q, k, v)         # [batch, heads, length, width]
after:   q, k, v = aten.reshape.default(…, [-1, length, width])
         scores  = aten.bmm.default(aten.mul.Tensor(q, scale), aten.transpose.int(k, 1, 2))
         weights = aten.softmax.int(scores, -1)                          # + constant bias before, where there is one
         y       = aten.reshape.default(aten.bmm.default(weights, v), [batch, heads, length, width])
```

Rewritten: attention without a mask, causal attention, and attention with a constant mask in which every row has a key;
all with float tensors of 4 dimensions of which only the batch may vary. Left alone: masks that are computed when the
model runs, for a row without any key would become NaN where eager has 0; masks of more than `ALLOWANCE_BYTES`; dropout;
grouped heads.
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
from edgex.export.rewrites.literals import ALLOWANCE_BYTES

_RANK = 4


def unfold_attention(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Unfold every attention operator that can be; the same program comes back where there is none."""
    candidates = [n for n in program.exported.graph.nodes if operator_name(n) == "aten::scaled_dot_product_attention"]
    if not candidates:
        return program, None
    constants = constant_tensors(program)
    found = [node for node in candidates if _is_taken(node, constants)]
    if not found:
        return program, None
    editor = ProgramEditor(program)
    biases: dict[tuple[Any, ...], Node] = {}
    for node in found:
        _unfold(editor, node, constants, biases)
    detail = f"{len(found)} attention operator(s) became products of matrices"
    made = program.literals | editor.new_constants()
    return editor.finish(literals=made), Rewrite(
        "unfold_attention", len(found), detail, locations_of(found, program.source_root)
    )


def _is_taken(node: Node, constants: Mapping[Node, torch.Tensor]) -> bool:
    arguments = named_arguments(node)
    query, key, value = (arguments[name].meta["val"] for name in ("query", "key", "value"))
    if arguments["dropout_p"] or arguments["enable_gqa"]:
        return False
    if not all(t.dim() == _RANK and t.dtype == torch.float32 for t in (query, key, value)):
        return False
    sizes = [*query.shape[1:], *key.shape[1:], *value.shape[1:]]
    same_batch = query.shape[0] == key.shape[0] == value.shape[0] and query.shape[1] == key.shape[1] == value.shape[1]
    if not all(isinstance(size, int) and size > 0 for size in sizes) or not same_batch or query.shape[0] == 0:
        return False
    mask = arguments["attn_mask"]
    if (mask is not None or arguments["is_causal"]) and 4 * query.shape[2] * key.shape[2] > ALLOWANCE_BYTES:
        return False
    return mask is None or (mask in constants and _has_a_key_in_every_row(constants[mask], query, key))


def _has_a_key_in_every_row(mask: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> bool:
    """Whether a mask's values are known, the same for batch and heads, and leave each query something to look at."""
    if hasattr(mask, "fake_mode") or tuple(mask.shape[-2:]) != (query.shape[-2], key.shape[-2]):
        return False
    if math.prod(mask.shape[:-2]) != 1 or mask.dtype not in (torch.bool, torch.float32):
        return False
    seen = mask if mask.dtype == torch.bool else mask != -math.inf
    return bool(seen.any(-1).all()) and not bool(mask.isnan().any())


def _unfold(
    editor: ProgramEditor, node: Node, constants: Mapping[Node, torch.Tensor], biases: dict[tuple[Any, ...], Node]
) -> None:
    aten = torch.ops.aten
    step = Replacement(editor, node)
    # Read from the copy: what came in may have been replaced already.
    arguments = named_arguments(editor.node(node))
    query, key, value = (arguments[name] for name in ("query", "key", "value"))
    batch, heads, length, width = query.meta["val"].shape
    scale = arguments["scale"] if arguments["scale"] is not None else 1.0 / math.sqrt(width)
    query, key, value = (
        step.call(aten.reshape.default, tensor, [-1, *tensor.meta["val"].shape[2:]]) for tensor in (query, key, value)
    )
    scaled = step.call(aten.mul.Tensor, query, scale)
    scores = step.call(aten.bmm.default, scaled, step.call(aten.transpose.int, key, 1, 2))
    bias = _bias_of(step, named_arguments(node), constants, biases)
    if bias is not None:
        scores = step.call(aten.add.Tensor, scores, bias)
    result = step.call(aten.bmm.default, step.call(aten.softmax.int, scores, -1), value)
    first = batch if isinstance(batch, int) else -1
    step.finish(step.call(aten.reshape.default, result, [first, heads, length, value.meta["val"].shape[-1]]))


def _bias_of(
    step: Replacement,
    arguments: Mapping[str, Any],
    constants: Mapping[Node, torch.Tensor],
    biases: dict[tuple[Any, ...], Node],
) -> Node | None:
    """What is added to the scores, `[1, length, keys]`; one constant for all layers that mask alike."""
    mask = arguments["attn_mask"]
    lengths = tuple(int(arguments[name].meta["val"].shape[-2]) for name in ("query", "key"))
    if mask is None and not arguments["is_causal"]:
        return None
    values = torch.ones(lengths, dtype=torch.bool).tril() if mask is None else constants[mask].reshape(lengths)
    if values.dtype == torch.bool:
        values = torch.zeros(lengths).masked_fill(~values, -math.inf)
    # Each layer may have made a mask of its own.
    known = (*lengths, hashlib.sha256(values.contiguous().numpy().tobytes()).digest())
    if known not in biases:
        biases[known] = step.constant("attention_bias", values[None].contiguous())
    return biases[known]
