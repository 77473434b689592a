"""How far a quantized language model's choices are from the float model's: what errors of its scores come to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from edgex.runtime.session.numerics import round_significant


@dataclass(frozen=True)
class Agreement:
    """Scores of a text that eager goes on with its own likeliest tokens, compared call by call.

    Attributes:
        calls: How many.
        kl_divergence: Mean of the Kullback-Leibler divergence from eager's distribution, in nats.
        top1: The share of the calls whose likeliest token is eager's.
        greedy_prefix: How many tokens both write alike when both take the likeliest, `calls` at most.
    """

    calls: int
    kl_divergence: float
    top1: float
    greedy_prefix: int

    def to_json(self) -> dict[str, Any]:
        """A JSON object with the fields as they are named here, rounded to two digits."""
        rounded = {"kl_divergence": round_significant(self.kl_divergence), "top1": round_significant(self.top1)}
        return {**asdict(self), **rounded}


def measure_agreement(expected: Sequence[np.ndarray], actual: Sequence[np.ndarray]) -> Agreement:
    """Compare scores.

    Args:
        expected: Eager's after each call, float `[..., vocabulary]`; each but the last is followed by its likeliest.
        actual: The artifact's after the same calls.
    """
    divergences, equal = [], []
    for wanted, found in zip(expected, actual, strict=True):
        wide, narrow = (_log_probabilities(scores) for scores in (wanted, found))
        divergences.append(float(np.sum(np.exp(wide) * (wide - narrow))))
        equal.append(int(wide.argmax()) == int(narrow.argmax()))
    prefix = equal.index(False) if False in equal else len(equal)
    return Agreement(len(equal), float(np.mean(divergences)), float(np.mean(equal)), prefix)


def _log_probabilities(scores: np.ndarray) -> np.ndarray:
    """Of the last position, float64 `[vocabulary]`."""
    wide = scores.reshape(-1, scores.shape[-1])[-1].astype(np.float64)
    wide -= wide.max()
    logs: np.ndarray = wide - np.log(np.exp(wide).sum())
    return logs
