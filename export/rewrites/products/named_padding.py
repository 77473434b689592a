"""Convolutions whose padding is a word: `same` or `valid`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from edgex.export.rewrites.pooling.windows import each


def with_named_padding(convolution: Callable[..., Any]) -> Callable[..., Any]:
    """The rule for `conv1d.padding` and its like, from the rule for `conv1d.default`.

    An uneven `same`, which pads one side more than the other, is left alone.

    Args:
        convolution: Takes the operator's arguments with a number of padded elements for each dimension.
    """

    def write(
        x: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        stride: Sequence[int],
        padding: str,
        dilation: Sequence[int],
        groups: int,
    ) -> Any:
        rank = weight.dim() - 2
        reach = [hole * (size - 1) for hole, size in zip(each(dilation, rank), weight.shape[2:], strict=True)]
        if padding == "same" and any(size % 2 for size in reach):
            return NotImplemented
        sides = [size // 2 for size in reach] if padding == "same" else [0] * rank
        return convolution(x, weight, bias, stride, sides, dilation, groups)

    return write
