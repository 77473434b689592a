"""Finds attention that reads a cache which forward writes first, by what its parts compute.

What the mask lets through, where the cache is written and what is kept of a token is not recognised by its operators:
each is computed for some lengths and positions, and has to be that of a causal text, or of one with a window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.attention.cached import narrow_rows
from edgex.delegates.graph.schema import named_arguments, operator_name
from edgex.export.rewrites.attention.text_probe import TextProbe

_WRITES = "aten::index_copy_"
_RANK = 4
# What may lie between a cache and the attention that reads it; what they come to is computed too.
_VIEWS = frozenset(
    f"aten::{name}"
    for name in ("narrow", "slice", "select", "unsqueeze", "expand", "reshape", "view", "flatten", "alias")
) | {"aten::repeat_interleave"}
# And between one in 8 bits, its scales and the attention; and from a token to what is kept of it.
_CASTS = frozenset(("aten::to", "aten::_to_copy"))
_WIDENS = _CASTS | {"aten::mul"}
NARROWS = _CASTS | {"aten::round", "aten::clamp", "aten::div"}
CHECKS = "aten::_assert_tensor_metadata"


@dataclass(frozen=True)
class Kept:
    """What a call keeps of its tokens' keys, or of their values.

    Attributes:
        states: What is kept, float32 `[1, shared, n, size]`.
        rows: The write to the cache `[1, shared, context, size]`, float32 or int8.
        scales: Of int8, the write of each row's scale to `[1, shared, context, 1]`.
    """

    states: Node
    rows: Node
    scales: Node | None

    @property
    def writes(self) -> tuple[Node, ...]:
        """All writes."""
        return (self.rows,) if self.scales is None else (self.rows, self.scales)


@dataclass(frozen=True)
class CachedRead:
    """An attention with the cache that it reads, and how many tokens back it sees, 0 for all."""

    node: Node
    keys: Kept
    values: Kept
    window: int


def find_cached_read(node: Node, program: CapturedProgram, probe: TextProbe) -> CachedRead | None:
    """What a node is, if it is an attention over a cache that nothing else reads."""
    if operator_name(node) != "aten::scaled_dot_product_attention":
        return None
    given = named_arguments(node)
    mask = given["attn_mask"]
    if given["dropout_p"] or given["is_causal"] or not isinstance(mask, Node):
        return None
    query = given["query"].meta["val"]
    if query.dtype != torch.float32 or query.dim() != _RANK:
        return None
    try:
        keys, values = (_find_kept(given[name], query.shape[1], node, program, probe) for name in ("key", "value"))
        if (
            keys is None
            or values is None
            or keys.rows is values.rows
            or (keys.scales is None) != (values.scales is None)
        ):
            return None
        shapes = [tuple(kept.rows.meta["val"].shape) for kept in (keys, values)]
        if shapes[0][:3] != shapes[1][:3] or query.shape[3] != shapes[0][3]:
            return None
        window = _window_of(mask, [*keys.writes, *values.writes], probe, shapes[0][2])
    except Exception:  # sizes or values that another text's attention does not have: it stays as it is
        return None
    return None if window is None else CachedRead(node, keys, values, window)


def _find_kept(read: Any, heads: int, attention: Node, program: CapturedProgram, probe: TextProbe) -> Kept | None:
    writes = _writers_of(read)
    if not writes or not all(_is_own(write, attention, program, probe) for write in writes):
        return None
    by_dtype = {write.meta["val"].dtype: write for write in writes}
    rows = by_dtype.get(torch.int8, writes[0])
    shape = tuple(rows.meta["val"].shape)
    if heads % shape[1]:
        return None
    if len(writes) == 1 and rows.meta["val"].dtype == torch.float32:
        states = rows.args[3]
        kept = Kept(states, rows, None) if isinstance(states, Node) else None
    elif len(writes) == 2 and set(by_dtype) == {torch.int8, torch.float32}:
        kept = _find_narrowed(rows, by_dtype[torch.float32], probe)
    else:
        return None
    return kept if kept is not None and _is_repeated(read, kept, probe, heads) else None


def _writers_of(value: Any) -> list[Node]:
    """The writes to whole caches of whose beginnings alone a value is made; none where it is made of others."""
    pending, found = [value], []
    while pending:
        node = pending.pop()
        name = operator_name(node) if isinstance(node, Node) else None
        if name == _WRITES and node.args[1] == 2:
            found.append(node)
        elif name in _VIEWS or name in _CASTS:
            pending.append(node.args[0])
        elif name in _WIDENS:
            pending += node.args[:2]
        else:
            return []
    return list(dict.fromkeys(found))


def _find_narrowed(rows: Node, scales: Node, probe: TextProbe) -> Kept | None:
    """The tokens whose numbers in 8 bits are written, and their scales."""
    shape = tuple(rows.meta["val"].shape)
    if tuple(scales.meta["val"].shape) != (*shape[:3], 1):
        return None
    chain = [rows.args[3]]
    while isinstance(chain[-1], Node) and operator_name(chain[-1]) in NARROWS:
        chain.append(chain[-1].args[0])
    # From the far end on: what is nearer may itself be a division or a cast.
    for states in reversed(chain[1:]):
        if isinstance(states, Node) and _are_narrowed(states, rows, scales, probe):
            return Kept(states, rows, scales)
    return None


def _are_narrowed(states: Node, rows: Node, scales: Node, probe: TextProbe) -> bool:
    value, shape = states.meta["val"], rows.meta["val"].shape
    if value.dtype != torch.float32 or value.dim() != _RANK or value.shape[3] != shape[3]:
        return False
    generator = torch.Generator().manual_seed(0)
    for count, first in probe.texts(shape[2]):
        tokens = torch.randn(1, shape[1], count, shape[3], generator=generator)
        tokens[:, :, 0] *= 1e-9  # as of a token of zeros
        try:
            found = [probe.compute(write.args[3], count, first, {states: tokens}) for write in (rows, scales)]  # type: ignore[arg-type]
        except LookupError:
            return False
        if not all(torch.equal(one, other) for one, other in zip(found, narrow_rows(tokens), strict=True)):
            return False
    return True


def _is_own(write: Node, attention: Node, program: CapturedProgram, probe: TextProbe) -> bool:
    """Whether a write goes to a buffer that is kept, which nothing but this attention reads."""
    buffer = write.args[0]
    if not isinstance(buffer, Node) or probe.buffers.get(buffer) not in {spec.name for spec in program.state}:
        return False
    shape = tuple(buffer.meta["val"].shape)
    others = [user for user in buffer.users if user is not write]
    return len(shape) == _RANK and shape[0] == 1 and _ends(others, None) and _ends([write], attention)


def _ends(nodes: Sequence[Node], attention: Node | None) -> bool:
    """Whether what is made of nodes, by views and by widening alone, reaches this attention or nothing."""
    pending = list(nodes)
    while pending:
        node = pending.pop()
        name = operator_name(node)
        if node is attention or name == CHECKS:
            continue
        if (name == _WRITES and node not in nodes) or name not in _VIEWS | _WIDENS | {_WRITES}:
            return False
        pending += node.users
    return True


def _window_of(mask: Node, writes: Sequence[Node], probe: TextProbe, context: int) -> int | None:
    """How many tokens back a causal text's attention sees, 0 for all; None where it is another one."""
    last = _seen(probe.compute(mask, 1, context - 1))
    window = 0 if bool(last.all()) else int(last.sum())
    for count, first in probe.texts(context):
        places = torch.arange(first, first + count)
        if any(not torch.equal(probe.compute(write.args[2], count, first), places) for write in writes):  # type: ignore[arg-type]
            return None
        found = _seen(probe.compute(mask, count, first))
        if found.shape[0] not in (1, count) or found.shape[1] < first + count:
            return None
        others = torch.arange(found.shape[1])
        expected = others[None] <= places[:, None]
        if window:
            expected &= others[None] > places[:, None] - window
        if not torch.equal(found.expand(count, -1), expected):
            return None
    return window


