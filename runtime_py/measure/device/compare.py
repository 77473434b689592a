"""Artifacts held against the first on a device: profiled in turns, a part of the samples each time."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from edgex.errors import UsageError
from edgex.runtime.artifact.artifact import CheckLevel
from edgex.runtime.execute.base import Device, Progress, no_progress
from edgex.runtime.measure.compare.reports import compare_reports
from edgex.runtime.measure.compare.result import Comparison
from edgex.runtime.measure.compare.subjects import all_artifacts, find_differences, read_subjects, refuse_differences
from edgex.runtime.measure.device.commands import profile_on
from edgex.runtime.measure.profile.report import LoadTimes, ProfileReport
from edgex.runtime.measure.profile.warnings import find_warnings
from edgex.runtime.measure.statistics import summarize
from edgex.runtime.support.activity import MeasurementWarning

# Turns of each artifact. A slow change, such as heat, then falls on all of them alike.
TURNS = 3
_TURNS_WARNING = MeasurementWarning(
    "not-interleaved",
    f"measured in {TURNS} turns of each on the device: intervals are wider than those of artifacts timed side by side",
)


def compare_on(
    device: Device,
    subjects: Sequence[str | os.PathLike[str]],
    *,
    inputs: Mapping[str, Any] | None = None,
    threads: int | None = None,
    allow_different: bool = False,
    check: CheckLevel = "hash",
    progress: Progress = no_progress,
) -> Comparison:
    """Hold artifacts against the first, all of them on one device.

    The turns are coarser than those on this machine, and there is no A/A floor of the same session: the intervals are
    widened as those of saved reports are.

    Raises:
        UsageError: Fewer than two, saved reports, or different models.
        EdgexError: An artifact or the device failed.
    """
    labels, opened = read_subjects(subjects, check)
    if not all_artifacts(opened):
        raise UsageError("--device is for artifacts: a saved report was taken where it was taken")
    differences = find_differences(labels, opened)
    refuse_differences(differences, allow_different)
    parts: list[list[ProfileReport]] = [[] for _ in opened]
    for turn in range(TURNS):
        order = range(len(opened)) if turn % 2 == 0 else reversed(range(len(opened)))
        for at in order:
            progress("compare", f"{labels[at]}, turn {turn + 1} of {TURNS}")
            parts[at].append(
                profile_on(device, opened[at], inputs, threads=threads, trace=turn == 0, fresh_processes=1)
            )
    comparison = compare_reports(labels, [_join(reports) for reports in parts], differences)
    warnings = [warning for warning in comparison.warnings if warning.code != _TURNS_WARNING.code]
    return replace(comparison, kind="artifacts", warnings=(_TURNS_WARNING, *warnings))


def _join(reports: Sequence[ProfileReport]) -> ProfileReport:
    """One report of all turns, with the samples of each."""
    first = reports[0]
    rounds = tuple(samples for report in reports for samples in report.rounds)
    fresh = tuple(run for report in reports for run in report.fresh)
    summary = summarize(rounds)
    settings = replace(first.settings, rounds=len(rounds), fresh_processes=len(fresh))
    doubts = find_warnings(summary, rounds, settings, first.host, first.threads, first.activity)
    of_turns = {
        warning.code
        for one in reports
        for warning in find_warnings(one.steady, one.rounds, one.settings, one.host, one.threads, one.activity)
    }
    # What the device itself said, heat for example, counts in whichever turn it was.
    kept = dict.fromkeys(warning for one in reports for warning in one.warnings if warning.code not in of_turns)
    return replace(
        first,
        settings=settings,
        rounds=rounds,
        steady=summary,
        throughput=1.0 / summary.mean,
        fresh=fresh,
        load_seconds=LoadTimes.over(fresh),
        warnings=(*kept, *doubts),
    )
