"""A sweep as rows of text, and as Markdown."""

from __future__ import annotations

from edgex.runtime.measure.sweep import Sweep, SweepRow
from edgex.runtime.report.comparison import Table, render_table
from edgex.runtime.report.figures import count, describe_host, format_interval, format_rate, format_seconds
from edgex.runtime.report.markdown import escape


def tabulate_sweep(sweep: Sweep) -> Table:
    """A row for each setting: latency and throughput."""
    batch = "batch" in sweep.axes
    head = (
        "threads",
        *(["batch"] if batch else []),
        "median",
        "95 % interval",
        "p95",
        "samples/s (of the mean)",
        "against the default",
    )
    rows = []
    for row in sweep.rows:
        median, interval = row.latency.median, row.latency.median_ci95
        rows.append(
            (
                str(row.threads),
                *([str(row.batch)] if batch else []),
                format_seconds(median, digits=4),
                "unknown" if interval is None else format_interval(*interval, like=median),
                format_seconds(row.latency.p95, like=median, digits=4),
                format_rate(row.throughput),
                _against(row, sweep),
            )
        )
    return Table(head, tuple(rows))


def describe_best(sweep: Sweep) -> list[str]:
    """Which thread count is kept, and what overrides it."""
    if sweep.best_threads is None:
        return []
    best = count(sweep.best_threads, "thread")
    why = "the engine's default: no other count is surely faster"
    if sweep.best_threads != sweep.default_threads:
        why = f"instead of the engine's default of {sweep.default_threads}"
    lines = [
        f"kept for this artifact on this machine: {best}, {why}",
        "edgex run, edgex profile and edgex.load use it from now on; --threads or --no-tuned overrides it",
    ]
    return [*lines, "the machine was disturbed meanwhile: sweep again when it is quiet"] if sweep.warnings else lines


def render_sweep(sweep: Sweep) -> str:
    """The sweep as a Markdown document that ends with a line break."""
    sections = [
        f"# {escape(sweep.name)} on {escape(sweep.target)} by {' and '.join(sweep.axes)}",
        render_table(tabulate_sweep(sweep)),
        *describe_best(sweep)[:1],
        f"- Machine: {escape(' · '.join(describe_host(sweep.host)))}\n- Artifact digest: `{sweep.digest}`",
    ]
    if sweep.warnings:
        lines = [f"- **{warning.code}**: {escape(warning.text)}" for warning in sweep.warnings]
        sections.append("\n".join(["## Warnings", "", *lines]))
    return "\n\n".join(sections) + "\n"


def _against(row: SweepRow, sweep: Sweep) -> str:
    if row.judgement is None:
        return "the default" if row.threads == sweep.default_threads else ""
    verdict = "too noisy to decide" if row.judgement.verdict == "undecided" else row.judgement.verdict
    return f"{row.judgement.estimate.ratio:.2f} × the time: {verdict}"
