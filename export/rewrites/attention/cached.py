"""Attention over a cache that forward writes first, as one operator, for engines that have a kernel for it.

```
before:  keys   = aten.index_copy_.default(key_cache, 2, places, k)               # values likewise
         seen   = aten.narrow.default(keys, 2, 0, length)                         # or all of it
         every  = aten.reshape.default(aten.expand.default(aten.unsqueeze.default(seen, 2), …), …)   # for shared heads
         y      = aten.scaled_dot_product_attention.default(q, every, …, mask)
after:   y, keys, values = edgex.cached_attention.default(q, k, v, key_cache, value_cache, end, scale, window)
         aten.copy_.default(key_cache, keys)                                      # values likewise
```

What the mask lets through and where the cache is written is not recognised by its operators: both are computed for
some lengths and positions, and have to be those of a causal text, or of one with a window.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.export.graph_signature import InputKind
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.attention.cached import attention_operator
from edgex.delegates.graph.schema import named_arguments, operator_name
from edgex.export.rewrites.base import Rewrite, locations_of
from edgex.export.rewrites.editing.editor import ProgramEditor, constant_tensors, placeholders
from edgex.runtime.artifact.language_model import POSITION, TOKENS
from edgex.runtime.artifact.specs import Dim

_WRITES = "aten::index_copy_"
_RANK = 4
# What may lie between a cache and the attention that reads it; what they come to is computed too.
_VIEWS = frozenset(
    f"aten::{name}"
    for name in ("narrow", "slice", "unsqueeze", "expand", "reshape", "view", "flatten", "alias", "repeat_interleave")
)


@dataclass(frozen=True)
class _Found:
    """An attention with the cache that it reads: the writes, and how many tokens back it sees, 0 for all."""

    node: Node
    keys: Node
    values: Node
    window: int


def write_cached_attention(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Rewrite every such attention; the same program comes back where there is none, or it is no language model."""
    given = {spec.name: spec for spec in program.inputs}
    if set(given) != {TOKENS, POSITION} or not program.state:
        return program, None
    probe = _Probe(program)
    found = [one for node in program.exported.graph.nodes if (one := _find(node, program, probe)) is not None]
    if not found:
        return program, None
    editor = ProgramEditor(program)
    end = _make_end(editor, probe)
    for one in found:
        _write(editor, one, end)
    editor.graph.eliminate_dead_code()
    detail = f"{len(found)} attention operator(s) read and write their cache in one kernel"
    nodes = [one.node for one in found]
    return editor.finish(), Rewrite(
        "write_cached_attention", len(found), detail, locations_of(nodes, program.source_root)
    )


