"""Attention over a cache that forward writes first, as one operator, for engines that have a kernel for it.

```
before:  keys   = aten.index_copy_.default(key_cache, 2, places, k)               # values likewise
         seen   = aten.narrow.default(keys, 2, 0, length)                         # or all of it
         every  = aten.reshape.default(aten.expand.default(aten.unsqueeze.default(seen, 2), …), …)   # for shared heads
         y      = aten.scaled_dot_product_attention.default(q, every, …, mask)
after:   y, keys, values = edgex.cached_attention.default(q, k, v, key_cache, value_cache, end, scale, window)
         aten.copy_.default(key_cache, keys)                                      # values likewise
```

A cache in 8 bits has the scale of each token's row beside it (`--kv int8`):

```
before:  rows   = aten.index_copy_.default(key_cache, 2, places, round(k / scale).to(int8))
         scales = aten.index_copy_.default(key_scales, 2, places, scale)          # scale = max(abs(k), 1e-6) / 127
         seen   = aten.mul.Tensor(narrow(rows).to(float32), narrow(scales))
after:   y, rows, …, scales, … = edgex.cached_attention_int8.default(q, k, v, key_cache, value_cache, key_scales, …)
```
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.attention.cached import attention_operator, attention_operator_int8
from edgex.delegates.graph.schema import named_arguments, operator_name
from edgex.export.rewrites.attention.cached_reads import CHECKS, NARROWS, CachedRead, find_cached_read
from edgex.export.rewrites.attention.text_probe import TextProbe
from edgex.export.rewrites.base import Rewrite, locations_of
from edgex.export.rewrites.editing.editor import ProgramEditor
from edgex.runtime.artifact.language_model import POSITION, TOKENS


def write_cached_attention(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Rewrite every such attention over float32; the same program comes back where there is none."""
    return _rewrite(program, "write_cached_attention", eight_bits=False)


def write_cached_attention_int8(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Rewrite every such attention over a cache in 8 bits; the same program comes back where there is none."""
    return _rewrite(program, "write_cached_attention_int8", eight_bits=True)


def _rewrite(program: CapturedProgram, name: str, *, eight_bits: bool) -> tuple[CapturedProgram, Rewrite | None]:
    given = {spec.name: spec for spec in program.inputs}
    if set(given) != {TOKENS, POSITION} or not program.state:
        return program, None
    probe = TextProbe(program)
    reads = [
        one for node in program.exported.graph.nodes if (one := find_cached_read(node, program, probe)) is not None
    ]
    found = [one for one in reads if (one.keys.scales is not None) == eight_bits]
    if not found:
        return program, None
    editor = ProgramEditor(program)
    end = _make_end(editor, probe)
    for one in found:
        _write(editor, one, end)
    editor.graph.eliminate_dead_code()
    bits = " of 8 bits" if eight_bits else ""
    detail = f"{len(found)} attention operator(s) read and write their cache{bits} in one kernel"
    nodes = [one.node for one in found]
    return editor.finish(), Rewrite(name, len(found), detail, locations_of(nodes, program.source_root))


def _make_end(editor: ProgramEditor, probe: TextProbe) -> Node:
    """How many tokens the cache holds after the call: one value for all layers."""
    tokens, position = editor.node(probe.tokens), editor.node(probe.position)
    body = next(node for node in editor.graph.nodes if node.op != "placeholder")
    with editor.graph.inserting_before(body):
        count = editor.graph.call_function(torch.ops.aten.sym_size.int, (tokens, 1))
        end = editor.graph.call_function(torch.ops.aten.add.Tensor, (position, count))
    count.meta = {"val": tokens.meta["val"].shape[1]}
    end.meta = {"val": position.meta["val"]}
    return end


def _write(editor: ProgramEditor, found: CachedRead, end: Node) -> None:
    graph, node = editor.graph, editor.node(found.node)
    kept = (found.keys, found.values)
    given = named_arguments(node)
    scale = given["scale"] if given["scale"] is not None else float(given["query"].meta["val"].shape[-1]) ** -0.5
    # All rows, then all scales.
    writes = [editor.node(write) for column in zip(*(one.writes for one in kept), strict=True) for write in column]
    buffers: list[Any] = [write.args[0] for write in writes]
    states = [editor.node(one.states) for one in kept]
    target = attention_operator() if found.keys.scales is None else attention_operator_int8()
    with graph.inserting_before(node):
        call = graph.call_function(target, (given["query"], *states, *buffers, end, float(scale), found.window))
        parts = [graph.call_function(operator.getitem, (call, index)) for index in range(1 + len(writes))]
        copies = [
            graph.call_function(torch.ops.aten.copy_.default, (buffer, part))
            for buffer, part in zip(buffers, parts[1:], strict=True)
        ]
    caches = [buffer.meta["val"] for buffer in buffers]
    _describe(node, {call: (node.meta["val"], *caches)})
    _describe(node, dict(zip((*parts, *copies), (node.meta["val"], *caches, *caches), strict=True)))
    node.replace_all_uses_with(parts[0])
    graph.erase_node(node)
    # Some models say the shape once more, which would part two transposes.
    for user in [user for user in parts[0].users if operator_name(user) in ("aten::reshape", "aten::view")]:
        if user.meta["val"].shape == node.meta["val"].shape:
            user.replace_all_uses_with(parts[0])
            graph.erase_node(user)
    for write in writes:
        made = write.args[3]
        _erase(graph, write)
        _erase_checks(graph, made)


def _describe(origin: Node, values: Mapping[Node, Any]) -> None:
    for node, value in values.items():
        node.meta = {**origin.meta, "val": value}


def _erase(graph: Any, write: Node) -> None:
    """Erase a write and what was made of it, which nothing reads."""
    for user in list(write.users):
        _erase(graph, user)
    graph.erase_node(write)


def _erase_checks(graph: Any, made: Any) -> None:
    """Erase checks of dtypes on the way to what was written, which would keep it alive."""
    while isinstance(made, Node) and operator_name(made) in NARROWS:
        for user in [user for user in made.users if operator_name(user) == CHECKS]:
            graph.erase_node(user)
        made = made.args[0]
