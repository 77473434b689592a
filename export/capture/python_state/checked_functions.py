"""Functions of torch that look at their numbers before they compute: their formulas, while torch.export follows.

```
torch.cov(x)             # reads its own normalization as a number, to warn of one that is not positive
after:   x = x - x.mean(1, keepdim=True);  x @ x.mT / (n - 1)
```
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from edgex.errors import CaptureError


def _cov(input: torch.Tensor, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> torch.Tensor:
    if fweights is not None or aweights is not None:
        raise CaptureError(
            "torch.cov with weights reads them as numbers, and an exported program has one path",
            fix="write the weighted mean and product: x = x - (w * x).sum(1, keepdim=True) / w.sum(); "
            "(w * x) @ x.mT / (w.sum() - 1)",
        )
    rows = input.reshape(1, -1) if input.dim() < 2 else input
    centred = rows - rows.mean(1, keepdim=True)
    product = centred @ centred.mT.conj() / max(rows.shape[1] - correction, 0)
    return product.squeeze() if input.dim() < 2 else product


def _corrcoef(input: torch.Tensor) -> torch.Tensor:
    product = _cov(input)
    if product.dim() == 0:
        return product / product
    lengths = product.diagonal().sqrt()
    return (product / lengths.unsqueeze(1) / lengths).clamp(-1.0, 1.0)


def _lstsq(*_: Any, **__: Any) -> Any:
    raise CaptureError(
        "torch.linalg.lstsq cannot be exported: how many residuals it has depends on the matrix's rank",
        fix="where the matrix has full rank and is well conditioned: torch.linalg.solve(a.mT @ a, a.mT @ b), which "
        "every target takes up to 8 columns; for a constant matrix, keep torch.linalg.pinv(a) in a buffer",
    )


_FORMULAS: dict[Any, Callable[..., Any]] = {
    torch.cov: _cov,
    torch.Tensor.cov: _cov,
    torch.corrcoef: _corrcoef,
    torch.Tensor.corrcoef: _corrcoef,
    torch.linalg.lstsq: _lstsq,
}


class Unchecked(TorchFunctionMode):
    """Computes these functions by their formulas."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """As torch calls it."""
        return _FORMULAS.get(func, func)(*args, **(kwargs or {}))
