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
(`frame / 255`) is written out first. Means and deviations of channels are moved back, and repeated along a row.
Left alone: what is read before it is moved or converted.
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
_MOST_CHANNELS = 1_024
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
    if not isinstance(node.args[0], Node):  # a constant of one number may be a literal by now
        return False
    source, moves = _moved(_operand(node))
    return _dtype(node) == torch.float32 and _dtype(source) in _INTEGERS and _is_any_move(moves)


def _scales_moved(node: Node) -> bool:
    if node.kwargs or not isinstance(node.args[0], Node) or _dtype(node) != torch.float32:
        return False
    source, moves = _moved(node.args[0])
    number = node.args[1]
    if isinstance(number, Node) and not (_is_small(number, node) and _order(source, moves)):
        return False
    scaled = source
    while scaled.target in _SCALES and isinstance(scaled.args[0], Node):
        scaled = scaled.args[0]
    return (
        _is_read_once(source)
        and scaled.target in _CONVERSIONS
        and _dtype(_operand(scaled)) in _INTEGERS
        and _is_any_move(moves)
    )


def _is_small(number: Node, node: Node) -> bool:
    """Whether an operand is the same for all or most of the numbers."""
    value, result = number.meta["val"], node.meta["val"]
    return bool(
        _dtype(number) == torch.float32
        and static(*value.shape, *result.shape)
        and result.shape == _operand(node).meta["val"].shape
        and value.numel() <= _MOST_CHANNELS
    )


def _order(source: Node, moves: list[Node]) -> list[int]:
    """Which dimension of the source each of the result's is, -1 for a new one; none where a move does more."""
    order = list(range(source.meta["val"].dim()))
    for move in moves:
        name, given = operator_name(move), list(named_arguments(move).values())[1:]
        if name == "aten::permute":
            order = [order[dim] for dim in given[0]]
        elif name == "aten::transpose":
            first, second = given
            order[first], order[second] = order[second], order[first]
        elif name == "aten::unsqueeze":
            order.insert(given[0] % (len(order) + 1), -1)
        else:
            return []
    return order


def _conversion_and_moves(node: Node) -> tuple[Any, ...]:
    source, moves = _moved(_operand(node))
    return source, aten.to.dtype, torch.float32, [], _calls(moves)


def _scale_and_moves(node: Node) -> tuple[Any, ...]:
    source, moves = _moved(_operand(node))
    return source, node.target, node.args[1], _order(source, moves), _calls(moves)


def _calls(moves: list[Node]) -> list[tuple[Any, list[Any]]]:
    return [(move.target, list(move.args[1:])) for move in moves]


def _replay(value: torch.Tensor, first: Any, given: Any, order: list[int], moves: Any) -> torch.Tensor:
    """The first step of the source, then the moves; a tensor that the step reads is moved back."""
    if isinstance(given, torch.Tensor):
        whole = given.reshape((1,) * (len(order) - given.dim()) + tuple(given.shape))
        kept = [dim for dim, source in enumerate(order) if source >= 0]
        whole = whole.reshape([whole.shape[dim] for dim in kept])
        sources = [order[dim] for dim in kept]
        given = whole.permute([sources.index(dim) for dim in range(len(sources))])
        if len(sources) > 1 and given.shape[-2] == 1:  # kernels repeat long rows quickly, three channels slowly
            given = given.expand(*given.shape[:-2], value.shape[-2], given.shape[-1])
    value = first(value, given)
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
