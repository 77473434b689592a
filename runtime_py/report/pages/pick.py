"""The page of `edgex pick`: latency against error, a disc as large as the model, and the table of all combinations."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from edgex.runtime.report.figures import format_bytes, format_options, format_seconds
from edgex.runtime.report.pages.axis import Tick, choose_marks
from edgex.runtime.report.pages.template import render_template

# Of the plot, in user units of its SVG.
_WIDTH, _HEIGHT = 760, 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 24, 18, 46
_LEAST_RADIUS, _MOST_RADIUS = 5.0, 16.0
_TICKS = 5
# About how wide a letter of a name is.
_LETTER = 6.5


@dataclass(frozen=True)
class Disc:
    """A timed combination in the plot; where it lies, in user units."""

    label: str
    x: float
    y: float
    radius: float
    verdict: str
    pareto: bool
    text: str
    name_x: float = 0.0
    name_y: float = 0.0
    anchor: str = "start"


def render_pick(document: Mapping[str, Any]) -> str:
    """The text of an `.html` file.

    Args:
        document: An `edgex.pick/1`.
    """
    timed = [row for row in document["candidates"] if row["median_seconds"] is not None]
    like = min((row["median_seconds"] for row in timed), default=None)
    filters: dict[str, Callable[..., Any]] = {
        "bytes": format_bytes,
        "time": lambda seconds: format_seconds(seconds, like),
        "artifact": name_of,
        "settings": format_options,
    }
    discs, across, up = _plot(timed, like)
    front = sorted((disc for disc in discs if disc.pareto), key=lambda disc: disc.x)
    return render_template(
        "pick.html.j2",
        filters,
        document=document,
        rows=document["candidates"],
        discs=discs,
        front=" ".join(f"{disc.x:.1f},{disc.y:.1f}" for disc in front),
        across=across,
        up=up,
        box={"width": _WIDTH, "height": _HEIGHT, "left": _LEFT, "bottom": _HEIGHT - _BOTTOM, "right": _WIDTH - _RIGHT},
    )


def _plot(rows: Sequence[Mapping[str, Any]], like: float | None) -> tuple[list[Disc], list[Tick], list[Tick]]:
    """Discs and the marks of both axes: latency from 0 to the right, error in dB upwards."""
    if not rows:
        return [], [], []
    slowest: float = 1.1 * max(row["median_seconds"] for row in rows)
    errors = [row["error_db"] for row in rows]
    low: float
    high: float
    low, high = math.floor(min(errors) / 10) * 10 - 5, math.ceil(max(errors) / 10) * 10 + 5
    largest = max(row["bytes"] for row in rows) or 1

    def x(seconds: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * seconds / slowest

    def y(error: float) -> float:
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (high - error) / (high - low)

    discs = [
        Disc(
            name_of(row),
            x(row["median_seconds"]),
            y(row["error_db"]),
            # Areas, not radii, are in proportion to sizes.
            max(_LEAST_RADIUS, _MOST_RADIUS * math.sqrt(row["bytes"] / largest)),
            row["verdict"],
            row["pareto"],
            f"{format_seconds(row['median_seconds'], like)}, {row['error_db']:.1f} dB, {format_bytes(row['bytes'])}",
        )
        for row in rows
    ]
    across = [Tick(x(seconds), format_seconds(seconds, like, 2)) for seconds in choose_marks(slowest)]
    step = max(10, round((high - low) / _TICKS / 10) * 10)
    first = math.ceil(low / step) * step
    up = [Tick(y(value), f"{value} dB") for value in range(first, int(high) + 1, step)]
    return _name_discs(discs), across, up


def _name_discs(discs: Sequence[Disc]) -> list[Disc]:
    """Each name beside, above or below its disc: where it covers neither another disc nor a name."""
    taken = [(d.x - d.radius, d.y - d.radius, d.x + d.radius, d.y + d.radius) for d in discs]
    named = []
    for disc in discs:
        wide, gap = _LETTER * len(disc.label), disc.radius + 5
        places = [
            (disc.x + gap, disc.y + 4, "start", disc.x + gap),
            (disc.x - gap, disc.y + 4, "end", disc.x - gap - wide),
            (disc.x, disc.y - gap, "middle", disc.x - wide / 2),
            (disc.x, disc.y + gap + 9, "middle", disc.x - wide / 2),
        ]
        boxes = [(left, y - 10, left + wide, y + 3) for _, y, _, left in places]
        free = [
            at for at, box in enumerate(boxes)
            if box[0] >= 0 and box[2] <= _WIDTH and not any(_overlap(box, other) for other in taken)
        ]  # fmt: skip
        at = free[0] if free else 2
        taken.append(boxes[at])
        named.append(replace(disc, name_x=places[at][0], name_y=places[at][1], anchor=places[at][2]))
    return named


def _overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def name_of(row: Mapping[str, Any]) -> str:
    """`xnnpack int8`: the target of a combination, and what differs from float32."""
    kind = row["recipe"] or ("" if row["precision"] == "fp32" else row["precision"])
    return f"{row['target']} {kind}".strip()
