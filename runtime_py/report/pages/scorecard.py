"""The page of a sweep: what works on which target and why the rest does not, latencies, outliers, and what changed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgex.runtime.report.figures import format_bytes, format_seconds
from edgex.runtime.report.pages.template import render_template

# Of a strip of latencies, in user units of its SVG.
_WIDTH, _LEFT, _RIGHT, _LANE, _TOP = 760, 150, 24, 34, 8
_AXIS = 26
# Discs of a lane lie on so many heights in turn, so that those beside each other can be told apart.
_HEIGHTS = (0, -7, 7)


@dataclass(frozen=True)
class Dot:
    """One model in a lane."""

    x: float
    y: float
    text: str


@dataclass(frozen=True)
class Lane:
    """All models of one kind of artifact on one device."""

    label: str
    y: float
    dots: tuple[Dot, ...]
    median_x: float
    text: str


@dataclass(frozen=True)
class Tick:
    """A mark on the axis of time, which is logarithmic."""

    x: float
    text: str


def render_scorecard(document: Mapping[str, Any]) -> str:
    """The text of an `.html` file.

    Args:
        document: An `edgex.scorecard/1`.
    """
    filters: dict[str, Callable[..., Any]] = {
        "bytes": format_bytes,
        "time": format_seconds,
        "place": lambda device: "" if device == "here" else f" on {device}",
        "percent": lambda share: f"{100 * share:.0f} %",
    }
    lanes, ticks = plot_latency(document["latency"])
    height = _TOP + _LANE * len(lanes) + _AXIS
    return render_template(
        "scorecard.html.j2",
        filters,
        document=document,
        lanes=lanes,
        ticks=ticks,
        box={"width": _WIDTH, "height": height, "left": _LEFT, "right": _WIDTH - _RIGHT, "bottom": height - _AXIS},
    )


def plot_latency(latency: Sequence[Mapping[str, Any]]) -> tuple[list[Lane], list[Tick]]:
    """A lane each, one below the other, on one logarithmic axis."""
    if not latency:
        return [], []
    low = math.log10(min(entry["min_seconds"] for entry in latency)) - 0.1
    high = math.log10(max(entry["max_seconds"] for entry in latency)) + 0.1

    def x(seconds: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (math.log10(seconds) - low) / (high - low)

    lanes = []
    for number, entry in enumerate(latency):
        y = _TOP + _LANE * (number + 0.5)
        models = sorted(entry["models"], key=lambda model: model["seconds"])
        dots = tuple(
            Dot(
                x(model["seconds"]),
                y + _HEIGHTS[at % len(_HEIGHTS)],
                f"{model['model']}: {format_seconds(model['seconds'])}",
            )
            for at, model in enumerate(models)
        )
        place = "" if entry["device"] == "here" else f" on {entry['device']}"
        text = f"median of {entry['count']}: {format_seconds(entry['median_seconds'])}"
        lanes.append(Lane(f"{entry['artifact']}{place}", y, dots, x(entry["median_seconds"]), text))
    return lanes, [Tick(x(seconds), format_seconds(seconds, digits=2)) for seconds in _choose_marks(low, high)]


def _choose_marks(low: float, high: float) -> list[float]:
    """Powers of ten within the range; of a narrow one, twice and five times them too."""
    powers = range(math.floor(low), math.ceil(high) + 1)
    factors = (1,) if high - low > 2.0 else (1, 2, 5)
    marks = [factor * 10.0**power for power in powers for factor in factors]
    return [mark for mark in marks if low <= math.log10(mark) <= high]
