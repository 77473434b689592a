"""The survey as a page: a row a model, then the outliers, and what ran outside of the delegates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import exp, log
from statistics import median
from typing import Any

from benchmarks.coverage.outcome import without_paths
from benchmarks.coverage.suite import TARGETS
from benchmarks.publish import render_origin
from edgex.runtime.measure.results.row import Row

OURS = TARGETS
EAGER = "reference"
PEERS = (EAGER, "aoti", "openvino", "litert")
FLOATS = ("fp32", "bf16", "fp16")
_BEHIND_OURS, _BEHIND_PEERS = 1.25, 1.1
# Times that differ by less are called equal.
_NOISE = 1.05

_TITLE = "# Speed on many architectures"
Surveyed = Mapping[str, Any]


def collect(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """The figures of the page: an entry for each model and precision or recipe, from the rows of a sweep."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        entry = found.setdefault(
            (row.model, row.recipe or row.precision),
            {
                "name": row.model,
                "precision": row.recipe or row.precision,
                "seconds": {},
                "outside": {},
                "failures": {},
                "warnings": [],
            },
        )
        if row.timing is not None:
            entry["seconds"][row.target] = [float(f"{value:.6g}") for value in row.timing.round_medians_seconds]
            entry["warnings"] = sorted({*entry["warnings"], *row.timing.warnings})
        if row.made is not None and row.made.left_out and row.target in OURS:
            operators = {left.op: 0 for left in row.made.left_out}
            for left in row.made.left_out:
                operators[left.op] += left.count
            entry["outside"][row.target] = {"calls": row.made.delegate_calls, "operators": operators}
        if row.failure is not None and row.status != "refused":
            entry["failures"][row.target] = without_paths(row.failure.what)
    return list(found.values())


def render(document: Mapping[str, Any]) -> str:
    """The page of a survey, and of those on other machines behind it (`also`)."""
    pages = [_render_one(document)]
    for other in document.get("also", ()):
        page = _render_one(other).replace("\n#", "\n##")
        pages.append(page.replace(_TITLE, f"## On another machine: {other['cpu']}", 1))
    return "\n".join(pages)


def _render_one(document: Mapping[str, Any]) -> str:
    rows: Sequence[Surveyed] = document["models"]
    lines = [
        _TITLE,
        "",
        f"{len({row['name'] for row in rows})} models, {document['threads']} threads, batch 1, {document['cpu']}. The "
        "artifacts of a row were timed in turns, each in a process of its own; figures are medians in milliseconds. "
        f"{_disturbed(rows)}{document.get('note', '')}{render_origin(document)}",
        "",
        "`reference` is the exported program on PyTorch's own kernels, as eager runs them; `aoti` is Inductor's "
        "compiler, ahead of time. `torch.compile` itself is not among them: what it makes "
        "runs only in the process that made it. "
        "ONNX Runtime is `onnx-cpu`; `litert` is LiteRT's interpreter on its XNNPACK delegate, timed where its "
        "packages are installed. Core AI and QNN are not here: one runs on this CPU only to be proved, the other in a "
        "simulator.",
        "",
        "`make speed` goes through every architecture of the coverage suite, many hours; `make speed SPEED='--sample'` "
        "through ten. It is a plan of `edgex sweep`: where it is interrupted, it goes on.",
    ]
    floats = {row["name"]: _times(row) for row in rows if row["precision"] == "fp32"}
    for precision in sorted(
        {row["precision"] for row in rows}, key=lambda one: (one not in FLOATS, one != "fp32", one)
    ):
        some = [row for row in rows if row["precision"] == precision]
        shown = [who for who in (*OURS, *PEERS) if any(who in row["seconds"] for row in some)]
        lines += [
            "",
            f"## {precision}",
            "",
            f"| model | {' | '.join(shown)} |",
            f"|---|{'---:|' * len(shown)}",
            *(_row(row, shown) for row in some),
            "",
            *_summary(some),
            *(_gains(some, floats) if precision != "fp32" and floats else []),
        ]
    lines += [
        "",
        "## Outliers",
        "",
        f"Over {_BEHIND_OURS} of the best of our targets, over {_BEHIND_PEERS} of the best peer, slower than eager, or "
        "in fewer bits and slower than float32 on the same target.",
        "",
        *(find_outliers(rows) or ["None."]),
        "",
        "## Outside of the delegate",
        "",
        *_outside(rows),
    ]
    failed = [f"- {_label(row)}, {who}: {why}" for row in rows for who, why in sorted(row["failures"].items())]
    if failed:
        lines += ["", "## Did not run", "", *failed]
    return "\n".join(lines) + "\n"


