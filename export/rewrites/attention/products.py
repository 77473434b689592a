"""Write attention as products of matrices, for delegates that know no attention operator.

PyTorch's own decomposition guards against rows without any key: operators that such a delegate leaves to slow kernels.

```
before:  y = aten.scaled_dot_product_attention.default(q, k, v)         # [batch, heads, length, width]
after:   q, k, v = aten.reshape.default(…, [-1, length, width])
         scores  = aten.bmm.default(aten.mul.Tensor(q, scale), aten.transpose.int(k, 1, 2))
         weights = aten.softmax.int(scores, -1)                          # + constant bias before, where there is one
         y       = aten.reshape.default(aten.bmm.default(weights, v), [batch, heads, length, width])
```

A mask becomes a bias that is computed once for all layers that share it. One that is known only at run time may leave a
row without any key: such rows get no bias, and their result is multiplied by 0, which is what eager answers there.

```
before:  y    = aten.scaled_dot_product_attention.default(q, k, v, mask)            # mask: bool [batch, 1, 1, keys]
after:   some = aten.any.dim(mask, -1, True)                                        # once
         bias = aten.where.ScalarSelf(mask | ~some, 0.0, -inf)                      # once
         …      aten.softmax.int(scores + bias, -1) …
         y    = y * some
```

Keys and values that the program repeats for the heads that share them are read as they were before.

Where the numbers of queries or keys vary, what a mask adds gets the shape of the scores, once for all layers, and no
size is named:

```
after:   bias    = aten.cat.default([aten.squeeze.dim(mask, 0)] * groups, 1)     # [1, groups * length, keys]
         scores  = aten.add.Tensor(aten.bmm.default(…), bias)                    # [shared, groups * length, keys]
```

Rewritten: attention of float32 tensors of 4 dimensions of which the batch may vary, or the numbers of queries and keys;
with keys that several heads share too. Left alone: dropout, constant masks of more than `ALLOWANCE_BYTES`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import named_arguments, operator_name
from edgex.export.rewrites.attention.biases import RANK, Biases, are_same, has_fixed_lengths, is_bias
from edgex.export.rewrites.base import Rewrite, locations_of
from edgex.export.rewrites.editing.building import Replacement
from edgex.export.rewrites.editing.editor import ProgramEditor, constant_tensors
from edgex.export.rewrites.folding.literals import ALLOWANCE_BYTES


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
    biases = Biases(constants)
    for node in found:
        _unfold(editor, node, biases)
    detail = f"{len(found)} attention operator(s) became products of matrices"
    made = program.literals | editor.new_constants()
    return editor.finish(literals=made), Rewrite(
        "unfold_attention", len(found), detail, locations_of(found, program.source_root)
    )


def _is_taken(node: Node, constants: Mapping[Node, torch.Tensor]) -> bool:
    arguments = named_arguments(node)
    query, key, value = (arguments[name].meta["val"] for name in ("query", "key", "value"))
    if arguments["dropout_p"] or not all(t.dim() == RANK and t.dtype == torch.float32 for t in (query, key, value)):
        return False
    lengths = (query.shape[2], key.shape[2], value.shape[2])
    fixed = [size for tensor in (query, key, value) for size in (tensor.shape[1], tensor.shape[3])]
    if any(isinstance(size, int) and size == 0 for size in (query.shape[0], *lengths, *fixed)):
        return False
    if not all(isinstance(size, int) for size in (*fixed, *(() if has_fixed_lengths(query, key) else query.shape[:1]))):
        return False
    heads, shared = query.shape[1], key.shape[1]
    if not are_same(query.shape[0], key.shape[0], value.shape[0]) or shared != value.shape[1]:
        return False
    if (heads != shared and (not arguments["enable_gqa"] or heads % shared)) or not are_same(*lengths[1:]):
        return False
    mask = arguments["attn_mask"]
    if mask is None:
        if not arguments["is_causal"] or not has_fixed_lengths(query, key):
            return True
        return int(4 * query.shape[2] * key.shape[2]) <= ALLOWANCE_BYTES
    return is_bias(mask, query, key, heads != shared) and (
        mask not in constants or 4 * constants[mask].numel() <= ALLOWANCE_BYTES
    )


def _may_share(arguments: Mapping[str, Any]) -> bool:
    """Whether keys that the program repeats for each head can be read as they were before."""
    sources = [_unrepeated(arguments[name]) for name in ("key", "value")]
    if any(source is None for source in sources):
        return False
    key, value = (source.meta["val"] for source in sources if source is not None)
    query, mask = arguments["query"].meta["val"], arguments["attn_mask"]
    if key.shape[1] != value.shape[1]:
        return False
    return mask is None or is_bias(mask, query, key, shared=True)


def _unrepeated(tensor: Node) -> Node | None:
    """What `k[:, :, None].expand(batch, shared, groups, keys, width).reshape(batch, heads, keys, width)` repeats."""
    steps = []
    for name in ("reshape", "expand", "unsqueeze"):
        while operator_name(tensor) == "aten::clone":
            tensor = tensor.args[0]  # type: ignore[assignment]
        if operator_name(tensor) not in (f"aten::{name}", "aten::view" if name == "reshape" else None):
            return None
        steps.append(tensor)
        tensor = tensor.args[0]  # type: ignore[assignment]
    reshaped, repeated, _ = (step.meta["val"].shape for step in steps)
    source = tensor.meta["val"].shape
    if len(source) != RANK or steps[2].args[1] not in (2, -3) or len(repeated) != RANK + 1:
        return None
    if not all(isinstance(size, int) for size in (source[1], source[3], *repeated[1:3], repeated[4], reshaped[1])):
        return None
    same = repeated[1] == source[1] and reshaped[1] == source[1] * repeated[2]
    alike = zip(source[2:], repeated[3:], reshaped[2:], strict=True)
    return tensor if same and all(are_same(*sizes) for sizes in alike) else None


def _unfold(editor: ProgramEditor, node: Node, biases: Biases) -> None:
    aten = torch.ops.aten
    step = Replacement(editor, node)
    # Read from the copy: what came in may have been replaced already.
    arguments = named_arguments(editor.node(node))
    query, key, value = (arguments[name] for name in ("query", "key", "value"))
    batch, heads, length, width = query.meta["val"].shape
    if _may_share(named_arguments(node)):
        key, value = (_unrepeated(tensor) or tensor for tensor in (key, value))
    keys, shared = key.meta["val"].shape[2], key.meta["val"].shape[1]
    varies = not (isinstance(length, int) and isinstance(keys, int))
    groups = heads // shared  # of queries that share a key
    first = batch if isinstance(batch, int) else -1
    scale = arguments["scale"] if arguments["scale"] is not None else 1.0 / math.sqrt(width)
    rows = groups * length if isinstance(length, int) else -1
    query = step.call(aten.reshape.default, query, [first * shared if rows < 0 else -1, rows, width])
    key, value = (
        step.call(aten.flatten.using_ints, tensor, 0, 1)
        if varies
        else step.call(aten.reshape.default, tensor, [-1, *tensor.meta["val"].shape[2:]])
        for tensor in (key, value)
    )
    scaled = step.call(aten.mul.Tensor, query, scale)
    weights = step.call(aten.bmm.default, scaled, step.call(aten.transpose.int, key, 1, 2))
    bias = biases.find(step, named_arguments(node), arguments)
    if bias is None:
        weights = step.call(aten.softmax.int, weights, -1)
    elif varies:
        added = biases.of_products(step, bias.added, groups, length, batch, heads)
        weights = step.call(aten.softmax.int, step.call(aten.add.Tensor, weights, added), -1)
    else:
        shape, added = [-1, groups, length, keys], bias.added
        if groups == 1:
            alike = math.prod(added.meta["val"].shape[:-2]) == 1 if _is_fixed(added) else False
            shape = [-1, length, keys] if alike else [first, heads, length, keys]
            if alike:
                added = step.call(aten.reshape.default, added, [1, *added.meta["val"].shape[-2:]])
        weights = step.call(aten.add.Tensor, step.call(aten.reshape.default, weights, shape), added)
        weights = step.call(aten.softmax.int, weights, -1)
        weights = step.call(aten.reshape.default, weights, [-1, groups * length, keys])
    result = step.call(aten.bmm.default, weights, value)
    size = value.meta["val"].shape[-1]
    result = step.call(aten.reshape.default, result, [first, heads, length if isinstance(length, int) else -1, size])
    if bias is not None and bias.kept is not None:
        result = step.call(aten.mul.Tensor, result, bias.kept)
    step.finish(result)


def _is_fixed(node: Node) -> bool:
    return all(isinstance(size, int) for size in node.meta["val"].shape)
