"""Complex operators that move numbers, choose among them or make them: the same for real and imaginary part."""

from __future__ import annotations

import operator
from collections.abc import Callable

import torch
from torch.fx import Node

from edgex.delegates.graph.schema import named_arguments
from edgex.export.rewrites.complex.parts import NotTaken, Pair, Step, each

_aten = torch.ops.aten

# Reading one of several results is no operator of torch.
ITEM = "getitem"


def _both(step: Step, node: Node) -> Pair:
    """An operator that moves elements, or changes the sign: the same for both parts."""
    first, *rest = node.args
    pair = step.pair(first)
    read = torch.fx.map_arg(tuple(rest), lambda value: step.pair(value).real)
    real = step.call(node.target, pair.real, *read, **node.kwargs)
    return Pair(real, None if pair.imag is None else step.call(node.target, pair.imag, *read, **node.kwargs))


def _literal(number: complex | None) -> Callable[[Step, Node], Pair]:
    """One number everywhere, of a complex dtype; None where the operator is given it."""

    def rule(step: Step, node: Node) -> Pair:
        value, given = node.meta["val"], named_arguments(node)
        filled = given.get("fill_value", given.get("s")) if number is None else number
        if not isinstance(filled, (int, float, complex)):
            raise NotTaken
        filled = complex(filled)
        shape, dtype = list(value.shape), value.real.dtype
        parts = [step.call(_aten.full.default, shape, part, dtype=dtype) for part in (filled.real, filled.imag)]
        return Pair(parts[0], parts[1] if filled.imag else None)

    return rule


def _chosen(step: Step, node: Node) -> Pair:
    """`where`: of numbers as well."""
    condition, *values = node.args
    pairs = [
        step.pair(value) if isinstance(value, Node) else (complex(value).real, complex(value).imag or None)  # type: ignore[arg-type]
        for value in values
    ]
    found = step.pair(condition).real
    ends = [(pair.real, pair.imag) if isinstance(pair, Pair) else pair for pair in pairs]
    real = step.call(_aten.where.self, found, *(_filled(step, node, end[0]) for end in ends))
    if all(end[1] is None for end in ends):
        return Pair(real, None)
    return Pair(real, step.call(_aten.where.self, found, *(_filled(step, node, end[1]) for end in ends)))


def _filled(step: Step, node: Node, part: Node | float | None) -> Node:
    """A part as a tensor."""
    if isinstance(part, Node):
        return part
    return step.call(_aten.full.default, [], part or 0.0, dtype=node.meta["val"].real.dtype)


def _masked(step: Step, node: Node) -> Pair:
    """`masked_fill` with a number."""
    values, mask, number = node.args
    if isinstance(number, Node):
        raise NotTaken
    pair, filled = step.pair(values), complex(number)  # type: ignore[arg-type]
    read = step.pair(mask).real
    real = step.call(_aten.masked_fill.Scalar, pair.real, read, filled.real)
    if pair.imag is None and not filled.imag:
        return Pair(real, None)
    return Pair(real, step.call(_aten.masked_fill.Scalar, step.imag(pair), read, filled.imag))


def _padded(step: Step, node: Node) -> Pair:
    """`pad`, whose number is the real part's."""
    if named_arguments(node)["value"] and step.pair(node.args[0]).imag is not None:
        raise NotTaken
    return _both(step, node)


def _item(step: Step, node: Node) -> Pair:
    """One of several results."""
    pair = step.pair(node.args[0])
    real = step.call(operator.getitem, pair.real, node.args[1])
    return Pair(real, None if pair.imag is None else step.call(operator.getitem, pair.imag, node.args[1]))


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


def _put(step: Step, node: Node) -> Pair:
    """`index_put`: the same places of both parts."""
    whole, places, part, *rest = node.args
    assert isinstance(places, (list, tuple))
    read = [None if place is None else step.pair(place).real for place in places]
    pairs = [step.pair(whole), step.pair(part)]
    real = step.call(node.target, pairs[0].real, read, pairs[1].real, *rest)
    if all(pair.imag is None for pair in pairs):
        return Pair(real, None)
    return Pair(real, step.call(node.target, step.imag(pairs[0]), read, step.imag(pairs[1]), *rest))


def _joined(step: Step, node: Node) -> Pair:
    """`cat` and `stack`."""
    tensors, *rest = node.args
    assert isinstance(tensors, (list, tuple))
    pairs = [step.pair(value) for value in tensors]
    real = step.call(node.target, [pair.real for pair in pairs], *rest)
    if all(pair.imag is None for pair in pairs):
        return Pair(real, None)
    return Pair(real, step.call(node.target, [step.imag(pair) for pair in pairs], *rest))


_MOVES = (
    *("reshape", "view", "transpose", "permute", "unsqueeze", "squeeze", "slice", "select", "expand", "flatten"),
    *("sum", "mean", "cumsum", "index", "index_select", "gather", "tril", "triu"),
    *("contiguous", "clone", "neg", "flip", "roll", "unflatten", "alias", "detach", "lift_fresh_copy", "movedim"),
    *("split", "split_with_sizes", "chunk", "unbind", "tensor_split", "narrow", "unfold", "repeat", "tile", "t"),
    *("diagonal", "broadcast_to", "repeat_interleave", "swapaxes", "moveaxis", "dropout", "diff"),
    "_unsafe_view",
)


def _shifted(forward: int) -> Callable[[Step, Node], Pair]:
    """`fftshift` and its inverse, as `roll`."""

    def rule(step: Step, node: Node) -> Pair:
        pair, given = step.pair(node.args[0]), named_arguments(node)["dim"]
        shape = pair.real.meta["val"].shape
        dims = list(range(len(shape))) if given is None else [given] if isinstance(given, int) else list(given)
        if not all(isinstance(shape[dim], int) for dim in dims):
            raise NotTaken
        shifts = [forward * (shape[dim] // 2) for dim in dims]
        return each(pair, lambda x: step.call(_aten.roll.default, x, shifts, dims))

    return rule


MOVES: dict[str, Callable[[Step, Node], Pair]] = {
    "aten::zeros": _literal(0),
    "aten::ones": _literal(1),
    "aten::full": _literal(None),
    "aten::scalar_tensor": _literal(None),
    "aten::zeros_like": _literal(0),
    "aten::ones_like": _literal(1),
    "aten::full_like": _literal(None),
    "aten::where": _chosen,
    "aten::masked_fill": _masked,
    "aten::pad": _padded,
    "aten::constant_pad_nd": _padded,
    ITEM: _item,
    "aten::copy": _copy,
    "aten::slice_scatter": _scattered,
    "aten::select_scatter": _scattered,
    "aten::index_put": _put,
    "aten::fft_fftshift": _shifted(1),
    "aten::fft_ifftshift": _shifted(-1),
    "aten::resolve_conj": _both,
    "aten::cat": _joined,
    "aten::stack": _joined,
    **{f"aten::{name}": _both for name in _MOVES},
}