def find_outliers(rows: Sequence[Surveyed]) -> list[str]:
    """Each target that is behind, as a line."""
    found = []
    floats = {row["name"]: _times(row) for row in rows if row["precision"] == "fp32"}
    for row in rows:
        times = _times(row)
        best_ours = min((times[target] for target in OURS if target in times), default=None)
        best_peer = min((times[peer] for peer in PEERS if peer in times), default=None)
        for target in OURS:
            if target not in times or best_ours is None:
                continue
            reasons = []
            if times[target] > _BEHIND_OURS * best_ours:
                reasons.append(f"{times[target] / best_ours:.2f} of our best")
            if best_peer is not None and times[target] > _BEHIND_PEERS * best_peer:
                reasons.append(f"{times[target] / best_peer:.2f} of the best peer")
            if EAGER in times and times[target] > times[EAGER]:
                reasons.append("slower than eager")
            if (whole := _whole(row, floats).get(target)) and times[target] > _NOISE * whole:
                reasons.append(f"{times[target] / whole:.2f} of its float32")
            if reasons:
                found.append(f"- {_label(row)}, {target}: {', '.join(reasons)}")
    return found


def _label(row: Surveyed) -> str:
    return str(row["name"]) if row["precision"] == "fp32" else f"{row['name']} in {row['precision']}"


def _whole(row: Surveyed, floats: Mapping[str, Mapping[str, float]]) -> Mapping[str, float]:
    """The times of the same model in float32; nothing for float32 itself."""
    return {} if row["precision"] == "fp32" else floats.get(row["name"], {})


def _gains(rows: Sequence[Surveyed], floats: Mapping[str, Mapping[str, float]]) -> list[str]:
    """How much quicker than float32 each target is in fewer bits, and on how many models it is slower."""
    lines = []
    for target in OURS:
        found = [
            whole / few
            for row in rows
            if (few := _times(row).get(target)) and (whole := _whole(row, floats).get(target))
        ]
        if found:
            mean = exp(sum(map(log, found)) / len(found))
            slower = sum(ratio * _NOISE < 1 for ratio in found)
            lines.append(f"- {target}: {mean:.2f}x over float32 (geometric mean of {len(found)}), slower on {slower}")
    return lines


def _times(row: Surveyed) -> dict[str, float]:
    return {who: median(seconds) for who, seconds in row["seconds"].items()}


def _disturbed(rows: Sequence[Surveyed]) -> str:
    """What else the machine did, by the warnings of the measurements."""
    found = sum(bool(row["warnings"]) for row in rows)
    codes = ", ".join(sorted({code for row in rows for code in row["warnings"]}))
    return f"{found} of {len(rows)} were measured with warnings ({codes}). " if found else ""


def _row(row: Surveyed, shown: Sequence[str]) -> str:
    times = _times(row)
    best = min(times.values(), default=0.0)

    def cell(who: str) -> str:
        if who not in times:
            return "–"
        text = f"{1e3 * times[who]:.2f}"
        return f"**{text}**" if times[who] == best else text

    return f"| {row['name']} | {' | '.join(map(cell, shown))} |"


def _summary(rows: Sequence[Surveyed]) -> list[str]:
    lines = []
    compared = [
        (min(ours), min(peers))
        for times in map(_times, rows)
        if (ours := [times[target] for target in OURS if target in times])
        and (peers := [times[peer] for peer in PEERS if peer in times])
    ]
    if compared:
        won = sum(ours <= _NOISE * peer for ours, peer in compared)
        lines.append(
            f"- The best of our targets is as fast as every peer, or within {_NOISE - 1:.0%}: {won} of {len(compared)}"
        )
    for target in OURS:
        ratios = []
        for row in rows:
            times = _times(row)
            peers = [times[peer] for peer in PEERS if peer in times]
            if target in times and peers:
                ratios.append(min(peers) / times[target])
        if ratios:
            mean = exp(sum(map(log, ratios)) / len(ratios))
            lines.append(
                f"- {target}: {mean:.2f} of the speed of the best peer of each model "
                f"(geometric mean of {len(ratios)}); {_behind(rows, target)}"
            )
    return lines


def _behind(rows: Sequence[Surveyed], target: str) -> str:
    """How many models take a target much longer than the best of our targets."""
    behind = [
        times[target] / min(times[one] for one in OURS if one in times)
        for times in map(_times, rows)
        if target in times
    ]
    over, far = (sum(ratio > bound for ratio in behind) for bound in (_BEHIND_OURS, 1.5))
    return f"over {_BEHIND_OURS} of our best on {over} of {len(behind)}, over 1.5 on {far}"


def _outside(rows: Sequence[Surveyed]) -> list[str]:
    lines = []
    for row in rows:
        for target, found in row["outside"].items():
            listed = ", ".join(f"{op} x{count}" for op, count in sorted(found["operators"].items()))
            lines.append(f"- {_label(row)}, {target}, {found['calls']} calls: {listed}")
    return lines or ["Nothing."]