def _is_repeated(read: Node, kept: Kept, probe: TextProbe, heads: int) -> bool:
    """Whether what attention reads is the beginning of the cache, each head of it as often as heads share it."""
    shape = tuple(kept.rows.meta["val"].shape)
    cache = torch.arange(float(shape[0] * shape[1] * shape[2] * shape[3])).reshape(shape)
    known = {kept.rows: cache}
    if kept.scales is not None:
        generator = torch.Generator().manual_seed(0)
        scales = torch.rand(*shape[:3], 1, generator=generator)
        known = {kept.rows: (cache % 255 - 127).to(torch.int8), kept.scales: scales}
        cache = known[kept.rows].float() * scales
    for count, first in probe.texts(shape[2]):
        found = probe.compute(read, count, first, known)
        expected = cache[:, :, : found.shape[2]]
        if found.shape[1] != shape[1]:  # else the operator itself shares them: enable_gqa
            expected = expected.repeat_interleave(heads // shape[1], 1)
        if found.shape[2] < first + count or not torch.equal(found, expected):
            return False
    return True


def _seen(mask: torch.Tensor) -> torch.Tensor:
    """What a mask lets through, `[n, keys]`.

    Raises:
        ValueError: It weighs what it lets through, or differs from head to head.
    """
    flat = mask.reshape(-1, *mask.shape[-2:])
    if not bool((flat == flat[:1]).all()):
        raise ValueError("heads differ")
    if mask.dtype == torch.bool:
        return flat[0]
    # Where transformers' masks are floats, they hold the least one.
    if not bool(((flat[0] == 0) | (flat[0] <= -1e9)).all()):
        raise ValueError("a bias")
    return flat[0] == 0
