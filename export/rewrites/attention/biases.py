"""What a mask of attention adds to the scores: computed once for all layers that mask alike.

```
mask of booleans, known     a constant of 0 and -inf
mask of booleans, computed  zeros and -inf, made of it at run time; rows without any key get zeros, and are marked
mask of floats              itself, or with zeros in rows without any key
causal, of fixed lengths    a constant
causal, of varying lengths  0 and -inf, by comparing the numbers of queries and keys
```
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.graph.schema import operator_name
from edgex.export.rewrites.editing.building import Replacement
from edgex.export.rewrites.editing.finiteness import Finiteness, FinitenessOf

RANK = 4


def has_fixed_lengths(query: torch.Tensor, key: torch.Tensor) -> bool:
    """Whether the numbers of queries and keys are known, not only while the model runs."""
    return isinstance(query.shape[2], int) and isinstance(key.shape[2], int)


def are_same(*sizes: Any) -> bool:
    """Whether sizes are equal for certain, without asking (and guarding) what only a run knows."""
    first, *others = (size if isinstance(size, int) else size.node.expr for size in sizes)
    return all(bool(first == other) for other in others)


def is_bias(mask: Node, query: torch.Tensor, key: torch.Tensor, shared: bool) -> bool:
    """Whether a mask can be added to the scores as it is, and leaves each query and key its place."""
    value = mask.meta["val"]
    if value.dtype not in (torch.bool, torch.float32) or not 2 <= value.dim() <= RANK:
        return False
    batch, heads, length, keys = (1,) * (RANK - value.dim()) + tuple(value.shape)
    if not (are_same(length, 1) or are_same(length, query.shape[2])) or not are_same(keys, key.shape[2]):
        return False
    if isinstance(batch, int) and isinstance(query.shape[0], int) and batch not in (1, query.shape[0]):
        return False
    if not isinstance(heads, int) or heads not in (1, query.shape[1]):
        return False
    return not shared or (isinstance(batch, int) and batch == heads == 1)


@dataclass(frozen=True)
class Bias:
    """What a mask adds to the scores, and what their result is multiplied by; both have the mask's dimensions."""

    added: Node
    kept: Node | None = None


class Biases:
    """The biases of a program: one for all layers that mask alike."""

    def __init__(self, constants: Mapping[Node, torch.Tensor]) -> None:
        self._constants = constants
        self._finiteness = FinitenessOf(constants)
        self._known: dict[tuple[Any, ...], Bias] = {}
        self._three: dict[tuple[Node, int, int], Node] = {}

    def find(self, step: Replacement, original: Mapping[str, Any], copied: Mapping[str, Any]) -> Bias | None:
        """The bias of an attention operator; None where nothing is masked."""
        mask = original["attn_mask"]
        if mask is None and not original["is_causal"]:
            return None
        if mask is None and not has_fixed_lengths(*(original[name].meta["val"] for name in ("query", "key"))):
            return self._causal(step, copied["query"], copied["key"])
        if mask is None:
            lengths = tuple(int(original[name].meta["val"].shape[-2]) for name in ("query", "key"))
            return self._constant(step, torch.ones(lengths, dtype=torch.bool).tril())
        values = self._constants.get(mask)
        if values is None:
            if mask.meta["val"].dtype != torch.bool and self._finiteness(mask) == Finiteness.FINITE:
                return Bias(copied["attn_mask"])
            return self._at_run_time(step, _same_mask(copied["attn_mask"]))
        if hasattr(values, "fake_mode"):  # a trained bias, whose values `why` does not load
            return Bias(copied["attn_mask"])
        return self._constant(step, values)

    def _constant(self, step: Replacement, mask: torch.Tensor) -> Bias:
        seen = mask if mask.dtype == torch.bool else mask != -math.inf
        some = seen.any(-1, keepdim=True)
        empty = torch.zeros_like(mask, dtype=torch.float32).masked_fill(~seen & some, -math.inf)
        values = empty if mask.dtype == torch.bool else torch.where(some, mask, 0.0)
        # Each layer may have made a mask of its own.
        key = (*mask.shape, hashlib.sha256(values.contiguous().numpy().tobytes()).digest(), bool(some.all()))
        if key not in self._known:
            kept = None if some.all() else step.constant("attention_rows", some.float().contiguous())
            self._known[key] = Bias(step.constant("attention_bias", values.contiguous()), kept)
        return self._known[key]

    def _causal(self, step: Replacement, query: Node, key: Node) -> Bias:
        """Nothing after a query's own place: the first query sees the first key."""
        aten = torch.ops.aten
        known = tuple(str(tensor.meta["val"].shape[2]) for tensor in (query, key))
        if known not in self._known:
            counted = []
            for tensor in (query, key):
                for dim in (0, 0, 1):
                    tensor = step.call(aten.select.int, tensor, dim, 0)
                counted.append(step.call(aten.cumsum.default, step.call(aten.ones_like.default, tensor), 0))
            rows, columns = (
                step.call(aten.unsqueeze.default, places, dim) for dim, places in ((1, counted[0]), (0, counted[1]))
            )
            seen = step.call(aten.ge.Tensor, rows, columns)
            none = step.call(aten.zeros_like.default, seen, dtype=torch.float32)
            self._known[known] = Bias(step.call(aten.where.ScalarOther, seen, none, -math.inf))
        return self._known[known]

    def _at_run_time(self, step: Replacement, mask: Node) -> Bias:
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
            self._known[(mask,)] = Bias(added, step.call(aten.to.dtype, some, torch.float32))
        return self._known[(mask,)]

    def of_products(self, step: Replacement, added: Node, groups: int, queries: Any, batch: Any, heads: int) -> Node:
        """What is added to scores `[batch * heads / groups, groups * queries, keys]`, once for all layers.

        A mask `[batch or 1, heads or 1, queries or 1, keys]`, or of fewer dimensions, is given `[-1 or 1, …, keys]`.
        """
        key = (added, groups, heads)
        if key not in self._three:
            aten = torch.ops.aten
            whole = added
            for _ in range(RANK - added.meta["val"].dim()):
                whole = step.call(aten.unsqueeze.default, whole, 0)
            many, ways, rows, _keys = whole.meta["val"].shape
            if many == ways == 1:
                three = step.call(aten.squeeze.dim, whole, 0)
            else:
                each = step.call(aten.expand.default, whole, [batch, heads, -1, -1])
                three = step.call(aten.flatten.using_ints, each, 0, 1)
            if groups > 1 and not are_same(rows, 1):
                three = step.call(aten.cat.default, [three] * groups, 1)
            self._three[key] = three
        return self._three[key]


def _same_mask(mask: Node) -> Node:
    """What a layer's own slice of a mask is all of."""
    while operator_name(mask) in ("aten::slice", "aten::alias", "aten::detach"):
        source = mask.args[0]
        if not isinstance(source, Node) or not _have_one_shape(source.meta["val"], mask.meta["val"]):
            break
        mask = source
    return mask


def _have_one_shape(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether that is known: the beginning of a cache that is shown has a size that only a run has."""
    if one.dim() != other.dim():
        return False
    return all(are_same(size, length) for size, length in zip(one.shape, other.shape, strict=True))
