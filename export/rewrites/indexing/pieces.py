"""Pieces of a tensor as slices, which XNNPACK takes, with the dimension that goes away taken out by a view.

```
before:  q, k, v = aten.unbind.int(x)                                                   # x: [3, 2, 9, 8]
after:   q = aten.slice.Tensor(x, 0, 0, 1).reshape(2, 9, 8); k = ...; v = ...

before:  y = aten.select.int(x, 1, 0)
after:   y = aten.slice.Tensor(x, 1, 0, 1).reshape(...)

before:  a, b = aten.split_with_sizes.default(x, [3, 5], 1)                             # `split.Tensor` and `chunk` too
after:   a = aten.slice.Tensor(x, 1, 0, 3); b = aten.slice.Tensor(x, 1, 3, 8)

before:  y = aten.alias.default(x); z = y + 1                                           # x[:, :5], which is all of x
after:   z = x + 1                                # `expand` to the size that it has and `to` the same dtype likewise

before:  y = aten.unsqueeze.default(x, 0); z = aten.squeeze.dim(y, 1)                   # x: [1, 8]
after:   y = x.reshape(1, 1, 8); z = y.reshape(1, 8)
```
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rule, Rules, static, substitute

aten = torch.ops.aten


# They give their input itself where it has the dtype already.
_CONVERSIONS = (aten.to.dtype, aten.to.dtype_layout, aten.to.other, aten.type_as.default, aten.detach.default)


def slice_pieces(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such operator of fixed sizes; the same program comes back without one."""
    rules: Rules = {
        aten.alias.default: Rule(_same, where=_is_read),
        **{operator: Rule(_converted, where=_is_read) for operator in _CONVERSIONS},
        aten.expand.default: Rule(_expanded, where=_is_read),
        aten.unsqueeze.default: lambda x, dim: _reshaped(x, x.unsqueeze(dim)),
        aten.squeeze.default: lambda x: _reshaped(x, x.squeeze()),
        aten.squeeze.dim: lambda x, dim: _reshaped(x, x.squeeze(dim)),
        aten.squeeze.dims: lambda x, dims: _reshaped(x, x.squeeze(tuple(dims))),
        aten.unbind.int: _each,
        aten.select.int: _one,
        aten.split_with_sizes.default: _by_sizes,
        aten.split.Tensor: _of_size,
        aten.chunk.default: _chunks,
    }
    return substitute(program, "slice_pieces", rules, "{count} operator(s) ({operators}) became slices and views")


def _is_read(node: Node) -> bool:
    """Whether operators read it, and it is no output, which must not be an input of the program."""
    return all(user.op == "call_function" for user in node.users)


def _same(x: torch.Tensor) -> torch.Tensor:
    return x


def _converted(x: torch.Tensor, *asked: Any) -> Any:
    other = next((one.dtype if isinstance(one, torch.Tensor) else one for one in asked if _names_dtype(one)), x.dtype)
    return x if other == x.dtype else NotImplemented


def _names_dtype(asked: Any) -> bool:
    return isinstance(asked, torch.Tensor | torch.dtype)


def _expanded(x: torch.Tensor, size: Sequence[int], implicit: bool = False) -> Any:
    del implicit
    same = static(*x.shape, *size) and len(size) == x.dim()
    return x if same and all(new in (-1, old) for new, old in zip(size, x.shape, strict=True)) else NotImplemented


def _reshaped(x: torch.Tensor, y: torch.Tensor) -> Any:
    # Not `reshape`, which would come out as the same operator again.
    return x.view(y.shape) if static(*x.shape) and x.is_floating_point() else NotImplemented


def _one(x: torch.Tensor, dim: int, index: int) -> Any:
    if not static(index, *x.shape) or not x.is_floating_point():
        return NotImplemented
    dim, shape = dim % x.dim(), list(x.shape)
    start = index % shape[dim]
    return aten.slice.Tensor(x, dim, start, start + 1).view(shape[:dim] + shape[dim + 1 :])


def _each(x: torch.Tensor, dim: int = 0) -> Any:
    if not static(*x.shape) or not x.is_floating_point():
        return NotImplemented
    return tuple(_one(x, dim, index) for index in range(x.shape[dim]))


def _by_sizes(x: torch.Tensor, sizes: Sequence[int], dim: int = 0) -> Any:
    if not static(*x.shape, *sizes) or not x.is_floating_point():
        return NotImplemented
    starts = [sum(sizes[:number]) for number in range(len(sizes))]
    return tuple(aten.slice.Tensor(x, dim, start, start + size) for start, size in zip(starts, sizes, strict=True))


def _of_size(x: torch.Tensor, size: int, dim: int = 0) -> Any:
    if not static(size, *x.shape) or size <= 0:
        return NotImplemented
    length = x.shape[dim]
    return _by_sizes(x, [min(size, length - start) for start in range(0, length, size)], dim)


def _chunks(x: torch.Tensor, chunks: int, dim: int = 0) -> Any:
    return _of_size(x, -(-x.shape[dim] // chunks), dim) if static(*x.shape) else NotImplemented