class _Probe:
    """Computes parts of a program for lengths and positions of a text."""

    def __init__(self, program: CapturedProgram) -> None:
        kinds = placeholders(program.exported)
        users = [node for node, spec in kinds if spec.kind is InputKind.USER_INPUT]
        by_name = dict(zip((spec.name for spec in program.inputs), users, strict=True))
        self.position, self.tokens = by_name[POSITION], by_name[TOKENS]
        self.buffers = {node: str(spec.target) for node, spec in kinds if spec.kind is InputKind.BUFFER}
        self._constants = constant_tensors(program)
        chunk = next(spec.shape[1] for spec in program.inputs if spec.name == TOKENS)
        self._longest = chunk.max if isinstance(chunk, Dim) else int(chunk)
        self._known: dict[tuple[int, int], dict[Node, Any]] = {}

    def texts(self, context: int) -> list[tuple[int, int]]:
        """How many tokens, and the first one's position: the ends of what is possible, and between them."""
        longest = min(self._longest, context)
        pairs = [(longest, 0), (1, 0), (1, context - 1), (longest, context - longest), (1, context // 2), (longest, 1)]
        return [pair for pair in dict.fromkeys(pairs) if sum(pair) <= context]

    def compute(self, node: Node, count: int, first: int, besides: Mapping[Node, Any] | None = None) -> Any:
        """The value of a node.

        Args:
            node: Of the program.
            count: How many tokens there are.
            first: The first one's position.
            besides: Values of other nodes, which are not computed.

        Raises:
            LookupError: It depends on more than the text's length and position.
            Exception: An operator refuses these sizes.
        """
        known = self._known.setdefault((count, first), self._given(count, first))
        known = known if besides is None else {**known, **besides}
        pending = [node]
        while pending:
            at = pending[-1]
            missing = [one for one in at.all_input_nodes if one not in known] if at not in known else []
            if at in known or not missing:
                pending.pop()
                if at not in known:
                    if at.op != "call_function":
                        raise LookupError(at.name)
                    args, kwargs = torch.fx.map_arg((at.args, at.kwargs), known.__getitem__)
                    known[at] = at.target(*args, **kwargs)  # type: ignore[operator]  # an operator's call
            else:
                pending += missing
        return known[node]

    def _given(self, count: int, first: int) -> dict[Node, Any]:
        tokens, position = torch.zeros(1, count, dtype=torch.int64), torch.tensor([first])
        return {**self._constants, self.tokens: tokens, self.position: position}


def _find(node: Node, program: CapturedProgram, probe: _Probe) -> _Found | None:
    if operator_name(node) != "aten::scaled_dot_product_attention":
        return None
    given = named_arguments(node)
    mask = given["attn_mask"]
    if given["dropout_p"] or given["is_causal"] or not isinstance(mask, Node):
        return None
    query = given["query"].meta["val"]
    writes = [_writer_of(given[name]) for name in ("key", "value")]
    if query.dtype != torch.float32 or query.dim() != _RANK or None in writes:
        return None
    keys, values = (write for write in writes if write is not None)
    if keys is values or not all(_is_own(write, node, program, probe) for write in (keys, values)):
        return None
    shapes = [tuple(write.args[0].meta["val"].shape) for write in (keys, values)]  # type: ignore[union-attr]
    if shapes[0][:3] != shapes[1][:3] or query.shape[1] % shapes[0][1] or query.shape[3] != shapes[0][3]:
        return None
    try:
        if not all(
            _is_repeated(given[name], write, probe, query.shape[1])
            for name, write in zip(("key", "value"), (keys, values), strict=True)
        ):
            return None
        window = _window_of(mask, [keys, values], probe, shapes[0][2])
    except Exception:  # sizes or values that another text's attention does not have: it stays as it is
        return None
    return None if window is None else _Found(node, keys, values, window)


def _writer_of(value: Any) -> Node | None:
    """The write to a whole cache `[1, shared, context, size]` whose beginning, repeated or not, the value is."""
    while isinstance(value, Node):
        name = operator_name(value)
        if name == _WRITES:
            return value if value.args[1] == 2 else None
        if name not in _VIEWS:
            return None
        value = value.args[0]
    return None


def _is_own(write: Node, attention: Node, program: CapturedProgram, probe: _Probe) -> bool:
    """Whether a write goes to a buffer that is kept, which nothing but this attention reads."""
    buffer = write.args[0]
    if not isinstance(buffer, Node) or probe.buffers.get(buffer) not in {spec.name for spec in program.state}:
        return False
    shape = tuple(buffer.meta["val"].shape)
    others = [user for user in buffer.users if user is not write]
    return len(shape) == _RANK and shape[0] == 1 and _ends(others, None) and _ends([write], attention)


def _ends(nodes: Sequence[Node], attention: Node | None) -> bool:
    """Whether what is made of nodes, by views alone, reaches this attention or nothing."""
    pending = list(nodes)
    while pending:
        node = pending.pop()
        if node is attention:
            continue
        if operator_name(node) not in (*_VIEWS, _WRITES) or (operator_name(node) == _WRITES and node not in nodes):
            return False
        pending += node.users
    return True


def _window_of(mask: Node, writes: Sequence[Node], probe: _Probe, context: int) -> int | None:
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


def _is_repeated(read: Node, write: Node, probe: _Probe, heads: int) -> bool:
    """Whether what attention reads is the beginning of the cache, each head of it as often as heads share it."""
    shape = tuple(write.meta["val"].shape)
    cache = torch.arange(float(shape[0] * shape[1] * shape[2] * shape[3])).reshape(shape)
    for count, first in probe.texts(shape[2]):
        found = probe.compute(read, count, first, {write: cache})
        expected = cache[:, :, : found.shape[2]].repeat_interleave(heads // shape[1], 1)
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


def _make_end(editor: ProgramEditor, probe: _Probe) -> Node:
    """How many tokens the cache holds after the call: one value for all layers."""
    tokens, position = editor.node(probe.tokens), editor.node(probe.position)
    body = next(node for node in editor.graph.nodes if node.op != "placeholder")
    with editor.graph.inserting_before(body):
        count = editor.graph.call_function(torch.ops.aten.sym_size.int, (tokens, 1))
        end = editor.graph.call_function(torch.ops.aten.add.Tensor, (position, count))
    count.meta = {"val": tokens.meta["val"].shape[1]}
    end.meta = {"val": position.meta["val"]}
    return end


def _write(editor: ProgramEditor, found: _Found, end: Node) -> None:
    graph, node = editor.graph, editor.node(found.node)
    keys, values = editor.node(found.keys), editor.node(found.values)
    given = named_arguments(node)
    scale = given["scale"] if given["scale"] is not None else float(given["query"].meta["val"].shape[-1]) ** -0.5
    arguments = (
        given["query"], keys.args[3], values.args[3], keys.args[0], values.args[0],
        end, float(scale), found.window,
    )  # fmt: skip
    with graph.inserting_before(node):
        call = graph.call_function(attention_operator(), arguments)
        parts = [graph.call_function(operator.getitem, (call, index)) for index in range(3)]
        copies = [
            graph.call_function(torch.ops.aten.copy_.default, (write.args[0], part))
            for write, part in zip((keys, values), parts[1:], strict=True)
        ]
    caches = [write.args[0].meta["val"] for write in (keys, values)]  # type: ignore[union-attr]
    _describe(node, {call: (node.meta["val"], *caches)})
    _describe(node, dict(zip((*parts, *copies), (node.meta["val"], *caches, *caches), strict=True)))
    node.replace_all_uses_with(parts[0])
    graph.erase_node(node)
    # Some models say the shape once more, which would part two transposes.
    for user in [user for user in parts[0].users if operator_name(user) in ("aten::reshape", "aten::view")]:
        if user.meta["val"].shape == node.meta["val"].shape:
            user.replace_all_uses_with(parts[0])
            graph.erase_node(user)
    for write in (keys, values):
        _erase(graph, write)


def _describe(origin: Node, values: Mapping[Node, Any]) -> None:
    for node, value in values.items():
        node.meta = {**origin.meta, "val": value}


def _erase(graph: Any, write: Node) -> None:
    """Erase a write and the views of it that nothing reads."""
    for user in list(write.users):
        _erase(graph, user)
    graph.erase_node(write)
