"""Leave out what gives its input back: dropout that is off, conversion to the same dtype, repetition of nothing.

```
before:  x = aten.permute.default(frames, [0, 2, 1]); y = aten.dropout.default(x, 0.1, False); z = aten.add(y, table)
after:   x = aten.permute.default(frames, [0, 2, 1]); z = aten.add(x, table)

before:  y = aten.expand.default(norm, [1, 9, 8]); z = aten.div.Tensor(x, y)            # norm: [1, 9, 1], x: [1, 9, 8]
after:   z = aten.div.Tensor(x, norm)                            # which repeats it by itself; `repeat` of 1 is alike

before:  y = aten.repeat.default(aten.expand.default(mask, [2, 9, 9]), [2, 1, 1])        # mask: [2, 1, 9]
         z = aten.masked_fill.Scalar(scores, y, -inf)                                    # scores: [4, 9, 9]
after:   z = aten.masked_fill.Scalar(scores, aten.repeat.default(mask, [2, 1, 1]), -inf)

before:  y = aten.cat.default([none, keys], -2)          # none: [0]; the first step of a cache
after:   y = keys                                        # ExecuTorch stores no empty constant

before:  y = aten.alias.default(images); z = aten.relu.default(y)                        # images[:, :24], all channels
after:   z = aten.relu.default(images)

before:  y = aten.contiguous.default(volume, memory_format=torch.channels_last_3d)
after:   y = aten.clone.default(volume, memory_format=torch.contiguous_format)           # ExecuTorch has images' alone
```

Lowering makes copies of them, and ExecuTorch 1.5 fails at a copy of a permuted tensor of three dimensions: at the
dropout of every Whisper and DETR. Left alone: what is written to, and what the program returns.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.mutation import mutated_nodes
from edgex.export.rewrites.editing.substitution import Rule, Rules, static, substitute

aten = torch.ops.aten

_CONVERSIONS = (
    *(aten.to.dtype, aten.to.dtype_layout, aten.to.other, aten.type_as.default, aten.detach.default),
    aten.alias.default,
)
_DROPOUTS = (aten.dropout.default, aten.feature_dropout.default, aten.alpha_dropout.default)
_REPETITIONS = (aten.expand.default, aten.repeat.default)
_COPIES = (aten.contiguous.default, aten.clone.default)
# They repeat their operands by themselves.
_OF_TWO = (
    *(aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor),
    *(aten.maximum.default, aten.minimum.default, aten.masked_fill.Scalar),
    *(aten.where.self, aten.where.ScalarOther, aten.where.ScalarSelf),
    *(aten.eq.Tensor, aten.ne.Tensor, aten.lt.Tensor, aten.le.Tensor, aten.gt.Tensor, aten.ge.Tensor),
)


def drop_identities(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Leave out every such operator; the same program comes back without one."""
    written = mutated_nodes(program.exported)

    def is_read(node: Node) -> bool:
        source = node.args[0]
        inside = isinstance(source, Node) and source not in written
        return inside and all(user.op == "call_function" for user in node.users)

    # By name: operands are asked of the edited graph, too.
    names = frozenset(node.name for node in written)
    rules: Rules = {
        **{operator: Rule(_dropped, where=is_read) for operator in _DROPOUTS},
        **{operator: Rule(_converted, where=is_read) for operator in _CONVERSIONS},
        **dict.fromkeys(_COPIES, _in_order),
        aten.cat.default: Rule(_joined, where=lambda node: _joins_nothing(node, written)),
        aten.expand.default: Rule(_repeated, where=is_read, operands=lambda node: _with_readers(names, node)[:3]),
        aten.repeat.default: Rule(_tiled, where=is_read, operands=lambda node: _with_readers(names, node)),
    }
    return substitute(
        program, "drop_identities", rules, "{count} operator(s) ({operators}) that do nothing are left out"
    )


def _dropped(x: torch.Tensor, p: float, train: bool) -> Any:
    del p
    return NotImplemented if train else x


def _converted(x: torch.Tensor, *asked: Any) -> Any:
    dtypes = [one.dtype if isinstance(one, torch.Tensor) else one for one in asked]
    wanted = next((one for one in dtypes if isinstance(one, torch.dtype)), x.dtype)
    if wanted == x.dtype:
        return x
    return aten.to.dtype(x, wanted) if torch.channels_last_3d in asked else NotImplemented


def _in_order(x: torch.Tensor, memory_format: torch.memory_format | None) -> Any:
    if memory_format is not torch.channels_last_3d:
        return NotImplemented
    return aten.clone.default(x, memory_format=torch.contiguous_format)


