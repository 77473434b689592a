"""What the scripts of the HTML page read: one compact JSON value a report.

Rows are columns of equal length; texts are indices into `strings`, -1 for none. The order of columns' entries is that
of `report.ops`, and every other part names rows by that order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from edgex.runtime.engines.trace.operators import Ceilings, OperatorRow
from edgex.runtime.engines.trace.tracing import compute_dtype
from edgex.runtime.measure.profile.report import ProfileReport
from edgex.runtime.report import views
from edgex.runtime.report.figures import format_seconds, format_tensor
from edgex.runtime.report.listings import describe_unmapped

KINDS = ("compute", "fallback", "layout", "cast", "overhead")
_BINS = 64


def describe_report(report: ProfileReport) -> dict[str, Any]:
    """Everything that is drawn or listed by script, for one report."""
    strings = _Strings()
    outside = set(views.fallback_rows(report))
    texts: dict[str, Callable[[OperatorRow], str | None]] = {
        "name": lambda row: row.name,
        "type": views.name_work,
        "delegate": lambda row: row.delegate or views.own_kernels(report),
        "confidence": lambda row: row.map_confidence,
        "module": lambda row: row.module_path,
        "modules": lambda row: ", ".join(path or "(the model itself)" for path in row.module_paths) or None,
        "source": lambda row: row.source,
        "sources": lambda row: ", ".join(row.sources) or None,
        "operators": lambda row: ", ".join(row.operators) or None,
        "inputs": lambda row: ", ".join(map(format_tensor, row.inputs)) or None,
        "outputs": lambda row: ", ".join(map(format_tensor, row.outputs)) or None,
        "computes": lambda row: compute_dtype(row) or None,
    }
    kinds = ["fallback" if at in outside else row.category for at, row in enumerate(report.ops)]
    tree = views.by_module(report)
    return {
        "name": report.artifact.name,
        "delegate": views.find_delegate(report),
        "total": views.total_seconds(report) * 1e6,
        "resolution": None if report.trace is None else report.trace.resolution_seconds * 1e6,
        "texts": {name: [strings.index(get(row)) for row in report.ops] for name, get in texts.items()},
        "kind": [KINDS.index(kind) for kind in kinds],
        "us": [_round(None if row.median_seconds is None else row.median_seconds * 1e6) for row in report.ops],
        "count": [row.count for row in report.ops],
        "flops": [row.flops for row in report.ops],
        "bytes": [row.bytes for row in report.ops],
        "gflops": [_round(row.gflops) for row in report.ops],
        "gbps": [_round(row.gbps) for row in report.ops],
        "roof": [_round(row.roofline_fraction) for row in report.ops],
        "modules": _describe_module(tree.root),
        "unmapped": list(tree.unmapped.rows),
        "unmapped_text": describe_unmapped(report, tree.unmapped, "module"),
        "ceilings": None if report.ceilings is None else _describe_ceilings(report.ceilings),
        "latency": _describe_latency(report),
        "arena": _describe_arena(report, strings),
        "strings": strings.all,
    }


class _Strings:
    """Each text once."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self._places: dict[str, int] = {}

    def index(self, text: str | None) -> int:
        if text is None:
            return -1
        place = self._places.setdefault(text, len(self.all))
        if place == len(self.all):
            self.all.append(text)
        return place


def _describe_module(node: views.ModuleNode) -> list[Any]:
    """[name, total, own, own rows, submodules]; names are short, so they need no index."""
    children = [_describe_module(child) for child in node.children]
    return [node.name, _round(node.total_seconds * 1e6), _round(node.self_seconds * 1e6), list(node.rows), children]


def _describe_ceilings(ceilings: Ceilings) -> dict[str, Any]:
    return {"threads": ceilings.threads, "gflops": dict(ceilings.gflops), "gbps": ceilings.gbps}


def _describe_latency(report: ProfileReport) -> dict[str, Any]:
    """The samples as a histogram without their long tail; microseconds."""
    steady = report.steady
    pooled = np.concatenate([np.asarray(samples, dtype=np.float64) for samples in report.rounds]) * 1e6
    low = steady.min * 1e6
    high = min(float(pooled.max()), (steady.median + 10.0 * steady.mad) * 1e6)
    high = float(pooled.max()) if steady.p90 is None else max(high, steady.p90 * 1e6)
    heights, _ = np.histogram(pooled, bins=_BINS, range=(low, high)) if high > low else ([pooled.size], None)
    interval = steady.median_ci95
    return {
        "low": _round(low),
        "high": _round(high),
        "bins": [int(height) for height in heights],
        "beyond": float(np.mean(pooled > high)),
        "slowest": _round(float(pooled.max())),
        "median": _round(steady.median * 1e6),
        "headline": format_seconds(steady.median, digits=4),
        "interval": None if interval is None else [_round(end * 1e6) for end in interval],
        **{name: _round(None if value is None else value * 1e6)
           for name, value in (("p90", steady.p90), ("p95", steady.p95), ("p99", steady.p99))},
    }  # fmt: skip


def _describe_arena(report: ProfileReport, strings: _Strings) -> dict[str, Any] | None:
    spans = report.memory.arena
    if not spans:
        return None
    return {
        "planned": report.memory.planned_arena_bytes,
        "spans": [[strings.index(s.name), s.offset_bytes, s.bytes, s.first_op, s.last_op] for s in spans],
        "live": list(views.live_bytes(report)),
    }


def _round(value: float | None) -> float | None:
    """Six digits: more than any clock here has, fewer bytes than a double's."""
    return None if value is None else float(f"{value:.6g}")
