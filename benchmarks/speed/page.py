"""The survey as a page: a row a model, then the outliers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, log
from statistics import median
from typing import Any

from benchmarks.coverage.suite import TARGETS
from benchmarks.publish import render_origin

_PEERS = ("eager", "inductor", "openvino")
_BEHIND_OURS, _BEHIND_PEERS = 1.25, 1.1


def render(document: Mapping[str, Any]) -> str:
    """The page of a survey."""
    rows = document["models"]
    lines = [
        "# Speed on many architectures",
        "",
        f"{len(rows)} models, float32, {document['threads']} threads, batch 1, {document['cpu']}. All of a row "
        f"ran in one process in turns, {document['rounds']} rounds; figures are medians in milliseconds. "
        f"{document['load']} {render_origin(document)}",
        "",
        "`make speed` goes through every architecture of the coverage suite, some hours; `make speed SPEED='--sample'` "
        "through ten.",
        "",
        f"| model | {' | '.join((*TARGETS, *_PEERS))} |",
        f"|---|{'---:|' * (len(TARGETS) + len(_PEERS))}",
        *(_row(row) for row in rows),
        "",
        *_summary(rows),
        "",
        "## Outliers",
        "",
        f"Over {_BEHIND_OURS} of the best of our targets, over {_BEHIND_PEERS} of the best peer, or slower than eager.",
        "",
        *(find_outliers(rows) or ["None."]),
        "",
        "## Outside of the delegate",
        "",
        *_outside(rows),
    ]
    failed = [f"- {row['name']}, {who}: {why}" for row in rows for who, why in sorted(row["failures"].items())]
    if failed:
        lines += ["", "## Did not run", "", *failed]
    return "\n".join(lines) + "\n"


def find_outliers(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Each target that is behind, as a line."""
    found = []
    for row in rows:
        times = _times(row)
        best_ours = min((times[target] for target in TARGETS if target in times), default=None)
        best_peer = min((times[peer] for peer in _PEERS if peer in times), default=None)
        for target in TARGETS:
            if target not in times or best_ours is None:
                continue
            reasons = []
            if times[target] > _BEHIND_OURS * best_ours:
                reasons.append(f"{times[target] / best_ours:.2f} of our best")
            if best_peer is not None and times[target] > _BEHIND_PEERS * best_peer:
                reasons.append(f"{times[target] / best_peer:.2f} of the best peer")
            if "eager" in times and times[target] > times["eager"]:
                reasons.append("slower than eager")
            if reasons:
                found.append(f"- {row['name']}, {target}: {', '.join(reasons)}")
    return found


def _times(row: Mapping[str, Any]) -> dict[str, float]:
    return {who: median(seconds) for who, seconds in row["seconds"].items()}


def _row(row: Mapping[str, Any]) -> str:
    times = _times(row)
    best = min(times.values(), default=0.0)

    def cell(who: str) -> str:
        if who not in times:
            return "–"
        text = f"{1e3 * times[who]:.2f}"
        return f"**{text}**" if times[who] == best else text

    return f"| {row['name']} | {' | '.join(cell(who) for who in (*TARGETS, *_PEERS))} |"


def _summary(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = []
    for target in TARGETS:
        ratios = []
        for row in rows:
            times = _times(row)
            peers = [times[peer] for peer in _PEERS if peer in times]
            if target in times and peers:
                ratios.append(min(peers) / times[target])
        if ratios:
            mean = exp(sum(map(log, ratios)) / len(ratios))
            lines.append(
                f"- {target}: {mean:.2f} of the speed of the best peer of each model (geometric mean of {len(ratios)})"
            )
    return lines


def _outside(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = []
    for row in rows:
        for target, found in row["outside"].items():
            if found["operators"]:
                listed = ", ".join(f"{op} x{count}" for op, count in sorted(found["operators"].items()))
                lines.append(f"- {row['name']}, {target}, {found['calls']} calls: {listed}")
    return lines or ["Nothing."]
