"""Marks on the axes of plots."""

from __future__ import annotations

import math
from dataclasses import dataclass

_TICKS = 5


@dataclass(frozen=True)
class Tick:
    """A mark on an axis: where it is, in user units of the SVG, and what it says."""

    at: float
    text: str


def choose_marks(most: float) -> list[float]:
    """About five round values from 0 to `most`, which is above 0."""
    pitch = _round_step(most / _TICKS)
    return [pitch * n for n in range(int(most / pitch) + 1)]


def _round_step(least: float) -> float:
    """The next of 1, 2 and 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * 0.999)
