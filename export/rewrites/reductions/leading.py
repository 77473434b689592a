"""Reduce over a dimension with others behind it by products and halves, at which ONNX Runtime is quick.

```
before:  y = aten.mean.dim(x, [1])                                      # x: [1, 64, 128, 128]
after:   y = aten.matmul.default([1, 64] of 1 / 64, x.reshape(1, 64, 16384)).reshape(1, 128, 128)

before:  y = aten.amax.default(x, [1], True)
after:   y = aten.maximum.default(x[:, :32], x[:, 32:]); y = aten.maximum.default(y[:, :16], y[:, 16:]) ...
```

ONNX Runtime's quick kernels for such sums want more images than threads, and at least two. Otherwise it walks through
one column after the other, with steps as long as what lies behind: 3.2 ns a number of the example above, and in halves
0.6; a product takes 0.1. Behind 128 x 128 it is at its worst, since the steps fall on the same lines of the cache, but
behind 127 x 127 a sum still takes 0.6 and behind 768 channels of a sequence 1.4 (one thread of a Zen without AVX-512).
Left alone: what lies behind fewer than 32 numbers, small tensors, other types than float32, weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.editor import constant_tensors
from edgex.export.rewrites.editing.substitution import Rule, Rules, static, substitute
from edgex.export.rewrites.pooling.parts import Combine, in_halves

aten = torch.ops.aten

# Of images: from it on ONNX Runtime's own kernel is quick, with as many threads as half of it.
_IMAGES = 32
# Of what lies behind, in numbers: rows of fewer are no work for vectors.
_ROW = 32
# Of the whole tensor, in numbers: smaller ones take as long as the further operators do.
_LEAST = 1 << 12


def multiply_sums(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such sum and mean as a product; the same program comes back without one."""
    rules = _of_computed(program, {aten.mean.dim: _mean, aten.sum.dim_IntList: _sum})
    return substitute(
        program, "multiply_sums", rules, "{count} {operators} became products with a row of equal weights"
    )


def halve_extremes(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such maximum and minimum in halves; the same program comes back without one."""
    rules = _of_computed(
        program, {aten.amax.default: _extreme(torch.maximum), aten.amin.default: _extreme(torch.minimum)}
    )
    return substitute(program, "halve_extremes", rules, "{count} {operators} are taken in halves")


def _of_computed(program: CapturedProgram, written: dict[Any, Callable[..., Any]]) -> Rules:
    constants = constant_tensors(program)
    return {target: Rule(write, where=lambda node: node.args[0] not in constants) for target, write in written.items()}


def _mean(x: torch.Tensor, dims: Sequence[int] | None, keepdim: bool, dtype: torch.dtype | None) -> Any:
    return _by_product(x, dims, keepdim, dtype, mean=True)


def _sum(x: torch.Tensor, dims: Sequence[int] | None, keepdim: bool, dtype: torch.dtype | None) -> Any:
    return _by_product(x, dims, keepdim, dtype, mean=False)


def _by_product(
    x: torch.Tensor, dims: Sequence[int] | None, keepdim: bool, dtype: torch.dtype | None, *, mean: bool
) -> Any:
    over = _dimensions(x, dims)
    if over is None or dtype not in (None, x.dtype):
        return NotImplemented
    ahead, size = prod(x.shape[: over.start]), prod(x.shape[over.start : over.stop])
    if ahead >= _IMAGES:
        return NotImplemented
    row = torch.full([1, size], 1 / size if mean else 1.0)
    return torch.matmul(row, x.reshape(ahead, size, -1)).reshape(_shape(x, over, keepdim))


def _extreme(combine: Combine) -> Callable[..., Any]:
    def write(x: torch.Tensor, dims: Sequence[int], keepdim: bool) -> Any:
        over = _dimensions(x, dims)
        if over is None:
            return NotImplemented
        ahead, size = prod(x.shape[: over.start]), prod(x.shape[over.start : over.stop])
        y = in_halves(combine, x.reshape(ahead, size, -1), 1)
        return y.reshape(_shape(x, over, keepdim))

    return write


def _dimensions(x: torch.Tensor, dims: Sequence[int] | None) -> range | None:
    """What is reduced, where it is worth it: dimensions beside each other, of more than one number."""
    over = sorted({dim % x.dim() for dim in dims}) if dims and x.dtype == torch.float32 else []
    if not over or over != list(range(over[0], over[-1] + 1)) or not static(*x.shape):
        return None
    size, behind = prod(x.shape[over[0] : over[-1] + 1]), prod(x.shape[over[-1] + 1 :])
    return range(over[0], over[-1] + 1) if size > 1 and behind >= _ROW and x.numel() >= _LEAST else None


def _shape(x: torch.Tensor, over: range, keepdim: bool) -> list[int]:
    return [1 if dim in over else size for dim, size in enumerate(x.shape) if keepdim or dim not in over]
