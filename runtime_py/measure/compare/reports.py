"""Compare saved profiles: taken at different times, so with more caution, and never as well as side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence

from edgex.runtime.measure.compare.operators import compare_traced
from edgex.runtime.measure.compare.result import Compared, Comparison, Contrast, Method
from edgex.runtime.measure.profile.report import ProfileReport
from edgex.runtime.measure.statistics import Interval, Judgement, RatioEstimate, decide
from edgex.runtime.support.machine.activity import MeasurementWarning
from edgex.runtime.support.machine.host import HostInfo

# What two profiles of one artifact may differ by because they were taken at different times: heat, neighbours, place in
# memory. No interval within a run shows it. More where a report itself says that its machine was disturbed.
BETWEEN_RUNS, BETWEEN_DISTURBED_RUNS = 0.03, 0.10

_DISTURBED = {"other-load", "steal", "involuntary-switches", "noisy-machine", "drift", "warmup-did-not-settle"}


def compare_reports(labels: Sequence[str], reports: Sequence[ProfileReport], differences: Sequence[str]) -> Comparison:
    """Compare reports with the first.

    Args:
        labels: A name of each.
        reports: The baseline first.
        differences: In what they differ as models.
    """
    warnings = [
        MeasurementWarning(
            "not-interleaved",
            "the reports were taken at different times: intervals are wider by what may have changed between them; "
            "compare the artifacts themselves for a sharper answer",
        )
    ]
    for label, report in zip(labels, reports, strict=True):
        if not report.complete:
            text = f"the profile {label} was interrupted: it holds what was measured until then"
            warnings.append(MeasurementWarning("interrupted", text))
    contrasts = []
    for label, report in zip(labels[1:], reports[1:], strict=True):
        warnings += _find_mismatches(labels[0], reports[0], label, report)
        contrasts.append(
            Contrast(labels[0], label, judge_reports(reports[0], report), None, compare_traced(reports[0], report))
        )
    return Comparison(
        kind="reports",
        subjects=tuple(map(Compared, labels, reports)),
        contrasts=tuple(contrasts),
        method=Method(interleaved=False),
        differences=tuple(differences),
        warnings=tuple(warnings),
    )


def judge_reports(baseline: ProfileReport, candidate: ProfileReport) -> Judgement:
    """The ratio of two medians that were not taken side by side; see `judge_apart`."""
    codes = [warning.code for report in (baseline, candidate) for warning in report.warnings]
    ours, theirs = baseline.steady, candidate.steady
    return judge_apart((ours.median, ours.median_ci95), (theirs.median, theirs.median_ci95), codes)


def judge_apart(
    baseline: tuple[float, Interval | None], candidate: tuple[float, Interval | None], warnings: Collection[str]
) -> Judgement:
    """The ratio of two medians that were taken at different times.

    The interval of the ratio comes from those of the two medians (Zou and Donner, "Construction of confidence limits
    about effect measures", 2008), and is widened by `BETWEEN_RUNS`, or by `BETWEEN_DISTURBED_RUNS` where one of the
    measurements has a warning about its machine. The margin for "no difference" is twice `BETWEEN_RUNS`.

    Args:
        baseline: Median in seconds with its 95 % interval, None where there were too few rounds.
        candidate: The same of the other.
        warnings: Codes of both measurements' warnings.
    """
    floor = BETWEEN_RUNS if _DISTURBED.isdisjoint(warnings) else BETWEEN_DISTURBED_RUNS
    (base, theirs), (median, ours) = baseline, candidate
    ratio = median / base
    interval: Interval | None = None
    if ours is not None and theirs is not None:
        below, above = (_log_reach(median, bound) for bound in ours)
        base_below, base_above = (_log_reach(base, bound) for bound in theirs)
        allowance = math.log1p(floor)
        interval = (
            ratio * math.exp(-math.hypot(below, base_above) - allowance),
            ratio * math.exp(math.hypot(above, base_below) + allowance),
        )
    estimate = RatioEstimate(ratio, interval)
    return Judgement(estimate, floor, 2 * BETWEEN_RUNS, decide(estimate, floor, 2 * BETWEEN_RUNS))


def differing_hosts(baseline: HostInfo, candidate: HostInfo) -> tuple[str, ...]:
    """In what two machines differ that decides their speed; empty for one machine, or two of one kind."""
    fields: tuple[tuple[str, Callable[[HostInfo], object]], ...] = (
        ("processor", lambda host: host.cpu or host.machine),
        ("instruction sets", lambda host: None if host.isa is None else " ".join(host.isa)),
        ("physical cores", lambda host: host.physical_cores),
        ("logical cores", lambda host: host.logical_cores),
        ("usable cores", lambda host: host.usable_cores),
        ("CPU quota", lambda host: host.cpu_quota),
        ("system", lambda host: host.system),
        ("virtual machine", lambda host: host.virtualised),
    )
    return tuple(
        f"{name}: {_known(read(baseline))} and {_known(read(candidate))}"
        for name, read in fields
        if read(baseline) != read(candidate)
    )


def _known(value: object) -> str:
    return "unknown" if value is None else str(value)


def _log_reach(middle: float, bound: float) -> float:
    return abs(math.log(bound / middle))


def _find_mismatches(
    label: str, baseline: ProfileReport, other_label: str, candidate: ProfileReport
) -> list[MeasurementWarning]:
    """What besides the artifact is not the same in two reports."""
    found = []
    hosts = differing_hosts(baseline.host, candidate.host)
    if hosts:
        text = (
            f"{label} and {other_label} were measured on DIFFERENT MACHINES, and so is their ratio: {'; '.join(hosts)}"
        )
        found.append(MeasurementWarning("other-host", text))
    pairs = (
        ("other-threads", "threads", baseline.threads, candidate.threads),
        ("other-options", "engine settings", dict(baseline.settings.options), dict(candidate.settings.options)),
        ("other-inputs", "inputs", baseline.settings.inputs, candidate.settings.inputs),
        ("other-edgex", "edgex", baseline.edgex_version, candidate.edgex_version),
    )
    for code, name, ours, theirs in pairs:
        if ours != theirs:
            found.append(MeasurementWarning(code, f"{name}: {ours} for {label}, {theirs} for {other_label}"))
    if (
        baseline.artifact.engine == candidate.artifact.engine
        and baseline.artifact.versions != candidate.artifact.versions
    ):
        versions = [
            ", ".join(f"{k} {v}" for k, v in sorted(r.artifact.versions.items())) for r in (baseline, candidate)
        ]
        text = f"engine versions: {versions[0]} for {label}, {versions[1]} for {other_label}"
        found.append(MeasurementWarning("other-versions", text))
    return found
