"""One median run as Chrome trace JSON, which https://ui.perfetto.dev and chrome://tracing open.

A traced run measures every operator, not when it started: the rows are laid out one after the other in order of
execution, each as long as its median. Tracks, from the top: the engine with its own kernels and its calls to
delegates; each delegate with its operators; the modules, nested; the planned arena's bytes in use.

Slices are pairs of B and E, and every E closes the B opened last on its track: Perfetto accepts no others.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from edgex.runtime.engines.trace.operators import OperatorRow, OperatorTensor
from edgex.runtime.measure.profile.report import ProfileReport
from edgex.runtime.report import views
from edgex.runtime.report.figures import format_tensor

_PROCESS = 1
_ENGINE = 1


def render_trace(report: ProfileReport) -> str:
    """The text of a `.trace.json` file; timestamps are microseconds, written to the nanosecond."""
    document = {
        "displayTimeUnit": "ns",
        "otherData": {
            "producer": f"edgex {report.edgex_version}",
            "artifact": report.artifact.name,
            "target": report.artifact.target,
            "precision": report.artifact.precision,
            "recipe": report.artifact.recipe,
            "digest": report.artifact.digest,
            "executed_on": report.executed_on,
            "layout": "medians of traced runs, one after the other; starts are not measured",
        },
        "traceEvents": list(_events(report)),
    }
    return json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"


def _events(report: ProfileReport) -> Iterable[dict[str, Any]]:
    delegates = list(dict.fromkeys(row.delegate for row in report.ops if row.delegate is not None))
    track_of = {name: _ENGINE + 1 + at for at, name in enumerate(delegates)}
    modules = _ENGINE + 1 + len(delegates)
    names = {_ENGINE: report.artifact.engine, **{track: name for name, track in track_of.items()}, modules: "modules"}
    yield _meta("process_name", 0, name=f"{report.artifact.name} on {report.artifact.target}")
    for track, name in names.items():
        yield _meta("thread_name", track, name=name)
        yield _meta("thread_sort_index", track, sort_index=track)

    starts = _lay_out(report.ops)
    run = [] if report.trace is None else [round(report.trace.execute_seconds * 1e6, 3)]
    end = max([starts[-1], *run])
    engine, inner = _Track(_ENGINE), {name: _Track(track) for name, track in track_of.items()}
    path = _Track(modules)
    yield from engine.open(["run"], 0.0)
    for row, start, stop in zip(report.ops, starts, starts[1:], strict=False):
        if row.delegate is None:
            yield from engine.open(["run"], start)
            yield from engine.slice(row.op_type, start, stop, _describe(row))
        else:
            yield from engine.open(["run", row.delegate], start)
            yield from inner[row.delegate].slice(row.op_type, start, stop, _describe(row))
        mapped = row.map_confidence in ("exact", "aligned") and row.module_path is not None
        yield from path.open([report.artifact.name, *_parts(row.module_path)] if mapped else [], start)
    yield from path.open([], starts[-1])
    yield from engine.open(["run"], starts[-1])
    yield from engine.open([], end)
    for level, start in zip(views.live_bytes(report), starts, strict=False):
        yield {"ph": "C", "name": "arena in use", "pid": _PROCESS, "ts": start, "args": {"bytes": level}}


class _Track:
    """Open slices of one track, outermost first."""

    def __init__(self, track: int) -> None:
        self._track = track
        self._open: list[str] = []

    def open(self, names: list[str], at: float) -> Iterable[dict[str, Any]]:
        """Close and open slices until exactly these are open; what is open already stays open."""
        common = 0
        while common < min(len(names), len(self._open)) and names[common] == self._open[common]:
            common += 1
        for name in reversed(self._open[common:]):
            yield self._event("E", name, at)
        for name in names[common:]:
            yield self._event("B", name, at)
        self._open = list(names)

    def slice(self, name: str, start: float, stop: float, args: dict[str, Any]) -> Iterable[dict[str, Any]]:
        """One slice within those that are open."""
        yield {**self._event("B", name, start), "args": args}
        yield self._event("E", name, stop)

    def _event(self, phase: str, name: str, at: float) -> dict[str, Any]:
        return {"ph": phase, "name": name, "pid": _PROCESS, "tid": self._track, "ts": at}


def _lay_out(rows: Iterable[OperatorRow]) -> list[float]:
    """Where each row starts, in microseconds, and at the end where the last one ends."""
    starts, at = [0.0], 0.0
    for row in rows:
        at += (row.median_seconds or 0.0) * 1e6
        starts.append(round(at, 3))
    return starts


def _parts(path: str | None) -> list[str]:
    return path.split(".") if path else []


def _describe(row: OperatorRow) -> dict[str, Any]:
    """What is shown for a selected slice; unknown is left out."""
    shown: dict[str, Any] = {
        "name": row.name,
        "category": row.category,
        "module": ", ".join(path or "(the model itself)" for path in row.module_paths) or None,
        "source": ", ".join(row.sources) or None,
        "operators": ", ".join(row.operators) or None,
        "mapping": row.map_confidence,
        "inputs": _tensors(row.inputs),
        "outputs": _tensors(row.outputs),
        "flops": row.flops,
        "bytes": row.bytes,
        "gflops": row.gflops,
        "gbps": row.gbps,
        "roofline_fraction": row.roofline_fraction,
        "time": "below the clock's resolution" if row.median_seconds is None else None,
    }
    return {name: value for name, value in shown.items() if value is not None}


def _tensors(tensors: Iterable[OperatorTensor]) -> str | None:
    return ", ".join(map(format_tensor, tensors)) or None


def _meta(kind: str, track: int, **args: Any) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": _PROCESS, "tid": track, "args": args}
