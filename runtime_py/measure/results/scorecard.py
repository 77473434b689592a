"""A sweep as a whole, the document `edgex.scorecard/1`: coverage with reasons, latencies, what is out of line."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from edgex.runtime.measure.results.difference import Difference
from edgex.runtime.measure.results.row import Row

SCHEMA = "edgex.scorecard/1"

# A target that takes so many times as long as the best one on the same model, with numbers of the same kind.
_BEHIND = 1.5
# Beyond so many robust standard deviations, and so many times the median, on a logarithmic scale; from so many rows on.
_DEVIATIONS, _TIMES, _LEAST_ROWS = 3.5, 3.0, 8
# Scales the median absolute deviation to the standard deviation of normal values.
_NORMAL_MAD = 1.4826
_SQNR_FALL_DB = 10.0


@dataclass(frozen=True)
class Outlier:
    """A row that is out of line.

    Attributes:
        model: Of which model.
        artifact: For example `xnnpack int8`.
        device: Where it was measured.
        figure: `latency`, `export time`, `export memory` or `error`.
        detail: A sentence.
        factor: How far; the larger the worse.
    """

    model: str
    artifact: str
    device: str
    figure: str
    detail: str
    factor: float


def make_scorecard(
    name: str, rows: Sequence[Row], against: tuple[str, Difference] | None = None, limit: float | None = None
) -> dict[str, Any]:
    """Sum a sweep up.

    Args:
        name: Of the results, for the head.
        rows: Its rows.
        against: The name of a former sweep, and what is not as it was there.
        limit: Of `--fail-on`; needs a former sweep.

    Returns:
        The document `edgex.scorecard/1`.
    """
    started = sorted(row.origin.started for row in rows)
    return {
        "schema": SCHEMA,
        "name": name,
        "models": len({row.model for row in rows}),
        "jobs": len(rows),
        "complete": sum(row.complete for row in rows),
        "failed": sum(row.complete and not row.ok for row in rows),
        "edgex": sorted({row.origin.edgex for row in rows}),
        "versions": _merge_versions(rows),
        "first": started[0] if started else None,
        "last": started[-1] if started else None,
        "machines": sorted({row.origin.machine for row in rows if row.origin.machine}),
        "coverage": [_cover(kind, group) for kind, group in _group(rows, lambda row: row.kind).items()],
        "latency": _describe_latency(rows),
        "outliers": [asdict(outlier) for outlier in find_outliers(rows)],
        "rows": [_summarize(row) for row in rows],
        "difference": None if against is None else {"against": against[0], **against[1].to_json()},
        "fail_on": None
        if against is None or limit is None
        else {"limit": limit, "failed": [change.to_json() for change in against[1].failing(limit)]},
    }


def _group(rows: Sequence[Row], key: Callable[[Row], Any]) -> dict[Any, list[Row]]:
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def _merge_versions(rows: Sequence[Row]) -> dict[str, str]:
    found: dict[str, set[str]] = {}
    for row in rows:
        for package, version in row.origin.versions.items():
            found.setdefault(package, set()).add(version)
    return {package: ", ".join(sorted(versions)) for package, versions in sorted(found.items())}


def _cover(kind: str, rows: Sequence[Row]) -> dict[str, Any]:
    """One entry of `coverage`: counts, and why the others failed, the most frequent reason first."""
    failed = [row for row in rows if row.complete and not row.ok]
    reasons = _group(failed, lambda row: (row.status, row.failure.stage if row.failure else "", _what(row)))
    work = [row.made.work_fraction for row in rows if row.made is not None and row.made.work_fraction is not None]
    return {
        "artifact": kind,
        "jobs": len(rows),
        "verified": sum(row.ok and row.status == "verified" for row in rows),
        "assembled": sum(row.ok and row.status != "verified" for row in rows),
        "failed": len(failed),
        "median_work_fraction": median(work) if work else None,
        "reasons": [
            {
                "status": status,
                "stage": stage,
                "what": what,
                "fix": None if group[0].failure is None else group[0].failure.fix,
                "count": len(group),
                "models": [row.model for row in group],
            }
            for (status, stage, what), group in sorted(reasons.items(), key=lambda item: -len(item[1]))
        ],
    }


def _what(row: Row) -> str:
    return "" if row.failure is None else row.failure.what


def _describe_latency(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Of each kind on each device: every model's median, and how far it is from the best kind of that model."""
    best = _best_of_models(rows)
    found = []
    timed = [row for row in rows if row.timing is not None]
    for (kind, device), group in _group(timed, lambda row: (row.kind, row.device)).items():
        seconds = sorted(row.timing.median_seconds for row in group if row.timing is not None)
        behind = [
            row.timing.median_seconds / best[_rivals(row)] for row in group
            if row.timing is not None and _rivals(row) in best
        ]  # fmt: skip
        found.append(
            {
                "artifact": kind,
                "device": device,
                "count": len(seconds),
                "min_seconds": seconds[0],
                "median_seconds": median(seconds),
                "max_seconds": seconds[-1],
                "times_the_best": math.exp(sum(map(math.log, behind)) / len(behind)) if behind else None,
                "models": [
                    {"model": row.model, "seconds": row.timing.median_seconds}
                    for row in group
                    if row.timing is not None
                ],
            }
        )
    return found


