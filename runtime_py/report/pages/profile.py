"""A profile, or several side by side, as one self-contained HTML file: no network, no library, no build step.

Text and tables are written here, by the template; what is sorted, filtered, zoomed or drawn is made by the page's own
scripts from a block of JSON. All text is escaped by the template engine, the JSON cannot end its own block, and a
content security policy allows this page's one script by its hash and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from edgex.errors import UsageError
from edgex.runtime.engines.trace.operators import Ceilings
from edgex.runtime.measure.profile.report import ProfileReport
from edgex.runtime.report import views
from edgex.runtime.report.figures import (
    count,
    describe_host,
    describe_origin,
    describe_percentiles,
    describe_sampling,
    describe_subject,
    format_bytes,
    format_interval,
    format_options,
    format_rate,
    format_row_time,
    format_seconds,
    format_share,
)
from edgex.runtime.report.listings import (
    Listing,
    describe_trace,
    describe_tracing,
    describe_unmapped,
    warn_of_fallbacks,
)
from edgex.runtime.report.pages.data import KINDS, describe_report
from edgex.runtime.report.pages.template import read_asset, render_template

MAX_REPORTS = 4
_SEEN = 8

# In this order: later ones use what earlier ones define.
_SCRIPTS = ("dom", "table", "charts", "operators", "modules", "roofline", "memory", "main")


@dataclass(frozen=True)
class Findings:
    """What comparing the reports found, to stand beside their figures.

    Attributes:
        verdicts: One line for each report, in their order; empty text for the one that the others are compared with.
        listings: Tables, for example the operators that differ.
        warnings: Reasons to trust the comparison less, one sentence each.
    """

    verdicts: tuple[str, ...]
    listings: tuple[Listing, ...] = ()
    warnings: tuple[str, ...] = ()


def render_html(
    reports: Sequence[ProfileReport], comparison: Findings | None = None, labels: Sequence[str] | None = None
) -> str:
    """The text of an `.html` file.

    Args:
        reports: One profile, or up to four to stand side by side.
        comparison: What is known about their differences; None shows the figures only and judges nothing.
        labels: A short name of each report; None takes the targets, with what else tells them apart.

    Raises:
        UsageError: There are none, or more than fit beside each other.
    """
    if not 1 <= len(reports) <= MAX_REPORTS:
        raise UsageError(f"{len(reports)} reports: a page shows 1 to {MAX_REPORTS}")
    filters: dict[str, Callable[..., Any]] = {
        **{"bytes": format_bytes, "time": format_row_time, "share": format_share, "count": count},
        "kind": views.name_kind,
    }
    names = _name(reports) if labels is None or len(reports) == 1 else list(labels)
    script = "\n".join(['"use strict";', "(() => {", *(read_asset(f"{name}.js") for name in _SCRIPTS), "})();", ""])
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return render_template(
        "page.html.j2",
        filters,
        title=_title(reports),
        reports=[_describe(report, label) for report, label in zip(reports, names, strict=True)],
        groups=_figure_groups(reports),
        one_scale=_share_a_scale(reports),
        kinds=KINDS,
        comparison=comparison,
        script=script,
        script_hash=digest,
        data=_embed([describe_report(report) for report in reports]),
    )


def _embed(value: Any) -> str:
    """JSON that can stand in a script element: nothing in it can end the element or open a comment."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def _title(reports: Sequence[ProfileReport]) -> str:
    if len(reports) == 1:
        return f"{reports[0].artifact.name} on {reports[0].artifact.target}"
    names = list(dict.fromkeys(report.artifact.name for report in reports))
    return f"{names[0] if len(names) == 1 else ' and '.join(names)}: {count(len(reports), 'profile')} side by side"


def _name(reports: Sequence[ProfileReport]) -> list[str]:
    """The shortest names that tell the reports apart."""
    asked: tuple[Callable[[ProfileReport], str], ...] = (
        lambda r: r.artifact.target,
        lambda r: f"{r.artifact.target} {r.artifact.numbers}",
        lambda r: f"{r.artifact.target}, {describe_subject(r)[-1]}",
        lambda r: f"{r.artifact.name} on {r.artifact.target}",
    )
    for ask in asked:
        names = [ask(report) for report in reports]
        if len(set(names)) == len(names):
            return names
    return [f"{number}: {asked[-1](report)}" for number, report in enumerate(reports, 1)]


def _describe(report: ProfileReport, label: str) -> dict[str, Any]:
    """What the template prints of one report."""
    steady, whole = report.steady, views.total_seconds(report)
    number, _, unit = format_seconds(steady.median, digits=4).partition(" ")
    interval = None
    if steady.median_ci95 is not None:
        interval = format_interval(*steady.median_ci95, like=steady.median)
    arena = views.live_bytes(report)
    return {
        "report": report,
        "label": label,
        "subject": " · ".join(part for part in describe_subject(report) if part not in label),
        "number": number,
        "unit": unit,
        "interval": interval,
        "sampling": describe_sampling(report),
        "origin": describe_origin(report),
        "traced": "" if report.trace is None else describe_tracing(report.trace),
        "categories": views.by_category(report),
        "total_seconds": whole,
        "trace": describe_trace(report),
        "source_left": describe_unmapped(report, views.by_source(report).unmapped, "line"),
        "delegate": views.find_delegate(report),
        "fallbacks": views.critical_fallbacks(report),
        "left_out": warn_of_fallbacks(report),
        "fallback_seconds": sum(entry.group.total_seconds for entry in views.critical_fallbacks(report)),
        "source": views.by_source(report),
        "hot_seconds": max((line.group.total_seconds for file in views.by_source(report).files for line in file.lines
                       if line.group is not None), default=0.0),
        "weights": views.weights_by_module(report),
        "arena_peak": max(arena, default=None),
        "host": describe_host(report.host),
        "environment": _environment(report),
    }  # fmt: skip


