"""A comparison as rows of text, and as Markdown: the same figures in the terminal and in files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgex.runtime.measure.compare.gate import GateResult
from edgex.runtime.measure.compare.result import Compared, Comparison, Contrast
from edgex.runtime.report.figures import count, describe_host, format_bytes, format_interval, format_seconds
from edgex.runtime.report.listings import Column, Listing, describe_tracing
from edgex.runtime.report.markdown import escape
from edgex.runtime.report.pages.profile import Findings
from edgex.runtime.report.views import name_kind, total_seconds

_MOST_OPERATORS = 12
_MOST_NAMES = 3
# Stress inputs that are so much further apart than others were clipped by one of the two, as a quantized model does.
_CLIPPED_DB = 20.0


@dataclass(frozen=True)
class Table:
    """Rows of text below a head; the first column names the row."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def tabulate_subjects(comparison: Comparison) -> Table:
    """A column for each thing compared: latency, start, memory, size, delegation, numerics."""
    subjects = comparison.subjects
    rows = [
        ("target", [_describe_target(subject) for subject in subjects]),
        ("threads", [_describe_threads(subject) for subject in subjects]),
        ("median", [format_seconds(subject.report.steady.median, digits=4) for subject in subjects]),
        ("95 % interval", [_interval(subject) for subject in subjects]),
        ("fastest", [format_seconds(s.report.steady.min, s.report.steady.median, 4) for s in subjects]),
        ("p95", [format_seconds(s.report.steady.p95, s.report.steady.median, 4) for s in subjects]),
        ("load", [format_seconds(_load_seconds(subject)) for subject in subjects]),
        ("first run", [format_seconds(subject.report.load_seconds.first) for subject in subjects]),
        ("size", [format_bytes(subject.report.memory.weights_bytes) for subject in subjects]),
        ("peak memory", [format_bytes(subject.report.memory.peak_rss_bytes) for subject in subjects]),
        ("arena", [format_bytes(subject.report.memory.planned_arena_bytes) for subject in subjects]),
        ("delegated", [_delegated(subject) for subject in subjects]),
        ("SQNR to eager", [_sqnr(None if s.eager is None else s.eager["min_sqnr_db"]) for s in subjects]),
        ("SQNR to first", ["", *(_sqnr_to_first(contrast) for contrast in comparison.contrasts)]),
    ]
    told = [(name, *cells) for name, cells in rows if any(cell not in ("", "unknown") for cell in cells)]
    return Table(("", *(subject.label for subject in subjects)), tuple(told))


def tabulate_operators(contrast: Contrast) -> Table | None:
    """The largest changes by operator; None where there are no operators."""
    if not contrast.operators:
        return None
    rows = []
    for delta in contrast.operators[:_MOST_OPERATORS]:
        where = (
            delta.module_path
            if delta.module_path
            else "(model)"
            if delta.module_path == ""
            else name_kind(delta.category)
        )
        work = _list_operators(delta.operators) or name_kind(delta.category)
        sides = [
            _micro(delta.baseline_seconds, delta.baseline_rows),
            _micro(delta.candidate_seconds, delta.candidate_rows),
        ]
        rows.append((where, work, *sides, f"{delta.delta_seconds * 1e6:+.1f} µs", delta.match))
    head = ("module", "operators", contrast.baseline, contrast.candidate, "change", "matched by")
    return Table(head, tuple(rows))


def describe_operators(comparison: Comparison) -> str | None:
    """What the times of operators are: of traced runs, not of those that the verdict is about; None without any.

    Tracing costs some artifacts more than others, those of many small operators most.
    """
    told = [
        f"those of {subject.label} {describe_tracing(subject.report.trace)} and add up to "
        f"{format_seconds(total_seconds(subject.report))}"
        for subject in comparison.subjects
        if subject.report.ops and subject.report.trace is not None
    ]
    if not told or not any(contrast.operators for contrast in comparison.contrasts):
        return None
    return f"operators: times of traced runs; {'; '.join(told)}"


def describe_findings(comparison: Comparison, gate: GateResult | None = None) -> Findings:
    """What the page shows beside the subjects' figures: verdicts, operators that differ, warnings."""
    listings = []
    traced = describe_operators(comparison)
    for contrast in comparison.contrasts:
        table = tabulate_operators(contrast)
        if table is not None:
            columns = tuple(Column(title, title in (*table.head[2:4], "change")) for title in table.head)
            title = f"{contrast.candidate} against {contrast.baseline}, operator by operator"
            notes = () if traced is None else (f"{traced[0].upper()}{traced[1:]}.",)
            listings.append(Listing(title, columns, table.rows, notes))
    warnings = [*comparison.differences, *(warning.text for warning in comparison.warnings)]
    gated = [] if gate is None else describe_gate(gate)
    verdicts = ("", *(contrast.sentence for contrast in comparison.contrasts))
    return Findings(verdicts, tuple(listings), (describe_method(comparison), *gated, *warnings))


