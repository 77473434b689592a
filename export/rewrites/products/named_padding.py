"""Convolutions whose padding is a word: `same` or `valid`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional as F

from edgex.export.rewrites.pooling.windows import each


def with_named_padding(convolution: Callable[..., Any]) -> Callable[..., Any]:
    """The rule for `conv1d.padding` and its like, from the rule for `conv1d.default`.

    An uneven `same` pads one side more than the other: that element is put there first.

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
            x = F.pad(x, [end for size in reversed(reach) for end in (0, size % 2)])
        sides = [size // 2 for size in reach] if padding == "same" else [0] * rank
        return convolution(x, weight, bias, stride, sides, dilation, groups)

    return write