def _rivals(row: Row) -> tuple[str | None, ...]:
    """What is compared with each other: one model with numbers of one kind on one device."""
    return row.model, row.precision, row.recipe, row.device


def _best_of_models(rows: Sequence[Row]) -> dict[tuple[str | None, ...], float]:
    """The quickest of each; nothing where one target alone was timed."""
    groups = _group([row for row in rows if row.timing is not None], _rivals)
    return {
        key: min(row.timing.median_seconds for row in group if row.timing is not None)
        for key, group in groups.items()
        if len(group) > 1
    }


def find_outliers(rows: Sequence[Row]) -> list[Outlier]:
    """Rows far behind another target on the same model, or far from others of the same kind; the furthest first."""
    found = []
    best = _best_of_models(rows)
    for row in rows:
        if row.timing is not None and _rivals(row) in best:
            times = row.timing.median_seconds / best[_rivals(row)]
            if times >= _BEHIND:
                found.append(_outlier(row, "latency", f"{times:.1f} times the time of the quickest target", times))
    for group in _group(rows, lambda row: row.kind).values():
        exported = [(row, sum(row.seconds.values())) for row in group if row.seconds]
        found += [
            _outlier(row, "export time", f"{value:.0f} s, {times:.1f} times the median of its target", times)
            for row, value, times in _far(exported)
        ]
        memory = [(row, float(row.peak_rss_bytes)) for row in group if row.peak_rss_bytes is not None]
        found += [
            _outlier(row, "export memory", f"{value / 1e9:.1f} GB, {times:.1f} times the median of its target", times)
            for row, value, times in _far(memory)
        ]
        exact = [(row, row.made.min_sqnr_db) for row in group if row.made is not None]
        found += _inexact([(row, value) for row, value in exact if value is not None])
    return sorted(found, key=lambda outlier: -outlier.factor)


def _outlier(row: Row, figure: str, detail: str, factor: float) -> Outlier:
    return Outlier(row.model, row.kind, row.device, figure, detail, round(factor, 3))


def _far(values: Sequence[tuple[Row, float]]) -> list[tuple[Row, float, float]]:
    """Those far above the others on a logarithmic scale, with how many times the median they are."""
    known = [(row, value) for row, value in values if value > 0.0]
    if len(known) < _LEAST_ROWS:
        return []
    logs = [math.log(value) for _, value in known]
    middle = median(logs)
    reach = _DEVIATIONS * _NORMAL_MAD * median(abs(value - middle) for value in logs)
    least = middle + max(reach, math.log(_TIMES))
    return [(row, value, value / math.exp(middle)) for row, value in known if math.log(value) > least]


def _inexact(values: Sequence[tuple[Row, float]]) -> list[Outlier]:
    if len(values) < _LEAST_ROWS:
        return []
    middle = median(value for _, value in values)
    spread = _NORMAL_MAD * median(abs(value - middle) for _, value in values)
    fall = max(_SQNR_FALL_DB, _DEVIATIONS * spread)
    return [
        _outlier(
            row, "error", f"{value:.0f} dB, where the median of its target is {middle:.0f} dB", (middle - value) / 10
        )
        for row, value in values
        if middle - value > fall
    ]


def _summarize(row: Row) -> dict[str, Any]:
    """A row for the table and for `--json`: the dataset has the rest."""
    made, timing, failure = row.made, row.timing, row.failure
    return {
        "job": row.job,
        "model": row.model,
        "artifact": row.kind,
        "device": row.device,
        "status": row.status if row.complete else "not measured yet",
        "ok": row.ok,
        "stage": None if failure is None else failure.stage,
        "what": None if failure is None else failure.what,
        "fix": None if failure is None else failure.fix,
        "median_seconds": None if timing is None else timing.median_seconds,
        "ci95_seconds": None
        if timing is None or timing.low_seconds is None
        else [timing.low_seconds, timing.high_seconds],
        "min_sqnr_db": None if made is None else made.min_sqnr_db,
        "model_bytes": None if made is None else made.model_bytes,
        "delegated": None if made is None else _share(made.delegated_ops, made.total_ops),
        "export_seconds": round(sum(row.seconds.values()), 3) if row.seconds else None,
        "export_peak_rss_bytes": row.peak_rss_bytes,
        "attempts": row.attempts,
        "path": None if made is None else made.artifact,
    }


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
