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

Rewritten: attention of float32 tensors of 4 dimensions of which only the batch may vary; with keys that several heads
share too. Left alone: dropout, constant masks of more than `ALLOWANCE_BYTES`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import named_arguments, operator_name
from edgex.export.rewrites.attention.finite import may_be_infinite
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
    biases = _Biases(constants)
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
    if arguments["dropout_p"] or not all(t.dim() == _RANK and t.dtype == torch.float32 for t in (query, key, value)):
        return False
    sizes = [*query.shape[1:], *key.shape[1:], *value.shape[1:]]
    if not all(isinstance(size, int) and size > 0 for size in sizes) or query.shape[0] == 0:
        return False
    heads, shared = query.shape[1], key.shape[1]
    if not query.shape[0] == key.shape[0] == value.shape[0] or shared != value.shape[1]:
        return False
    if heads != shared and (not arguments["enable_gqa"] or heads % shared):
        return False
    mask = arguments["attn_mask"]
    if mask is None:
        return not arguments["is_causal"] or 4 * query.shape[2] * key.shape[2] <= ALLOWANCE_BYTES
    return _is_bias(mask, query, key, heads != shared) and (
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
    return mask is None or _is_bias(mask, query, key, shared=True)


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
    if len(source) != _RANK or steps[2].args[1] not in (2, -3) or len(repeated) != _RANK + 1:
        return None
    if not all(isinstance(size, int) for size in (*source[1:], *repeated[1:])):
        return None
    same = tuple(repeated[3:]) == tuple(source[2:]) and repeated[1] == source[1]
    return tensor if same and reshaped[1] == source[1] * repeated[2] and reshaped[2:] == source[2:] else None


def _is_bias(mask: Node, query: torch.Tensor, key: torch.Tensor, shared: bool) -> bool:
    """Whether a mask can be added to the scores as it is, and leaves each query and key its place."""
    value = mask.meta["val"]
    if value.dtype not in (torch.bool, torch.float32) or not 2 <= value.dim() <= _RANK:
        return False
    batch, heads, length, keys = (1,) * (_RANK - value.dim()) + tuple(value.shape)
    if not isinstance(length, int) or length not in (1, query.shape[2]) or keys != key.shape[2]:
        return False
    if isinstance(batch, int) and isinstance(query.shape[0], int) and batch not in (1, query.shape[0]):
        return False
    if not isinstance(heads, int) or heads not in (1, query.shape[1]):
        return False
    return not shared or (isinstance(batch, int) and batch == heads == 1)


@dataclass(frozen=True)
class _Bias:
    """What a mask adds to the scores, and what their result is multiplied by; both have the mask's dimensions."""

    added: Node
    kept: Node | None = None


class _Biases:
    """The biases of a program: one for all layers that mask alike."""

    def __init__(self, constants: Mapping[Node, torch.Tensor]) -> None:
        self._constants = constants
        self._known: dict[tuple[Any, ...], _Bias] = {}

    def find(self, step: Replacement, original: Mapping[str, Any], copied: Mapping[str, Any]) -> _Bias | None:
        """The bias of an attention operator; None where nothing is masked."""
        mask = original["attn_mask"]
        lengths = tuple(int(original[name].meta["val"].shape[-2]) for name in ("query", "key"))
        if mask is None and not original["is_causal"]:
            return None
        if mask is None:
            return self._constant(step, torch.ones(lengths, dtype=torch.bool).tril())
        values = self._constants.get(mask)
        if values is None:
            if mask.meta["val"].dtype != torch.bool and not may_be_infinite(mask, self._constants):
                return _Bias(copied["attn_mask"])
            return self._at_run_time(step, _same_mask(copied["attn_mask"]))
        if hasattr(values, "fake_mode"):  # a trained bias, whose values `why` does not load
            return _Bias(copied["attn_mask"])
        return self._constant(step, values)

    def _constant(self, step: Replacement, mask: torch.Tensor) -> _Bias:
        seen = mask if mask.dtype == torch.bool else mask != -math.inf
        some = seen.any(-1, keepdim=True)
        empty = torch.zeros_like(mask, dtype=torch.float32).masked_fill(~seen & some, -math.inf)
        values = empty if mask.dtype == torch.bool else torch.where(some, mask, 0.0)
        # Each layer may have made a mask of its own.
        key = (*mask.shape, hashlib.sha256(values.contiguous().numpy().tobytes()).digest(), bool(some.all()))
        if key not in self._known:
            kept = None if some.all() else step.constant("attention_rows", some.float().contiguous())
            self._known[key] = _Bias(step.constant("attention_bias", values.contiguous()), kept)
        return self._known[key]

    def _at_run_time(self, step: Replacement, mask: Node) -> _Bias:
        if (mask,) not in self._known:
            aten = torch.ops.aten
            whole = mask.meta["val"].dtype == torch.bool
            seen = mask if whole else step.call(aten.ne.Scalar, mask, -math.inf)
            some = step.call(aten.any.dim, seen, -1, True)
            if whole:
                allowed = step.call(aten.logical_or.default, mask, step.call(aten.logical_not.default, some))
                none = step.call(aten.zeros_like.default, mask, dtype=torch.float32)
                added = step.call(aten.where.ScalarOther, allowed, none, -math.inf)
            else:
                added = step.call(aten.where.ScalarOther, some, mask, 0.0)
            self._known[(mask,)] = _Bias(added, step.call(aten.to.dtype, some, torch.float32))
        return self._known[(mask,)]


def _same_mask(mask: Node) -> Node:
    """What a layer's own slice of a mask is all of."""
    while operator_name(mask) in ("aten::slice", "aten::alias", "aten::detach"):
        source = mask.args[0]
        if not isinstance(source, Node) or source.meta["val"].shape != mask.meta["val"].shape:
            break
        mask = source
    return mask


def _unfold(editor: ProgramEditor, node: Node, biases: _Biases) -> None:
    aten = torch.ops.aten
    step = Replacement(editor, node)
    # Read from the copy: what came in may have been replaced already.
    arguments = named_arguments(editor.node(node))
    query, key, value = (arguments[name] for name in ("query", "key", "value"))
    batch, heads, length, width = query.meta["val"].shape
    if _may_share(named_arguments(node)):
        key, value = (_unrepeated(tensor) or tensor for tensor in (key, value))
    groups = heads // key.meta["val"].shape[1]  # of queries that share a key
    keys, first = key.meta["val"].shape[2], batch if isinstance(batch, int) else -1
    scale = arguments["scale"] if arguments["scale"] is not None else 1.0 / math.sqrt(width)
    query = step.call(aten.reshape.default, query, [-1, groups * length, width])
    key, value = (
        step.call(aten.reshape.default, tensor, [-1, *tensor.meta["val"].shape[2:]]) for tensor in (key, value)
    )
    scaled = step.call(aten.mul.Tensor, query, scale)
    weights = step.call(aten.bmm.default, scaled, step.call(aten.transpose.int, key, 1, 2))
    bias = biases.find(step, named_arguments(node), arguments)
    if bias is None:
        weights = step.call(aten.softmax.int, weights, -1)
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
    result = step.call(aten.reshape.default, result, [first, heads, length, value.meta["val"].shape[-1]])
    if bias is not None and bias.kept is not None:
        result = step.call(aten.mul.Tensor, result, bias.kept)
    step.finish(result)


def _is_fixed(node: Node) -> bool:
    return all(isinstance(size, int) for size in node.meta["val"].shape)
