"""What each complex operator is in real ones: the table of `edgex.export.rewrites.complex.numbers`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.graph.schema import named_arguments
from edgex.export.rewrites.complex.parts import NotTaken, Pair, Step, each, is_complex

_aten = torch.ops.aten


def _view_as_complex(step: Step, node: Node) -> Pair:
    whole = step.pair(node.args[0]).real
    return Pair(*(step.call(_aten.select.int, whole, -1, at) for at in (0, 1)))


def _complex(step: Step, node: Node) -> Pair:
    return Pair(step.pair(node.args[0]).real, step.pair(node.args[1]).real)


def _polar(step: Step, node: Node) -> Pair:
    size, angle = (step.pair(value).real for value in node.args[:2])
    parts = [step.call(turn.default, angle) for turn in (_aten.cos, _aten.sin)]
    return Pair(*(step.call(_aten.mul.Tensor, size, part) for part in parts))


def _to_complex(step: Step, node: Node) -> Pair:
    """A conversion between complex dtypes, or of a real tensor."""
    pair = step.pair(named_arguments(node)["self"])
    if not is_complex(node):
        raise NotTaken
    dtype = node.meta["val"].real.dtype
    parts = (None if part is None else step.call(_aten.to.dtype, part, dtype) for part in (pair.real, pair.imag))
    real, imag = parts
    assert real is not None
    return Pair(real, imag)


def _view_as_real(step: Step, node: Node) -> Node:
    pair = step.pair(node.args[0])
    return step.call(_aten.stack.default, [pair.real, step.imag(pair)], -1)


def _real(step: Step, node: Node) -> Node:
    return step.pair(node.args[0]).real


def _imag(step: Step, node: Node) -> Node:
    return step.imag(step.pair(node.args[0]))


def _abs(step: Step, node: Node) -> Node:
    pair = step.pair(node.args[0])
    square = step.add(step.times(pair.real, pair.real), step.times(pair.imag, pair.imag))
    return step.call(_aten.sqrt.default, square)


def _angle(step: Step, node: Node) -> Node:
    pair = step.pair(node.args[0])
    return step.call(_aten.atan2.default, step.imag(pair), pair.real)


def _sum_of(minus: bool) -> Callable[[Step, Node], Pair]:
    def rule(step: Step, node: Node) -> Pair:
        arguments = named_arguments(node)
        if arguments["alpha"] != 1:
            raise NotTaken
        one, number = step.pair(arguments["self"]), arguments["other"]
        if isinstance(number, (int, float)):
            return Pair(step.call(_aten.sub.Tensor if minus else _aten.add.Tensor, one.real, number), one.imag)
        if isinstance(number, complex):
            operator = _aten.sub.Tensor if minus else _aten.add.Tensor
            return Pair(step.call(operator, one.real, number.real), step.call(operator, step.imag(one), number.imag))
        other = step.pair(number)
        real = step.add(one.real, other.real, minus)
        assert real is not None
        imag = step.add(one.imag, other.imag, minus)
        if imag is not None and tuple(imag.meta["val"].shape) != tuple(real.meta["val"].shape):
            imag = step.call(_aten.expand.default, imag, list(real.meta["val"].shape))
        return Pair(real, imag)

    return rule


def _mul(step: Step, node: Node) -> Pair:
    arguments = named_arguments(node)
    one = step.pair(arguments["self"])
    if isinstance(arguments["other"], (int, float)):
        other = arguments["other"]
        real = step.times(one.real, other)
        assert real is not None
        return Pair(real, step.times(one.imag, other))
    if isinstance(arguments["other"], complex):
        return _times_number(step, one, arguments["other"])
    pair = step.pair(arguments["other"])
    real = step.add(step.times(one.real, pair.real), step.times(one.imag, pair.imag), minus=True)
    assert real is not None
    return Pair(real, step.add(step.times(one.real, pair.imag), step.times(one.imag, pair.real)))


def _times_number(step: Step, one: Pair, number: complex) -> Pair:
    """`1j * x` of a real x among them, as angles are turned."""
    across, along = number.imag or None, number.real or None
    real = step.add(_scaled(step, one.real, along), _scaled(step, one.imag, across), minus=True)
    imag = step.add(_scaled(step, one.real, across), _scaled(step, one.imag, along))
    return Pair(real if real is not None else step.call(_aten.zeros_like.default, one.real), imag)


def _scaled(step: Step, part: Node | None, number: float | None) -> Node | None:
    """A part times a number; None is zero."""
    return None if number is None else part if number == 1 else step.times(part, number)


def _div(step: Step, node: Node) -> Pair:
    """By a tensor or a real number."""
    arguments = named_arguments(node)
    one, divisor = step.pair(arguments["self"]), arguments["other"]
    if isinstance(divisor, Node):
        pair = step.pair(divisor)
        divisor = pair.real
        if pair.imag is not None:  # times the conjugate
            square = step.add(step.times(pair.real, pair.real), step.times(pair.imag, pair.imag))
            real = step.add(step.times(one.real, pair.real), step.times(one.imag, pair.imag))
            imag = step.add(step.times(one.imag, pair.real), step.times(one.real, pair.imag), minus=True)
            assert real is not None and imag is not None
            return Pair(*(step.call(_aten.div.Tensor, part, square) for part in (real, imag)))
    elif isinstance(divisor, complex):
        return _times_number(step, one, 1 / divisor)
    elif not isinstance(divisor, (int, float)):
        raise NotTaken
    imag = None if one.imag is None else step.call(_aten.div.Tensor, one.imag, divisor)
    return Pair(step.call(_aten.div.Tensor, one.real, divisor), imag)


def _conj(step: Step, node: Node) -> Pair:
    pair = step.pair(node.args[0])
    return Pair(pair.real, step.add(None, pair.imag, minus=True))


def _square(step: Step, node: Node) -> Pair:
    """`square`, and `pow` with 2."""
    if len(node.args) > 1 and node.args[1] != 2:
        raise NotTaken
    pair = step.pair(node.args[0])
    real = step.add(step.times(pair.real, pair.real), step.times(pair.imag, pair.imag), minus=True)
    across = step.times(pair.real, pair.imag)
    assert real is not None
    return Pair(real, None if across is None else step.times(across, 2.0))


def _linear(step: Step, node: Node) -> Pair:
    """A linear layer with a complex weight; its bias counts once."""
    given = named_arguments(node)
    one, other = step.pair(given["input"]), step.pair(given["weight"])

    def times(left: Node | None, right: Node | None) -> Node | None:
        return None if left is None or right is None else step.call(_aten.linear.default, left, right)

    real = step.add(times(one.real, other.real), times(one.imag, other.imag), minus=True)
    imag = step.add(times(one.real, other.imag), times(one.imag, other.real))
    assert real is not None
    if given["bias"] is None:
        return Pair(real, imag)
    bias = step.pair(given["bias"])
    real = step.add(real, bias.real)
    assert real is not None
    return Pair(real, imag if bias.imag is None else step.add(imag, bias.imag))


def _subtracted(step: Step, node: Node) -> Pair:
    """`rsub`: a number without the tensor."""
    given = named_arguments(node)
    number = given["other"]
    if given["alpha"] != 1 or not isinstance(number, (int, float)):
        raise NotTaken
    pair = step.pair(given["self"])
    return Pair(step.call(_aten.rsub.Scalar, pair.real, number), step.add(None, pair.imag, minus=True))


def _reciprocal(step: Step, node: Node) -> Pair:
    pair = step.pair(node.args[0])
    square = step.add(step.times(pair.real, pair.real), step.times(pair.imag, pair.imag))
    imag = step.add(None, pair.imag, minus=True)
    return Pair(
        step.call(_aten.div.Tensor, pair.real, square),
        None if imag is None else step.call(_aten.div.Tensor, imag, square),
    )


def _log(step: Step, node: Node) -> Pair:
    return Pair(step.call(_aten.log.default, _abs(step, node)), _angle(step, node))


def _sqrt(step: Step, node: Node) -> Pair:
    """The root of half the angle."""
    size = step.call(_aten.sqrt.default, _abs(step, node))
    angle = step.call(_aten.mul.Tensor, _angle(step, node), 0.5)
    return Pair(*(step.call(_aten.mul.Tensor, size, step.call(turn.default, angle)) for turn in (_aten.cos, _aten.sin)))


def _product(step: Step, node: Node) -> Pair:
    """A product of matrices: four real ones, fewer where a part is zero."""
    one, other = (step.pair(value) for value in node.args[:2])
    return _multiplied(step, one, other, lambda left, right: step.call(node.target, left, right))


def _multiplied(step: Step, one: Pair, other: Pair, multiply: Callable[[Node, Node], Node]) -> Pair:
    def times(left: Node | None, right: Node | None) -> Node | None:
        return None if left is None or right is None else multiply(left, right)

    real = step.add(times(one.real, other.real), times(one.imag, other.imag), minus=True)
    assert real is not None
    return Pair(real, step.add(times(one.real, other.imag), times(one.imag, other.real)))


def _einsum(step: Step, node: Node) -> Pair:
    """A sum of Einstein: of one factor part by part, of more two at a time."""
    equation, factors = node.args[:2]
    assert isinstance(equation, str) and isinstance(factors, (list, tuple))
    first, *others = (step.pair(factor) for factor in factors)
    target = node.target
    if not others:
        return each(first, lambda part: step.call(target, equation, [part]))
    words, arrow, out = equation.replace(" ", "").partition("->")
    before, *left = words.split(",")
    if len(left) > 1 and (not arrow or "." in equation):
        raise NotTaken
    found = first
    while left:
        word, factor = left.pop(0), others.pop(0)
        later = set("".join([*left, out]))
        kept = "".join(letter for letter in dict.fromkeys(before + word) if letter in later) if left else out
        step_of = f"{before},{word}->{kept}" if left or arrow else equation
        found = _multiplied(step, found, factor, partial(_sum_of_two, step, target, step_of))
        before = kept
    return found


def _sum_of_two(step: Step, target: Any, equation: str, one: Node, other: Node) -> Node:
    return step.call(target, equation, [one, other])


def _exp(step: Step, node: Node) -> Pair:
    pair = step.pair(node.args[0])
    size, angle = step.call(_aten.exp.default, pair.real), step.imag(pair)
    return Pair(*(step.call(_aten.mul.Tensor, size, step.call(turn.default, angle)) for turn in (_aten.cos, _aten.sin)))


OPERATORS: dict[str, Callable[[Step, Node], Pair | Node]] = {
    "aten::view_as_complex": _view_as_complex,
    "aten::complex": _complex,
    "aten::polar": _polar,
    "aten::to": _to_complex,
    "aten::_to_copy": _to_complex,
    "aten::view_as_real": _view_as_real,
    "aten::real": _real,
    "aten::imag": _imag,
    "aten::abs": _abs,
    "aten::angle": _angle,
    "aten::add": _sum_of(minus=False),
    "aten::sub": _sum_of(minus=True),
    "aten::mul": _mul,
    "aten::div": _div,
    "aten::exp": _exp,
    "aten::square": _square,
    "aten::pow": _square,
    "aten::linear": _linear,
    "aten::rsub": _subtracted,
    "aten::reciprocal": _reciprocal,
    "aten::log": _log,
    "aten::sqrt": _sqrt,
    "aten::einsum": _einsum,
    "aten::matmul": _product,
    "aten::mm": _product,
    "aten::bmm": _product,
    "aten::conj": _conj,
    "aten::_conj": _conj,
    "aten::conj_physical": _conj,
}
