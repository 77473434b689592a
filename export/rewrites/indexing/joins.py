"""Parts of a tensor that a program writes, joined: engines have no operator that writes into a copy.

```
before:  y = aten.copy.default(aten.slice.Tensor(x, 3, 0, 34), source)          # source: [1, 22, 1, 34]
         z = aten.slice_scatter.default(x, y, 3, 0, 34)                         # x: [1, 22, 7, 64]
after:   y = source.expand([1, 22, 7, 34])
         z = aten.cat.default([y, aten.slice.Tensor(x, 3, 34, 64)], 3)
```

`x[..., :34] = source` and `x[..., :34].copy_(source)` are the former, once operators return what they would write.
torch's translation to ONNX forgets that the source is repeated. Left alone: slices with steps, or along a dimension
whose size only a run knows, and programs with state, whose buffers are written in place.

What a loop writes step by step is joined once, and a step that reads what an earlier one wrote reads that:

```
before:  y1 = aten.select_scatter.default(y0, a, 1, 0)                          # y[:, 0] = a
         b  = aten.mul.Tensor(aten.select.int(y1, 1, 0), 2)
         y2 = aten.select_scatter.default(y1, b, 1, 1)                          # y[:, 1] = y[:, 0] * 2
after:   b  = aten.mul.Tensor(a, 2)
         y2 = aten.cat.default([a.unsqueeze(1), b.unsqueeze(1), aten.slice.Tensor(y0, 1, 2, 64)], 1)
```

ExecuTorch would compare every place of the whole tensor with the step's, in each step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import named_arguments, operator_name
from edgex.export.rewrites.base import Rewrite, locations_of
from edgex.export.rewrites.editing.building import Replacement
from edgex.export.rewrites.editing.editor import ProgramEditor
from edgex.export.rewrites.editing.mutation import mutated_nodes
from edgex.export.rewrites.editing.substitution import Rules, static, substitute

aten = torch.ops.aten


@dataclass(frozen=True)
class _Part:
    """Where a piece of a joined tensor comes from.

    Attributes:
        source: The tensor.
        size: Of the piece, along the joined dimension.
        start: Where it begins in `source`; None where `source` is one place, without that dimension.
    """

    source: Node
    size: int
    start: int | None


@dataclass(frozen=True)
class _Write:
    """What a write gives: its parts along a dimension, in order."""

    dim: int
    parts: tuple[_Part, ...]

    def within(self, start: int, end: int) -> Iterator[_Part]:
        """The parts, or what is left of them, from `start` up to `end`."""
        first = 0
        for part in self.parts:
            low, high = max(start, first), min(end, first + part.size)
            if low < high:
                yield part if part.start is None else _Part(part.source, high - low, part.start + low - first)
            first += part.size


def join_steps(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Join what is written place by place, once; the same program comes back without it, and with state."""
    if program.state:
        return program, None
    written = mutated_nodes(program.exported)
    writes: dict[Node, _Write] = {}
    for node in program.exported.graph.nodes:
        if written.isdisjoint((node, *node.all_input_nodes)) and (write := _read_write(node, writes)) is not None:
            writes[node] = write
    if not any(operator_name(node) == "aten::select_scatter" or node.args[0] in writes for node in writes):
        return program, None
    editor = ProgramEditor(program)
    current: dict[Node, Node] = {}
    for node, write in writes.items():
        left = []
        for user in list(node.users):
            part = _read_part(user, write)
            if part is not None:
                reader = Replacement(editor, user)
                value = _take(reader, part, write.dim, current, keepdim=operator_name(user) == "aten::slice")
                # An output has memory of its own: what was written may be an input, or another output.
                returned = any(later.op == "output" for later in user.users)
                current[user] = reader.call(aten.clone.default, value) if returned else value
                reader.finish(current[user])
            elif not _continues(user, node, writes):
                left.append(user)
        if left:
            step = Replacement(editor, node)
            pieces = [_take(step, part, write.dim, current, keepdim=True) for part in write.parts]
            current[node] = step.call(aten.cat.default, pieces, write.dim)
            step.finish(current[node])
    detail = f"{len(writes)} place(s) that are written one after another are joined once"
    return editor.finish(), Rewrite("join_steps", len(writes), detail, locations_of(writes, program.source_root))


