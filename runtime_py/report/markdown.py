"""A profile as Markdown: for issues, pull requests and release notes."""

from __future__ import annotations

from collections.abc import Sequence

from edgex.runtime.measure.profile.report import ProfileReport
from edgex.runtime.report.figures import (
    count,
    describe_host,
    describe_load,
    describe_mean,
    describe_memory,
    describe_origin,
    describe_percentiles,
    describe_sampling,
    describe_subject,
    format_interval,
    format_rate,
    format_seconds,
    format_share,
)
from edgex.runtime.report.listings import (
    Listing,
    describe_trace,
    list_fallbacks,
    list_memory,
    list_modules,
    list_operators,
    list_places,
    warn_of_fallbacks,
)
from edgex.runtime.report.views import by_category, name_kind

_ROWS = 20


def render_markdown(report: ProfileReport) -> str:
    """The report as a Markdown document that ends with a line break."""
    steady, artifact = report.steady, report.artifact
    interval = ""
    if steady.median_ci95 is not None:
        interval = f" (95 % interval {format_interval(*steady.median_ci95, like=steady.median)})"
    versions = ", ".join(f"{name} {version}" for name, version in artifact.versions.items())
    sections = [
        f"# {escape(artifact.name)} on {escape(artifact.target)}",
        *([] if report.complete else ["**Interrupted**: what is missing was not measured."]),
        f"**{format_seconds(steady.median, digits=4)}** median{interval}. "
        + escape(" · ".join(describe_subject(report))),
        *([] if (loud := warn_of_fallbacks(report)) is None else [f"**Left out**: {escape(loud)}"]),
        _table(
            ("latency", "time"),
            [("median", format_seconds(steady.median, digits=4)), *describe_percentiles(report)],
        ),
        f"{', '.join(describe_sampling(report))}. {format_rate(report.throughput)} runs per second, "
        f"{describe_mean(report)}.",
        _table(("start", "time"), [*describe_load(report), ("first run", format_seconds(report.load_seconds.first))]),
        _table(("memory", "size"), describe_memory(report)),
        f"Start and memory: medians of {count(len(report.fresh), 'fresh process')}.",
        "\n".join(
            [
                f"- Executed on: {escape(report.executed_on)} ({escape(versions)})",
                f"- Machine: {escape(' · '.join(describe_host(report.host)))}",
                f"- {'; '.join(escape(part) for part in describe_origin(report))}",
                f"- Artifact digest: `{artifact.digest}`",
            ]
        ),
    ]
    if report.ops:
        sections += _operator_sections(report)
    sections += [_listing(listing) for listing in list_memory(report, _ROWS)]
    if report.warnings:
        lines = [f"- **{escape(warning.code)}**: {escape(warning.text)}" for warning in report.warnings]
        sections.append("\n".join(["## Warnings", "", *lines]))
    return "\n\n".join(sections) + "\n"


def _operator_sections(report: ProfileReport) -> list[str]:
    kinds = " · ".join(f"{name_kind(group.name)} {format_share(group.share)}" for group in by_category(report))
    listings = [
        *list_fallbacks(report, _ROWS, reasons=True),
        list_places(report, _ROWS),
        *list_operators(report, _ROWS),
    ]
    listings += list_modules(report, _ROWS)
    return ["## Operators", f"{kinds}. {'; '.join(describe_trace(report))}.", *map(_listing, listings)]


def _listing(listing: Listing) -> str:
    """A table of names and figures; indented names keep their indent."""
    head = "| " + " | ".join(column.title for column in listing.columns) + " |"
    rule = "|" + "|".join("---:" if column.numeric else "---" for column in listing.columns) + "|"
    rows = ["| " + " | ".join(_cell(cell) for cell in row) + " |" for row in listing.rows]
    return "\n".join(
        [f"### {escape(_line(listing.title))}", "", head, rule, *rows, *(f"\n{note}." for note in listing.notes)]
    )


def _cell(text: str) -> str:
    bare = text.lstrip(" ")
    return "&nbsp;&nbsp;" * ((len(text) - len(bare)) // 2) + escape(_line(bare))


def _line(text: str) -> str:
    """A name with a line break in it would end the table."""
    return " ".join(text.split())


def _table(head: tuple[str, str], rows: Sequence[tuple[str, str]]) -> str:
    lines = [f"| {head[0]} | {head[1]} |", "|---|---:|"]
    return "\n".join([*lines, *(f"| {name} | {value} |" for name, value in rows)])


def escape(text: str) -> str:
    """Names are the user's: what Markdown would take for markup is shown as it is."""
    return "".join(f"\\{letter}" if letter in "\\`*_[]<>|#" else letter for letter in text)