def _joins_nothing(node: Node, written: set[Node]) -> bool:
    """Whether some operands are empty, and what is left may be read in the result's place."""
    operands = [one for one in node.args[0] if isinstance(one, Node)]  # type: ignore[union-attr]
    filled = [one for one in operands if not _is_empty(one.meta["val"])]
    if not filled or len(filled) == len(operands):
        return False
    single = len(filled) == 1
    return not single or (filled[0] not in written and all(user.op == "call_function" for user in node.users))


def _is_empty(x: torch.Tensor) -> bool:
    return static(*x.shape) and x.numel() == 0


def _joined(tensors: Sequence[torch.Tensor], dim: int) -> Any:
    filled = [one for one in tensors if not _is_empty(one)]
    if len({one.dtype for one in tensors}) > 1:
        return NotImplemented  # an empty operand has its say in the result's dtype
    return filled[0] if len(filled) == 1 else torch.cat(filled, dim)


def _with_readers(written: Set[str], node: Node) -> tuple[Any, ...]:
    """What is repeated, how often, whether all readers do so themselves, and whether a repetition ahead goes, too."""
    source, by_readers = node.args[0], _is_repeated_by_readers(node)
    while by_readers and isinstance(source, Node) and source.target in _REPETITIONS:
        if not (_leaves_to_readers(source, node) and _is_repeated_by_readers(source)):
            break
        ahead = source.args[0]
        if not isinstance(ahead, Node) or ahead.name in written:
            break
        source = ahead
    return source, node.args[1], by_readers, source is not node.args[0]


def _is_repeated_by_readers(node: Node) -> bool:
    """Whether all that read a repetition repeat by themselves; what they read beside it is as large."""

    def repeats(user: Node) -> bool:
        if user.target in _REPETITIONS:  # of a repetition: `mask.expand(-1, 9, -1).repeat(2, 1, 1)`
            return _leaves_to_readers(node, user) and _is_repeated_by_readers(user)
        whole = node.meta["val"].shape
        # Two that are repeated would both count on the other.
        others = [arg for arg in user.all_input_nodes if arg is not node and arg.target not in _REPETITIONS]
        shapes = [getattr(other.meta["val"], "shape", ()) for other in others]
        # Comparing a dynamic size would fix it.
        same = (static(*shape) and len(shape) == len(whole) and tuple(shape) == tuple(whole) for shape in shapes)
        return user.target in _OF_TWO and static(*whole) and any(same)

    return bool(node.users) and all(map(repeats, node.users))


def _leaves_to_readers(node: Node, user: Node) -> bool:
    """Whether a repetition of a repetition, which its readers repeat, gives the same without the first one."""
    (source, *_), by = node.args, user.args[1]
    before, after = (list(one.meta["val"].shape) for one in (source, node) if isinstance(one, Node))
    if not isinstance(by, Sequence) or not static(*before, *after, *by):
        return False
    before, by = [1] * (len(after) - len(before)) + before, list(by)[len(by) - len(after) :]
    grown = [old != new for old, new in zip(before, after, strict=True)]
    if any(old != 1 for old, is_grown in zip(before, grown, strict=True) if is_grown):
        return False  # more than one element: no reader repeats those
    if user.target is aten.expand.default:  # to sizes
        return True
    return all(times == 1 for times, is_grown in zip(by, grown, strict=True) if is_grown)


def _is_single(shape: Sequence[int], repeats: Sequence[Any]) -> bool:
    """Whether `repeat` repeats nothing but dimensions of one element."""
    sizes = [1] * (len(repeats) - len(shape)) + list(shape)
    return all(size == 1 or by == 1 for size, by in zip(sizes, repeats, strict=True))


def _repeated(x: torch.Tensor, size: Sequence[int], by_readers: bool) -> Any:
    if not static(*x.shape, *size):
        return NotImplemented
    same = len(size) == x.dim() and all(new in (-1, old) for new, old in zip(size, x.shape, strict=True))
    return _with_dimensions(x, len(size)) if same or by_readers else NotImplemented


def _tiled(x: torch.Tensor, repeats: Sequence[int], by_readers: bool, is_behind: bool) -> Any:
    """`repeat`, which is `expand` where dimensions of one element are repeated; readers do that by themselves."""
    if not static(*x.shape, *repeats) or not all(by > 0 for by in repeats):
        return NotImplemented
    single = _is_single(x.shape, repeats)
    same = len(repeats) == x.dim() and all(by == 1 for by in repeats)
    if same or (single and by_readers):
        return _with_dimensions(x, len(repeats))
    return x.repeat(repeats) if is_behind else NotImplemented


def _with_dimensions(x: torch.Tensor, count: int) -> torch.Tensor:
    """With dimensions of one element ahead, as many as are missing."""
    return x if x.dim() == count else x.reshape([1] * (count - x.dim()) + list(x.shape))