# Names of percentiles, and what they say.
_PERCENTILES = {
    "min": "fastest",
    **{f"p{share}": f"p{share}: {share} % of the runs took less" for share in (90, 95, 99)},
}


def _known_seconds(seconds: float | None) -> str:
    return "" if seconds is None else format_seconds(seconds)


def _figure_groups(reports: Sequence[ProfileReport]) -> list[tuple[str, list[tuple[str, list[str]]]]]:
    """Groups of rows for the summary: a name, and a value for each report; rows that no report knows are left out."""
    percentiles = [dict(describe_percentiles(report)) for report in reports]
    latency = [(words, [known.get(name, "") for known in percentiles]) for name, words in _PERCENTILES.items()]
    latency.append(("mean", [format_seconds(report.steady.mean, digits=4) for report in reports]))
    latency.append(("runs per second, from the mean", [format_rate(report.throughput) for report in reports]))
    loads = [report.load_seconds for report in reports]
    start = [
        ("check the files", [_known_seconds(load.check) for load in loads]),
        ("import the engine", [_known_seconds(load.engine_import) for load in loads]),
        ("read the program", [_known_seconds(load.program) for load in loads]),
        ("make it ready", [format_seconds(load.method) for load in loads]),
        ("first run", [format_seconds(load.first) for load in loads]),
    ]
    sizes: list[tuple[str, list[int | None]]] = [
        ("peak resident", [report.memory.peak_rss_bytes for report in reports]),
        ("planned arena", [report.memory.planned_arena_bytes for report in reports]),
        ("native files", [report.memory.weights_bytes for report in reports]),
        ("whole artifact", [report.artifact.bytes for report in reports]),
    ]
    memory = [(name, [format_bytes(value) if value is not None else "" for value in values]) for name, values in sizes]
    groups = [("Latency", latency), ("Cold start", start), ("Memory", memory)]
    return [(name, [row for row in rows if any(row[1])]) for name, rows in groups]


def _share_a_scale(reports: Sequence[ProfileReport]) -> bool:
    """Whether bars of all runs can be drawn on one scale: the shortest would still be seen."""
    totals = [views.total_seconds(report) for report in reports if report.ops]
    return not totals or max(totals) <= _SEEN * min(totals)


def _environment(report: ProfileReport) -> list[tuple[str, str]]:
    """How and where it was measured, as names and values."""
    settings, artifact, activity = report.settings, report.artifact, report.activity
    shapes = "; ".join(f"{name} [{', '.join(map(str, shape))}]" for name, shape in settings.shapes.items())
    options = format_options(settings.options) + (" (tuned)" if settings.tuned_options else "")
    ceilings = report.ceilings
    rows = [
        ("executed on", report.executed_on),
        ("versions", ", ".join(f"{name} {version}" for name, version in artifact.versions.items())),
        ("precision", artifact.precision),
        ("quantized", artifact.recipe or ""),
        ("threads", "unknown" if report.threads is None else str(report.threads)),
        ("inputs", f"{settings.inputs}: {shapes}"),
        ("engine options", options),
        ("sampling", ", ".join(describe_sampling(report))),
        ("fresh processes", str(len(report.fresh))),
        ("tracing", "; ".join(describe_trace(report))),
        ("traced run", "" if report.trace is None else format_row_time(report.trace.execute_seconds)),
        ("ceilings", "" if ceilings is None else _join_ceilings(ceilings)),
        ("energy", "" if not report.energy else ", ".join(f"{k} {v}" for k, v in report.energy.items())),
        ("counters", "" if not report.counters else ", ".join(f"{k} {v}" for k, v in report.counters.items())),
        ("machine", " · ".join(describe_host(report.host))),
        ("instruction sets", ", ".join(report.host.isa or ())),
        ("Python", report.host.python),
        ("load average", _join_load(activity.load_average_before, activity.load_average_after)),
        ("artifact", artifact.folder or ""),
        ("artifact digest", artifact.digest),
        ("artifact made by", "" if artifact.made_by is None else f"edgex {artifact.made_by}"),
        ("measured", describe_origin(report)[-1].removeprefix("measured ").removeprefix("on ")),
    ]
    return [(name, value) for name, value in rows if value]


def _join_ceilings(ceilings: Ceilings) -> str:
    peaks = [f"{dtype} {rate:.3g} GFLOP/s" for dtype, rate in ceilings.gflops.items()]
    return ", ".join([*peaks, f"{ceilings.gbps:,.1f} GB/s"]) + f" with {count(ceilings.threads, 'thread')}"


def _join_load(before: float | None, after: float | None) -> str:
    return "" if before is None or after is None else f"{before:.1f} before, {after:.1f} after"
