"""What each complex operator is in real ones: the table of `edgex.export.rewrites.complex.numbers`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.graph.schema import leaves_of, named_arguments
from edgex.export.rewrites.complex.fourier import Part, matrices, scale_of
from edgex.export.rewrites.editing.building import Replacement

# The longest transform that becomes a product with matrices: of 512 x 512 numbers, 1 MiB each.
LONGEST = 512

_aten = torch.ops.aten


class NotTaken(Exception):
    """An operator is used in a way that has no real form here."""


def is_complex(node: Node) -> bool:
    """Whether a node gives something complex."""
    return any(isinstance(leaf, torch.Tensor) and leaf.is_complex() for leaf in leaves_of(node.meta.get("val")))


@dataclass(frozen=True)
class Pair:
    """A complex value: real part, and imaginary part or None for zero."""

    real: Node
    imag: Node | None


@dataclass
class Work:
    """What the operators of one program share while they are replaced.

    Attributes:
        constants: Values of weights and constants, by node of the original.
        pairs: What became of the values so far, by node of the original.
        made: Every operator that was added.
        added: Constants that were added, by name.
    """

    constants: Mapping[Node, torch.Tensor]
    pairs: dict[Node, Pair] = field(default_factory=dict)
    made: list[Node] = field(default_factory=list)
    added: dict[str, Node] = field(default_factory=dict)


class Step:
    """One operator being replaced: reads pairs, adds real operators."""

    def __init__(self, replacement: Replacement, work: Work) -> None:
        self._replacement = replacement
        self._work = work

    def call(self, target: Any, *args: Any, **kwargs: Any) -> Node:
        """Add an operator."""
        node = self._replacement.call(target, *args, **kwargs)
        self._work.made.append(node)
        return node

    def constant(self, name: str, tensor: torch.Tensor) -> Node:
        """Add a constant, once for all operators that give the same name."""
        if name not in self._work.added:
            self._work.added[name] = self._replacement.constant(name, tensor.contiguous())
        return self._work.added[name]

    def value(self, node: Node) -> torch.Tensor:
        """The value of a weight or constant."""
        if node not in self._work.constants:
            raise NotTaken
        return self._work.constants[node]

    def pair(self, value: Any) -> Pair:
        """A node of the original as real and imaginary part; a real one has none."""
        if not isinstance(value, Node):
            raise NotTaken
        if value in self._work.pairs:
            return self._work.pairs[value]
        if not is_complex(value):
            return Pair(self._replacement.read(value), None)
        if value not in self._work.constants:
            raise NotTaken
        tensor = self._work.constants[value].resolve_conj()
        pair = Pair(
            self.constant(f"{value.name}_real", tensor.real),
            self.constant(f"{value.name}_imag", tensor.imag.resolve_neg()),
        )
        self._work.pairs[value] = pair
        return pair

    def add(self, one: Node | None, other: Node | None, minus: bool = False) -> Node | None:
        """The sum or difference of two parts; None is zero."""
        if other is None:
            return one
        if one is None:
            return self.call(_aten.neg.default, other) if minus else other
        return self.call(_aten.sub.Tensor if minus else _aten.add.Tensor, one, other)

    def times(self, one: Node | None, other: Any) -> Node | None:
        """The product of two parts; None is zero."""
        return None if one is None or other is None else self.call(_aten.mul.Tensor, one, other)

    def imag(self, pair: Pair) -> Node:
        """The imaginary part, zeros where there is none."""
        return pair.imag if pair.imag is not None else self.call(_aten.zeros_like.default, pair.real)


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


def _both(step: Step, node: Node) -> Pair:
    """An operator that moves elements, or changes the sign: the same for both parts."""
    first, *rest = node.args
    pair = step.pair(first)
    read = torch.fx.map_arg(tuple(rest), lambda value: step.pair(value).real)
    real = step.call(node.target, pair.real, *read, **node.kwargs)
    return Pair(real, None if pair.imag is None else step.call(node.target, pair.imag, *read, **node.kwargs))


def _literal(step: Step, node: Node) -> Pair:
    """Zeros, ones or one number of a complex dtype."""
    value = node.meta["val"]
    number = complex(node.args[1]) if len(node.args) > 1 else 0.0  # type: ignore[arg-type]
    if number.imag:
        raise NotTaken
    return Pair(step.call(_aten.full.default, list(value.shape), number.real, dtype=value.real.dtype), None)


def _copy(step: Step, node: Node) -> Pair:
    """What is written to a place takes its shape."""
    pair, value = step.pair(node.args[1]), node.meta["val"]

    def placed(part: Node | None) -> Node | None:
        if part is None:
            return None
        part = step.call(_aten.to.dtype, part, value.real.dtype)
        return step.call(_aten.expand.default, part, list(value.shape))

    real = placed(pair.real)
    assert real is not None
    return Pair(real, placed(pair.imag))


def _scattered(step: Step, node: Node) -> Pair:
    """`slice_scatter` and `select_scatter`."""
    whole, part, *rest = node.args
    pairs = [step.pair(whole), step.pair(part)]
    real = step.call(node.target, pairs[0].real, pairs[1].real, *rest)
    if all(pair.imag is None for pair in pairs):
        return Pair(real, None)
    return Pair(real, step.call(node.target, *(step.imag(pair) for pair in pairs), *rest))


def _product(step: Step, node: Node) -> Pair:
    """A product of matrices: four real ones, fewer where a part is zero."""
    equation = [node.args[0]] if isinstance(node.args[0], str) else []
    factors = node.args[1] if equation else node.args
    if not isinstance(factors, (list, tuple)) or len(factors) != 2:
        raise NotTaken
    one, other = (step.pair(value) for value in factors)

    def times(left: Node | None, right: Node | None) -> Node | None:
        if left is None or right is None:
            return None
        return step.call(node.target, *([*equation, [left, right]] if equation else [left, right]))

    real = step.add(times(one.real, other.real), times(one.imag, other.imag), minus=True)
    assert real is not None
    return Pair(real, step.add(times(one.real, other.imag), times(one.imag, other.real)))


def _exp(step: Step, node: Node) -> Pair:
    pair = step.pair(node.args[0])
    size, angle = step.call(_aten.exp.default, pair.real), step.imag(pair)
    return Pair(*(step.call(_aten.mul.Tensor, size, step.call(turn.default, angle)) for turn in (_aten.cos, _aten.sin)))


def _joined(step: Step, node: Node) -> Pair:
    """`cat` and `stack`."""
    tensors, *rest = node.args
    assert isinstance(tensors, (list, tuple))
    pairs = [step.pair(value) for value in tensors]
    real = step.call(node.target, [pair.real for pair in pairs], *rest)
    if all(pair.imag is None for pair in pairs):
        return Pair(real, None)
    return Pair(real, step.call(node.target, [step.imag(pair) for pair in pairs], *rest))


def _transform(inverse: bool, kind: str) -> Callable[[Step, Node], Pair | Node]:
    """A Fourier transform along one or several dimensions.

    Args:
        inverse: Whether it goes back.
        kind: `complex`; `real` where the first step takes half a spectrum of a real signal, or the last gives one.
    """

    def rule(step: Step, node: Node) -> Pair | Node:
        arguments = named_arguments(node)
        source = arguments["self"]
        pair, rank = step.pair(source), source.meta["val"].dim()
        dims = _dimensions(arguments, rank)
        lengths = _lengths(arguments, source, dims, inverse and kind == "real")
        last = dims[-1]
        order = list(reversed(dims)) if not inverse else dims
        for dim in order:
            length = lengths[dim]
            part: Part = kind if dim == last else "complex"  # type: ignore[assignment]
            pair = _fitted(step, pair, dim, length // 2 + 1 if inverse and part == "real" else length)
            scale = scale_of(arguments["norm"], length, inverse)
            pair = _along(step, pair, dim % rank, length, inverse, part, scale)
        return pair.real if inverse and kind == "real" else pair

    return rule


def _dimensions(arguments: Mapping[str, Any], rank: int) -> list[int]:
    """The dimensions of a transform, from 0."""
    dims = arguments["dim"]
    if dims is None:
        dims = list(range(rank))
    return [dim % rank for dim in (dims if isinstance(dims, Sequence) else [dims])]


def _lengths(arguments: Mapping[str, Any], source: Node, dims: Sequence[int], halved: bool) -> dict[int, int]:
    """The length of each transform: what is asked for, or what the signal has."""
    shape = source.meta["val"].shape
    given = arguments["n"] if "n" in arguments else arguments["s"]
    given = given if isinstance(given, Sequence) else [given] * len(dims)
    lengths = {}
    for dim, wish in zip(dims, given, strict=True):
        size = shape[dim]
        if not isinstance(size, int):
            raise NotTaken
        length = size
        if halved and dim == dims[-1]:
            length = 2 * (size - 1) if wish is None else wish
        elif wish is not None:
            length = wish
        if not 0 < length <= LONGEST:
            raise NotTaken
        lengths[dim] = length
    return lengths


def _fitted(step: Step, pair: Pair, dim: int, size: int) -> Pair:
    """What a transform reads: the first of a longer signal, and zeros behind a shorter one."""
    shape = pair.real.meta["val"].shape

    def fitted(part: Node | None) -> Node | None:
        if part is None or shape[dim] == size:
            return part
        if shape[dim] > size:
            return step.call(_aten.slice.Tensor, part, dim, 0, size)
        behind = [0] * (2 * (len(shape) - 1 - dim)) + [0, size - shape[dim]]
        return step.call(_aten.constant_pad_nd.default, part, behind, 0.0)

    real = fitted(pair.real)
    assert real is not None
    return Pair(real, fitted(pair.imag))


def _along(step: Step, pair: Pair, dim: int, length: int, inverse: bool, part: Part, scale: float) -> Pair:
    """A transform along one dimension: products with matrices along the last, where it is moved to."""
    rank = pair.real.meta["val"].dim()

    def moved(value: Node) -> Node:
        return value if dim == rank - 1 else step.call(_aten.transpose.int, value, dim, rank - 1)

    def product(value: Node | None, matrix: torch.Tensor | None, which: str) -> Node | None:
        if value is None or matrix is None:
            return None
        weight = step.constant(f"{name}_{which}", matrix)
        return step.call(_aten.linear.default, moved(value), weight)

    dtype = pair.real.meta["val"].dtype
    made = matrices(length, inverse, part, scale, dtype)
    name = f"fourier_{part}_{length}_{'inverse' if inverse else 'forward'}_{scale:.6g}_{dtype}".replace(".", "_")
    real = step.add(product(pair.real, made.real_to_real, "rr"), product(pair.imag, made.imag_to_real, "ir"))
    imag = step.add(product(pair.real, made.real_to_imag, "ri"), product(pair.imag, made.imag_to_imag, "ii"))
    assert real is not None
    return Pair(moved(real), None if imag is None else moved(imag))


_MOVES = (
    *("reshape", "view", "transpose", "permute", "unsqueeze", "squeeze", "slice", "select", "expand", "flatten"),
    *("sum", "mean", "cumsum", "index", "index_select", "gather", "tril", "triu"),
    *("contiguous", "clone", "neg", "flip", "roll", "unflatten", "alias", "detach", "lift_fresh_copy", "movedim"),
)

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
    "aten::zeros": _literal,
    "aten::full": _literal,
    "aten::copy": _copy,
    "aten::slice_scatter": _scattered,
    "aten::select_scatter": _scattered,
    "aten::einsum": _product,
    "aten::matmul": _product,
    "aten::mm": _product,
    "aten::bmm": _product,
    "aten::conj": _conj,
    "aten::_conj": _conj,
    "aten::conj_physical": _conj,
    "aten::resolve_conj": _both,
    "aten::cat": _joined,
    "aten::stack": _joined,
    **{f"aten::{name}": _both for name in _MOVES},
    **{f"aten::fft_{name}": _transform(inverse=False, kind="complex") for name in ("fft", "fft2", "fftn")},
    **{f"aten::fft_{name}": _transform(inverse=True, kind="complex") for name in ("ifft", "ifft2", "ifftn")},
    **{f"aten::fft_{name}": _transform(inverse=False, kind="real") for name in ("rfft", "rfft2", "rfftn")},
    **{f"aten::fft_{name}": _transform(inverse=True, kind="real") for name in ("irfft", "irfft2", "irfftn")},
}
