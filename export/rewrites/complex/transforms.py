"""Fourier transforms as products with matrices.

A transform of length `a * b` beyond `LONGEST` is two short ones and a turn of each number between them (Cooley and
Tukey, 1965), for `k = k1 + a * k2` and `j = j1 * b + j2`:

```
before:  z = aten.fft_fft.default(x)                                         # x: f32[2, 4096]
after:   y = linear(x.view(2, 64, 64).transpose(1, 2), first)                # [2, j2, k1]
         y = y * turns                                                       # exp(-2 pi i * j2 * k1 / 4096)
         z = linear(y.transpose(1, 2), second).transpose(1, 2).reshape(2, 4096)      # real and imaginary part each
```
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.graph.schema import named_arguments
from edgex.export.rewrites.complex.fourier import Matrices, Part, matrices, scale_of
from edgex.export.rewrites.complex.parts import NotTaken, Pair, Step, each

# The longest transform that becomes one product with matrices: of 512 x 512 numbers, 1 MiB each.
LONGEST = 512
# The longest one where a length has no two factors up to there: of a prime, or of the larger factor. A complex one has
# two matrices of 4 MiB each.
LONGEST_FACTOR = 1024

_aten = torch.ops.aten


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
        if length < 1:
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
    """A transform along one dimension, which is moved to the end and back."""
    rank = pair.real.meta["val"].dim()

    def moved(value: Node) -> Node:
        return value if dim == rank - 1 else step.call(_aten.transpose.int, value, dim, rank - 1)

    last = Pair(moved(pair.real), None if pair.imag is None else moved(pair.imag))
    found = transform_last(step, last, length, inverse, part, scale)
    return Pair(moved(found.real), None if found.imag is None else moved(found.imag))


def transform_last(step: Step, pair: Pair, length: int, inverse: bool, part: Part, scale: float) -> Pair:
    """A transform along the last dimension.

    Args:
        step: The operator that is replaced.
        pair: `[..., length]`; `[..., length // 2 + 1]` of a spectrum whose signal is real.
        length: Of the signal.
        inverse: Whether it goes back.
        part: `real` where the signal is.
        scale: A factor for all.

    Raises:
        NotTaken: The length is beyond `LONGEST` and has no two factors up to `LONGEST_FACTOR`.
    """
    if length > LONGEST and not (length <= LONGEST_FACTOR and _is_prime(length)):
        return _in_two_steps(step, pair, length, inverse, part, scale)
    made = matrices(length, inverse, part, scale, pair.real.meta["val"].dtype)
    return _times(step, pair, made, f"{part}_{length}_{'inverse' if inverse else 'forward'}_{scale:.6g}")


def _largest_factor(length: int) -> int:
    """The largest one up to the root of the length; the length itself where it is prime."""
    return max((n for n in range(2, math.isqrt(length) + 1) if length % n == 0), default=length)


def _is_prime(length: int) -> bool:
    return _largest_factor(length) == length


def _times(step: Step, pair: Pair, made: Matrices, name: str) -> Pair:
    """The product of `[..., in]` with the matrices of a transform."""

    def product(value: Node | None, matrix: torch.Tensor | None, which: str) -> Node | None:
        if value is None or matrix is None:
            return None
        weight = step.constant(f"fourier_{name}_{which}_{matrix.dtype}".replace(".", "_"), matrix)
        return step.call(_aten.linear.default, value, weight)

    real = step.add(product(pair.real, made.real_to_real, "rr"), product(pair.imag, made.imag_to_real, "ir"))
    imag = step.add(product(pair.real, made.real_to_imag, "ri"), product(pair.imag, made.imag_to_imag, "ii"))
    assert real is not None
    return Pair(real, imag)


def _in_two_steps(step: Step, pair: Pair, length: int, inverse: bool, part: Part, scale: float) -> Pair:
    """A long transform; what `part` leaves out is cut off, or put in as zeros."""
    a = _largest_factor(length)
    b = length // a
    if max(a, b) > LONGEST_FACTOR:
        raise NotTaken
    dtype = pair.real.meta["val"].dtype
    way = f"{length}_{'inverse' if inverse else 'forward'}"
    if inverse and part == "real":
        # The other half is the conjugate of this one: it counts twice, but for the ends; the real part alone is read.
        counts = torch.full((length // 2 + 1,), 2.0, dtype=dtype)
        counts[0] = 1
        if length % 2 == 0:
            counts[-1] = 1
        twice = step.constant(f"fourier_{way}_counts_{dtype}".replace(".", "_"), counts)
        behind = [0, length - length // 2 - 1]
        pair = each(pair, lambda x: step.call(_aten.constant_pad_nd.default, step.times(x, twice), behind, 0.0))
    lead = list(pair.real.meta["val"].shape[:-1])
    pair = each(
        pair, lambda x: step.call(_aten.transpose.int, step.call(_aten.reshape.default, x, [*lead, a, b]), -1, -2)
    )
    pair = _times(step, pair, matrices(a, inverse, "complex", 1.0, dtype), f"{way}_first")
    angles = torch.outer(torch.arange(b), torch.arange(a)).to(torch.float64) * (2 * math.pi / length)
    cos, sin = angles.cos(), angles.sin() * (1 if inverse else -1)
    turns = [
        step.constant(f"fourier_{way}_turns_{name}_{dtype}".replace(".", "_"), values.to(dtype))
        for name, values in (("cos", cos), ("sin", sin))
    ]
    real = step.add(step.times(pair.real, turns[0]), step.times(pair.imag, turns[1]), minus=True)
    imag = step.add(step.times(pair.real, turns[1]), step.times(pair.imag, turns[0]))
    assert real is not None
    pair = each(Pair(real, imag), lambda x: step.call(_aten.transpose.int, x, -1, -2))
    pair = _times(step, pair, matrices(b, inverse, "complex", scale, dtype), f"{way}_second_{scale:.6g}")

    def whole(value: Node) -> Node:
        joined = step.call(_aten.reshape.default, step.call(_aten.transpose.int, value, -1, -2), [*lead, length])
        if part == "complex" or inverse:
            return joined
        return step.call(_aten.slice.Tensor, joined, -1, 0, length // 2 + 1)

    return Pair(whole(pair.real), None) if inverse and part == "real" else each(pair, whole)


TRANSFORMS: dict[str, Callable[[Step, Node], Pair | Node]] = {
    **{f"aten::fft_{name}": _transform(inverse=False, kind="complex") for name in ("fft", "fft2", "fftn")},
    **{f"aten::fft_{name}": _transform(inverse=True, kind="complex") for name in ("ifft", "ifft2", "ifftn")},
    **{f"aten::fft_{name}": _transform(inverse=False, kind="real") for name in ("rfft", "rfft2", "rfftn")},
    **{f"aten::fft_{name}": _transform(inverse=True, kind="real") for name in ("irfft", "irfft2", "irfftn")},
}
