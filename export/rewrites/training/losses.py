"""Formulas of losses of soft or smoothed labels: ONNX's knows neither, and its translation leaves the smoothing out.

```
before:  y = aten.cross_entropy_loss.default(x, labels)     # labels: a probability for every class
after:   y = -(log_softmax(x, 1) * labels).sum(1).mean()
```
"""

from __future__ import annotations

from typing import Any

import torch

from edgex.export.rewrites.editing.substitution import Rule, Rules

aten = torch.ops.aten

_MEAN, _SUM = 1, 2  # what `reduction` of a loss says


def rules_of_losses() -> Rules:
    """The rules of this file, by operator."""
    return {aten.cross_entropy_loss.default: Rule(_cross_entropy, apart=True)}


def _cross_entropy(
    x: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    reduction: int,
    ignored: int,
    smoothing: float,
) -> Any:
    soft = target.shape == x.shape and target.is_floating_point()
    if not soft and smoothing == 0:
        return NotImplemented  # engines have it
    channels = 1 if x.dim() > 1 else 0
    classes = x.shape[channels]
    logarithms = torch.log_softmax(x, channels)
    spread = [-1 if dim == channels else 1 for dim in range(x.dim())]
    weighed = logarithms if weight is None else logarithms * weight.reshape(spread)
    if soft:
        labels = target * (1 - smoothing) + smoothing / classes if smoothing else target
        losses = -(weighed * labels).sum(channels)
        return _reduced(losses, reduction, losses.numel())
    kept = target != ignored
    at = torch.where(kept, target, torch.zeros_like(target))
    right = -torch.gather(weighed, channels, at.unsqueeze(channels)).squeeze(channels)
    losses = right * (1 - smoothing) - weighed.sum(channels) * (smoothing / classes)
    losses = torch.where(kept, losses, torch.zeros_like(losses))
    counted = kept.to(x.dtype) if weight is None else torch.where(kept, weight[at], torch.zeros_like(losses))
    return _reduced(losses, reduction, counted.sum())


def _reduced(losses: torch.Tensor, reduction: int, count: Any) -> Any:
    if reduction == _MEAN:
        return losses.sum() / count
    return losses.sum() if reduction == _SUM else losses
