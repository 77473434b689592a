"""Convert whole numbers to floats, and scale them, before they are moved: delegates move floats and leave integers.

```
before:  moved = aten.permute.default(frame, [0, 3, 1, 2])            # frame: uint8[1, 640, 640, 3]
         floats = aten.to.dtype(moved, torch.float32)
         y = aten.div.Tensor(floats, 255)
after:   floats = aten.to.dtype(frame, torch.float32)
         scaled = aten.div.Tensor(floats, 255)
         y = aten.permute.default(scaled, [0, 3, 1, 2])
```

ExecuTorch's portable kernel moves one byte after the other, computing where each is from. What converts by itself
(`frame / 255`) is written out first. Left alone: what is read before it is moved or converted.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import named_arguments, operator_name
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rule, Rules, static, substitute

aten = torch.ops.aten

_MOVES = frozenset(
    f"aten::{name}"
    for name in ("permute", "transpose", "unsqueeze", "squeeze", "view", "reshape", "flatten", "movedim", "contiguous")
)
# Those that leave every number where it lies.
_VIEWS = frozenset(f"aten::{name}" for name in ("unsqueeze", "squeeze", "view", "reshape", "flatten", "contiguous"))
_CONVERSIONS = (aten.to.dtype, aten._to_copy.default)
_SCALES = (aten.div.Tensor, aten.mul.Tensor, aten.add.Tensor, aten.sub.Tensor)
_INTEGERS = frozenset((torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool))
# What torch.export puts before a conversion.
_CHECK = "aten::_assert_tensor_metadata"
_MOST_STEPS = 8
_NAME = "convert_early"
_DETAIL = "{count} conversion(s) and steps behind them ({operators}) come before what moves the numbers"


def convert_early(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such conversion; the same program comes back without one."""
    written: Rules = {target: Rule(_convert_first(target), where=_converts) for target in _SCALES}
    program, first = substitute(program, _NAME, written, "{count} {operators} of whole numbers in floats")
    conversions: Rules = {
        target: Rule(_replay, where=_moves_integers, operands=_conversion_and_moves) for target in _CONVERSIONS
    }
    program, rewrite = substitute(program, _NAME, conversions, _DETAIL)
    rewrite = rewrite or first
    scales: Rules = {target: Rule(_replay, where=_scales_moved, operands=_scale_and_moves) for target in _SCALES}
    for _ in range(_MOST_STEPS):
        program, found = substitute(program, _NAME, scales, _DETAIL)
        if found is None:
            break
        rewrite = rewrite or found
    return program, rewrite


def _convert_first(target: Any) -> Any:
    def write(x: torch.Tensor, number: Any, **_: Any) -> Any:
        return target(x.to(torch.float32), number)

    return lambda x, number, alpha=1: write(x, number) if alpha == 1 else NotImplemented


def _converts(node: Node) -> bool:
    """Whether an operator computes floats of whole numbers and a number."""
    return (
        isinstance(node.args[0], Node)
        and _dtype(node.args[0]) in _INTEGERS
        and isinstance(node.args[1], int | float)
        and _dtype(node) == torch.float32
    )


def _moves_integers(node: Node) -> bool:
    source, moves = _moved(_operand(node))
    return _dtype(node) == torch.float32 and _dtype(source) in _INTEGERS and _is_any_move(moves)


def _scales_moved(node: Node) -> bool:
    if not isinstance(node.args[0], Node) or not isinstance(node.args[1], int | float) or node.kwargs:
        return False
    source, moves = _moved(node.args[0])
    scaled = source
    while scaled.target in _SCALES and isinstance(scaled.args[0], Node) and not isinstance(scaled.args[1], Node):
        scaled = scaled.args[0]
    return (
        _is_read_once(source)
        and _dtype(node) == torch.float32
        and scaled.target in _CONVERSIONS
        and _dtype(_operand(scaled)) in _INTEGERS
        and _is_any_move(moves)
    )


def _conversion_and_moves(node: Node) -> tuple[Any, ...]:
    source, moves = _moved(_operand(node))
    return source, aten.to.dtype, [torch.float32], [(move.target, list(move.args[1:])) for move in moves]


def _scale_and_moves(node: Node) -> tuple[Any, ...]:
    source, moves = _moved(_operand(node))
    return source, node.target, [node.args[1]], [(move.target, list(move.args[1:])) for move in moves]


def _replay(value: torch.Tensor, first: Any, given: Any, moves: Any) -> torch.Tensor:
    value = first(value, *given)
    for target, arguments in moves:
        value = target(value, *arguments)
    return value


def _moved(node: Node) -> tuple[Node, list[Node]]:
    """Where the numbers of a node are from, and what moves them from there, in order; each is read once."""
    moves: list[Node] = []
    while operator_name(node) in _MOVES and _is_read_once(node) and not node.kwargs and _is_static(node):
        moves.append(node)
        node = _operand(node)
    return node, moves[::-1]


def _is_any_move(moves: list[Node]) -> bool:
    return any(operator_name(move) not in _VIEWS for move in moves)


def _is_read_once(node: Node) -> bool:
    return sum(operator_name(user) != _CHECK for user in node.users) == 1


def _is_static(node: Node) -> bool:
    return static(*node.meta["val"].shape)


def _operand(node: Node) -> Node:
    """The tensor that a conversion, a scale or a move reads."""
    value = next(iter(named_arguments(node).values()))
    assert isinstance(value, Node)
    return value


def _dtype(node: Node) -> Any:
    return getattr(node.meta.get("val"), "dtype", None)
