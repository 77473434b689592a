"""Programs of a recipe, run with their weights converted some rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import Interpreter

from edgex.delegates.recipes.pieces import PIECE, fill_in_pieces


def convert(target: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Call an operator of a recipe; the result is the same, some rows at a time where rows have scales of their own."""
    if str(target) != "torchao.dequantize_affine.default" or kwargs:
        return target(*args, **kwargs)
    values, block, scale, zero_point, *rest = args
    if values.dim() != 2 or block[0] != 1 or values.numel() <= PIECE or len(scale) != len(values):
        return target(*args)

    def compute(rows: slice) -> tuple[torch.Tensor]:
        zeros = zero_point if zero_point is None else zero_point[rows]
        return (target(values[rows], block, scale[rows], zeros, *rest),)

    (made,) = fill_in_pieces(len(values), int(values.shape[1]), compute)
    return made


class ConvertingInPieces(Interpreter):
    """Runs a graph as `Interpreter` does, weights converted in pieces."""

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What an operator gives."""
        return convert(target, args, kwargs)