def _read_write(node: Node, writes: Mapping[Node, _Write]) -> _Write | None:
    """A write of fixed places into a dimension of fixed size; its parts go on from those of the write before."""
    name = operator_name(node)
    if name not in ("aten::select_scatter", "aten::slice_scatter"):
        return None
    given = named_arguments(node)
    base, source = given["self"], given["src"]
    shape = base.meta["val"].shape
    dim = given["dim"] % len(shape)
    size = shape[dim]
    ends = [given["index"]] if "index" in given else [given["start"] or 0, given["end"] or 0, given["step"]]
    if not static(size, *ends) or base.meta["val"].dtype != source.meta["val"].dtype:
        return None
    if "index" in given:
        first, last = given["index"] % size, given["index"] % size + 1
        part = _Part(source, 1, None)
    else:
        first, last, step = slice(given["start"], given["end"], given["step"]).indices(size)
        part = _Part(source, last - first, 0)
        if step != 1 or last <= first:
            return None
    if not _alike(
        source.meta["val"].shape, [*shape[:dim], *([] if part.start is None else [last - first]), *shape[dim + 1 :]]
    ):
        return None
    before = writes.get(base)
    if before is None or before.dim != dim or _is_read_whole(base, before, node):
        before = _Write(dim, (_Part(base, size, 0),))
    return _Write(dim, (*before.within(0, first), part, *before.within(last, size)))


def _is_read_whole(node: Node, write: _Write, but: Node) -> bool:
    """Whether something other than one more write needs the joined tensor, so that it is there anyway."""
    return any(user is not but and _read_part(user, write) is None for user in node.users)


def _continues(user: Node, node: Node, writes: Mapping[Node, _Write]) -> bool:
    """Whether a user is a write whose parts are those of `node`, so that it does not read it."""
    return user in writes and user.args[0] is node and all(part.source is not node for part in writes[user].parts)


def _read_part(user: Node, write: _Write) -> _Part | None:
    """The one part that a `select` or `slice` along the joined dimension reads; None for any other reader."""
    name = operator_name(user)
    if name not in ("aten::select", "aten::slice"):
        return None
    given = named_arguments(user)
    size = sum(part.size for part in write.parts)
    if given["dim"] % given["self"].meta["val"].dim() != write.dim:
        return None
    if name == "aten::select":
        if not static(given["index"]):
            return None
        first, last, step = given["index"] % size, given["index"] % size + 1, 1
    elif static(given["start"] or 0, given["end"] or 0, given["step"]):
        first, last, step = slice(given["start"], given["end"], given["step"]).indices(size)
    else:
        return None
    parts = list(write.within(first, last)) if step == 1 and first < last else []
    return parts[0] if len(parts) == 1 else None


def _take(step: Replacement, part: _Part, dim: int, current: Mapping[Node, Node], *, keepdim: bool) -> Node:
    """A part as an operand, with the joined dimension or, of one place, without it."""
    source = current.get(part.source, step.read(part.source))
    if part.start is None:
        return step.call(aten.unsqueeze.default, source, dim) if keepdim else source
    if not keepdim:
        return step.call(aten.select.int, source, dim, part.start)
    if part.start == 0 and part.size == part.source.meta["val"].shape[dim]:
        return source
    return step.call(aten.slice.Tensor, source, dim, part.start, part.start + part.size)


def join_writes(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Join every such part with what it lies in; the same program comes back without one, and with state."""
    if program.state:
        return program, None
    rules: Rules = {aten.copy.default: _copied, aten.slice_scatter.default: _joined}
    return substitute(program, "join_writes", rules, "{count} part(s) that are written ({operators}) are joined")


def _copied(x: torch.Tensor, source: torch.Tensor, _non_blocking: bool) -> Any:
    if _alike(x.shape, source.shape) and x.dtype == source.dtype:
        return source.clone()  # it may be an input, which is no result
    return source.to(x.dtype).expand(x.shape)


def _joined(x: torch.Tensor, source: torch.Tensor, dim: int, start: int | None, end: int | None, step: int) -> Any:
    if not static(x.shape[dim]) or not static(start or 0, end or 0) or step != 1 or x.dtype != source.dtype:
        return NotImplemented
    size = x.shape[dim]
    first, last, _ = slice(start, end).indices(size)
    if last <= first:
        return NotImplemented
    whole = list(x.shape)
    whole[dim] = last - first
    middle = source if _alike(source.shape, whole) else source.expand(whole)
    parts = [
        part for part in (x.narrow(dim, 0, first), middle, x.narrow(dim, last, size - last)) if part.shape[dim] > 0
    ]
    return torch.cat(parts, dim) if len(parts) > 1 else middle.clone()


def _alike(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether both are the same sizes, those that only a run knows by the same symbols."""
    return [str(size) for size in one] == [str(size) for size in other]