def describe_method(comparison: Comparison) -> str:
    """How the latencies were taken, one line."""
    method = comparison.method
    if not method.interleaved and comparison.kind == "artifacts":
        return "profiled in turns on a device"
    if not method.interleaved:
        return "saved reports, taken at different times"
    floors = [c.judgement.floor for c in comparison.contrasts if c.judgement.floor is not None]
    floor = f"; the first one against itself: up to {100 * max(floors):.1f} %" if floors else ""
    sessions, processes = count(method.sessions or 0, "session"), count(method.processes or 0, "process")
    rounds = count(method.rounds_per_session or 0, "round")
    spent = "" if method.seconds is None else f"; {method.seconds:.0f} s with starts and loads"
    if method.seconds is not None and method.max_seconds is not None and method.seconds > method.max_seconds + 1:
        spent += f", the least that {processes} of each take (--max-seconds {method.max_seconds:g})"
    return f"timed in turns: {sessions} of {rounds} each, in {processes}{floor}{spent}"


def describe_gate(gate: GateResult) -> list[str]:
    """What `--fail-on` says, a line each."""
    limit = f"{100 * gate.limit:g} %"
    lines = [f"{name} is slower than the first by more than {limit}" for name in gate.failed]
    lines += [f"whether {name} is slower by more than {limit} cannot be decided" for name in gate.undecided]
    return lines or [f"nothing is slower than the first by more than {limit}"]


def render_comparison(comparison: Comparison, gate: GateResult | None = None) -> str:
    """The comparison as a Markdown document that ends with a line break."""
    sections = [
        f"# {escape(' against '.join(subject.label for subject in comparison.subjects[::-1]))}",
        "\n".join(f"- **{escape(contrast.sentence)}**" for contrast in comparison.contrasts),
        render_table(tabulate_subjects(comparison)),
        f"{describe_method(comparison)[0].upper()}{describe_method(comparison)[1:]}.",
    ]
    if gate is not None:
        sections.append("\n".join(f"- {escape(line)}" for line in describe_gate(gate)))
    for contrast in comparison.contrasts:
        table = tabulate_operators(contrast)
        if table is not None:
            title = f"## Operators: {escape(contrast.candidate)} against {escape(contrast.baseline)}"
            sections += [title, render_table(table)]
    if (traced := describe_operators(comparison)) is not None:
        sections.append(f"{escape(traced[0].upper() + traced[1:])}.")
    hosts = dict.fromkeys(" · ".join(describe_host(subject.report.host)) for subject in comparison.subjects)
    sections.append("\n".join(f"- Machine: {escape(host)}" for host in hosts))
    if comparison.differences:
        lines = [f"- {escape(line)}" for line in comparison.differences]
        sections.append("\n".join(["## Different models", "", *lines]))
    if comparison.warnings:
        lines = [f"- **{warning.code}**: {escape(warning.text)}" for warning in comparison.warnings]
        sections.append("\n".join(["## Warnings", "", *lines]))
    return "\n\n".join(sections) + "\n"


def render_table(table: Table) -> str:
    """A table in Markdown."""
    lines = ["| " + " | ".join(map(escape, table.head)) + " |", "|---" * len(table.head) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(map(escape, row)) + " |" for row in table.rows)])


def _list_operators(names: Sequence[str]) -> str:
    """`conv2d x 2, relu +7 more`: equal names once, and the first few of them."""
    counts: dict[str, int] = {}
    for name in names:
        short = name.removeprefix("aten.").removeprefix("quantized_decomposed.").removesuffix(".default")
        counts[short] = counts.get(short, 0) + 1
    listed = [name if times == 1 else f"{name} x {times}" for name, times in counts.items()]
    left = sum(list(counts.values())[_MOST_NAMES:])
    return ", ".join(listed[:_MOST_NAMES]) + (f" +{left} more" if left else "")


def _describe_target(subject: Compared) -> str:
    return f"{subject.report.artifact.target} {subject.report.artifact.numbers}"


def _describe_threads(subject: Compared) -> str:
    tuned = " (tuned)" if subject.report.settings.threads_source == "tuned" else ""
    return "unknown" if subject.report.threads is None else f"{subject.report.threads}{tuned}"


def _interval(subject: Compared) -> str:
    steady = subject.report.steady
    return "unknown" if steady.median_ci95 is None else format_interval(*steady.median_ci95, like=steady.median)


def _load_seconds(subject: Compared) -> float:
    """Reading the file and making it ready; the engine's import is no property of the artifact."""
    return (subject.report.load_seconds.program or 0.0) + subject.report.load_seconds.method


def _delegated(subject: Compared) -> str:
    if subject.delegation is None:
        return "unknown"
    work = subject.delegation["work_fraction"]
    share = "" if work is None else f", {work:.1%} of work"
    return f"{subject.delegation['delegated_ops']} of {subject.delegation['total_ops']} operators{share}"


def _sqnr(value: float | None) -> str:
    return "unknown" if value is None else "exact" if value >= 300 else f"{value:.0f} dB"


def _sqnr_to_first(contrast: Contrast) -> str:
    """Over inputs that the model is made for; stress inputs lie outside the calibrated range on purpose."""
    if contrast.numerics is None:
        return "unknown"
    typical, worst = contrast.numerics.typical_sqnr_db, contrast.numerics.min_sqnr_db
    if typical is None or worst is None or typical - worst < _CLIPPED_DB:
        return _sqnr(worst)
    return f"{_sqnr(typical)} (stress inputs: {_sqnr(worst)})"


def _micro(value: float | None, rows: Sequence[str]) -> str:
    return "–" if not rows else "unknown" if value is None else f"{value * 1e6:,.1f} µs"
