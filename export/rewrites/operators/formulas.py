"""Write operators that are a short formula of others, for which an engine has no kernel or takes only some arguments.

```
before:  y = aten.bilinear.default(a, b, p_weight, p_bias)                 # a: [N, I], b: [N, J], weight: [O, I, J]
after:   y = ((a @ weight.transpose(0, 1).reshape(I, O * J)).reshape(N, O, J) * b.unsqueeze(-2)).sum(-1) + p_bias
```

| operator | becomes |
|---|---|
| `addbmm`, `addmv` | the products, their sum, and the addition |
| `dist(a, b, p)` | `norm(a - b, p)` of everything |
| `cosine_similarity(a, b)` | the sum of `a / maximum(norm(a), eps) * b / maximum(norm(b), eps)` |
| `angle(x)` | 0, or pi below zero; NaN stays |
| `logaddexp(a, b)`, `logaddexp2` | `maximum(a, b)` and the logarithm of 1 and what is below it |
| `scatter(..., reduce="add")` | `scatter_add`; `"multiply"` is `scatter_reduce` of products |
| `gather` by int32 | by int64, which is what ExecuTorch's kernel takes |
| `vander` | products, step by step |
| `aminmax` | `amin` and `amax` |
| fake quantizers, losses of soft labels | see `training/` |
| `diagonal_scatter`, `put` | see `scattering/places` |
| `to(..., non_blocking=True)` | the same conversion: an artifact has one device, and ExecuTorch refuses the flag |
"""

from __future__ import annotations

import math
from typing import Any

import torch

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rule, Rules, static, substitute
from edgex.export.rewrites.operators.logarithms import add_in_binary_logarithms, rule_of_sums
from edgex.export.rewrites.scattering.places import rules_of_places
from edgex.export.rewrites.training.losses import rules_of_losses
from edgex.export.rewrites.training.quantizers import rules_of_quantizers

aten = torch.ops.aten

_REDUCTIONS = {"add": "sum", "multiply": "prod"}


def write_formulas(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such operator out; the same program comes back without one."""
    rules: Rules = {
        aten.addbmm.default: _addbmm,
        aten.addmv.default: _addmv,
        aten.dist.default: _dist,
        aten.cosine_similarity.default: _cosine,
        aten.bilinear.default: Rule(_bilinear, apart=True),
        aten.angle.default: _angle,
        aten.logaddexp.default: rule_of_sums(program),
        aten.logaddexp2.default: add_in_binary_logarithms,
        aten.scatter.reduce: _scatter,
        aten.scatter.value_reduce: _scatter,
        aten.gather.default: _gather,
        aten.to.dtype: _to_dtype,
        aten.to.dtype_layout: _to_layout,
        aten.aminmax.default: _aminmax,
        aten.linalg_vander.default: lambda x, count: _vander(x, count, True),
        aten.vander.default: _vander,
        **rules_of_quantizers(),
        **rules_of_losses(),
        **rules_of_places(),
    }
    return substitute(program, "write_formulas", rules, "{count} operator(s) ({operators}) became their formulas")


def _addbmm(x: torch.Tensor, first: torch.Tensor, second: torch.Tensor, beta: float, alpha: float) -> torch.Tensor:
    return _weighed(x, beta) + _weighed(torch.bmm(first, second).sum(0), alpha)


def _addmv(x: torch.Tensor, matrix: torch.Tensor, vector: torch.Tensor, beta: float, alpha: float) -> torch.Tensor:
    return _weighed(x, beta) + _weighed((matrix @ vector.unsqueeze(-1)).squeeze(-1), alpha)


def _weighed(x: torch.Tensor, factor: float) -> torch.Tensor:
    return x if factor == 1 else x * factor


def _dist(a: torch.Tensor, b: torch.Tensor, p: float) -> Any:
    if p not in (1, 2, math.inf) or not a.is_floating_point():
        return NotImplemented
    difference = torch.abs(a - b)
    if p == math.inf:
        return difference.amax()
    return difference.sum() if p == 1 else torch.sqrt((difference * difference).sum())


def _cosine(a: torch.Tensor, b: torch.Tensor, dim: int, eps: float) -> Any:
    if a.dtype != torch.float32 or b.dtype != torch.float32 or a.dim() == 0:
        return NotImplemented
    if a.dim() != b.dim() or a.shape[dim] != b.shape[dim]:
        return NotImplemented
    one, other = (x / torch.clamp(torch.linalg.vector_norm(x, 2, dim, True), min=eps) for x in (a, b))
    return (one * other).sum(dim)


def _bilinear(a: torch.Tensor, b: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    outputs, rows, columns = weight.shape
    matrix = weight.transpose(0, 1).reshape(rows, outputs * columns)
    mixed = (a @ matrix).reshape(*a.shape[:-1], outputs, columns)
    found = (mixed * b.unsqueeze(-2)).sum(-1)
    return found if bias is None else found + bias


def _angle(x: torch.Tensor) -> Any:
    if x.is_complex() or not x.is_floating_point():
        return NotImplemented
    found = torch.where(x < 0, torch.full_like(x, math.pi), torch.zeros_like(x))
    return torch.where(torch.isnan(x), x, found)


def _scatter(x: torch.Tensor, dim: int, index: torch.Tensor, source: Any, reduce: str) -> Any:
    if not isinstance(source, torch.Tensor):
        source = torch.full(index.shape, source, dtype=x.dtype)
    if reduce == "add":
        return torch.scatter_add(x, dim, index, source)
    return torch.scatter_reduce(x, dim, index, source, _REDUCTIONS[reduce], include_self=True)


def _gather(x: torch.Tensor, dim: int, index: torch.Tensor, sparse_grad: bool) -> Any:
    del sparse_grad
    return NotImplemented if index.dtype == torch.int64 else torch.gather(x, dim, index.to(torch.int64))


def _aminmax(x: torch.Tensor, dim: int | None, keepdim: bool) -> tuple[torch.Tensor, torch.Tensor]:
    dims = list(range(x.dim())) if dim is None else [dim]
    return torch.amin(x, dims, keepdim), torch.amax(x, dims, keepdim)


def _vander(x: torch.Tensor, count: int | None, increasing: bool) -> Any:
    count = x.shape[-1] if count is None else count
    if not static(count) or count == 0:
        return NotImplemented
    columns = [torch.ones_like(x)]
    for _ in range(count - 1):
        columns.append(columns[-1] * x)
    return torch.stack(columns if increasing else columns[::-1], -1)


def _to_dtype(x: torch.Tensor, dtype: torch.dtype, non_blocking: bool, copy: bool, memory_format: Any) -> Any:
    del copy
    return _converted(x, dtype) if non_blocking and memory_format is None else NotImplemented


def _to_layout(
    x: torch.Tensor,
    dtype: torch.dtype | None,
    layout: Any,
    device: Any,
    pin_memory: Any,
    non_blocking: bool,
    copy: bool,
    memory_format: Any,
) -> Any:
    del layout, device, pin_memory
    return _to_dtype(x, dtype or x.dtype, non_blocking, copy, memory_format)


def _converted(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return x.to(dtype) if dtype != x.dtype else torch.clone(x)
