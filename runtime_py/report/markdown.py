"""A profile as Markdown: for issues, pull requests and release notes."""

from __future__ import annotations

from collections.abc import Sequence

from edgex.runtime.profile.report import ProfileReport
from edgex.runtime.report.figures import (
    count,
    describe_host,
    describe_load,
    describe_memory,
    describe_percentiles,
    describe_sampling,
    describe_subject,
    format_interval,
    format_rate,
    format_seconds,
)


def render_markdown(report: ProfileReport) -> str:
    """The report as a Markdown document that ends with a line break."""
    steady, artifact = report.steady, report.artifact
    interval = ""
    if steady.median_ci95 is not None:
        interval = f" (95 % interval {format_interval(*steady.median_ci95, like=steady.median)})"
    versions = ", ".join(f"{name} {version}" for name, version in artifact.versions.items())
    sections = [
        f"# {escape(artifact.name)} on {escape(artifact.target)}",
        f"**{format_seconds(steady.median, digits=4)}** median{interval}. " + " · ".join(describe_subject(report)),
        _table(
            ("latency", "time"),
            [("median", format_seconds(steady.median, digits=4)), *describe_percentiles(report)],
        ),
        f"{', '.join(describe_sampling(report))}. {format_rate(report.throughput)} runs per second.",
        _table(("start", "time"), [*describe_load(report), ("first run", format_seconds(report.load_seconds.first))]),
        _table(("memory", "size"), describe_memory(report)),
        f"Start and memory: medians of {count(len(report.fresh), 'fresh process')}.",
        "\n".join(
            [
                f"- Executed on: {escape(report.executed_on)} ({escape(versions)})",
                f"- Machine: {escape(' · '.join(describe_host(report.host)))}",
                f"- Artifact digest: `{artifact.digest}`, edgex {report.edgex_version}",
            ]
        ),
    ]
    if report.warnings:
        lines = [f"- **{warning.code}**: {escape(warning.text)}" for warning in report.warnings]
        sections.append("\n".join(["## Warnings", "", *lines]))
    return "\n\n".join(sections) + "\n"


def _table(head: tuple[str, str], rows: Sequence[tuple[str, str]]) -> str:
    lines = [f"| {head[0]} | {head[1]} |", "|---|---:|"]
    return "\n".join([*lines, *(f"| {name} | {value} |" for name, value in rows)])


def escape(text: str) -> str:
    """Names are the user's: what Markdown would take for markup is shown as it is."""
    return "".join(f"\\{letter}" if letter in "\\`*_[]<>|#" else letter for letter in text)
