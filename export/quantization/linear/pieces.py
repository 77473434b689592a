"""Weights converted some rows at a time: what an operator holds beside its result is then small, whatever the weight.

torchao's operators make three to four float32 copies of what they convert on their way. A vocabulary of 128,256 times
3072 numbers, 0.4 GB in 8 bits, needed 6 GB for a moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.fx import Interpreter

# Numbers that are converted at a time; with what lies beside them they stay in a processor's cache.
_PIECE = 1 << 18


def in_pieces(weight: torch.Tensor) -> Iterator[torch.Tensor]:
    """The rows of a matrix `(out, in)`, as many at a time as make a piece."""
    count = max(1, _PIECE // max(1, weight.shape[1]))
    yield from (weight[first : first + count] for first in range(0, max(1, len(weight)), count))


def convert(target: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Call an operator of a recipe; the result is the same, some rows at a time where rows have scales of their own."""
    if str(target) != "torchao.dequantize_affine.default" or kwargs:
        return target(*args, **kwargs)
    values, block, scale, zero_point, *rest = args
    if values.dim() != 2 or block[0] != 1 or values.numel() <= _PIECE or len(scale) != len(values):
        return target(*args)
    count = max(1, _PIECE // values.shape[1])
    made = None
    for first in range(0, len(values), count):
        rows = slice(first, first + count)
        zeros = zero_point if zero_point is None else zero_point[rows]
        part = target(values[rows], block, scale[rows], zeros, *rest)
        made = part.new_empty(values.shape) if made is None else made
        made[rows] = part
    return made


class ConvertingInPieces(Interpreter):
    """Runs a graph as `Interpreter` does, weights converted in pieces."""

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What an operator gives."""
        return convert(target, args, kwargs)
