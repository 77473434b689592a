"""Artifacts compared with the first on one executor, such as a device: sampled in turns, a part of the samples each."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from edgex.errors import UsageError
from edgex.runtime.artifact.artifact import Artifact, CheckLevel
from edgex.runtime.execute.base import Executor, Progress, no_progress
from edgex.runtime.execute.request import RunRequest, RunResult
from edgex.runtime.measure.compare.reports import compare_reports
from edgex.runtime.measure.compare.result import Comparison
from edgex.runtime.measure.compare.subjects import (
    Given,
    all_artifacts,
    find_differences,
    read_subjects,
    refuse_differences,
)
from edgex.runtime.measure.profile.builder import build_report
from edgex.runtime.measure.profile.report import ProfileReport
from edgex.runtime.measure.steps import choose_steps
from edgex.runtime.measure.turns import Turns
from edgex.runtime.support.machine.activity import MeasurementWarning

# Turns of each artifact. A slow change, such as heat, then falls on all of them alike.
TURNS = 3
_TURNS_WARNING = MeasurementWarning(
    "not-interleaved",
    f"measured in {TURNS} turns of each on the device: intervals are wider than those of artifacts timed side by side",
)


def compare_on(
    executor: Executor,
    subjects: Sequence[Given],
    *,
    inputs: Mapping[str, Any] | None = None,
    threads: int | None = None,
    allow_different: bool = False,
    check: CheckLevel = "hash",
    progress: Progress = no_progress,
) -> Comparison:
    """Compare artifacts with the first, all of them on one executor.

    The turns are coarser than those of `edgex.compare`, and there is no A/A floor of the same session: the intervals
    are widened as those of saved reports are.

    Raises:
        UsageError: Fewer than two, saved reports, or different models.
        EdgexError: An artifact or the device failed.
    """
    labels, opened = read_subjects(subjects, check)
    if not all_artifacts(opened):
        raise UsageError("--device is for artifacts: a saved report was taken where it was taken")
    differences = find_differences(labels, opened)
    refuse_differences(differences, allow_different)
    requests = [
        RunRequest((choose_steps(one, inputs),), threads, {}, check, runs=None, fresh_processes=1, trace=True)
        for one in opened
    ]
    reports = report_in_turns(executor, opened, requests, labels, progress, given=inputs is not None)
    comparison = compare_reports(labels, reports, differences)
    warnings = [warning for warning in comparison.warnings if warning.code != _TURNS_WARNING.code]
    return replace(comparison, kind="artifacts", warnings=(_TURNS_WARNING, *warnings))


def report_in_turns(
    executor: Executor,
    artifacts: Sequence[Artifact],
    requests: Sequence[RunRequest],
    labels: Sequence[str],
    progress: Progress = no_progress,
    *,
    given: bool = False,
    begin: Callable[[int], object] = lambda _index: None,
) -> list[ProfileReport]:
    """Sample artifacts on one executor in turns, each with a request of its own; a trace is taken in the first.

    Args:
        executor: Where they run.
        artifacts: What runs.
        requests: What is asked of each.
        labels: A name of each, for progress.
        progress: Told whose turn it is.
        given: Whether the inputs were the caller's.
        begin: Told whose turn begins.

    Raises:
        EdgexError: An artifact or the device failed.
    """
    parts: list[list[RunResult]] = [[] for _ in artifacts]
    turns = Turns(len(artifacts), random.Random(0))
    for turn in range(TURNS):
        for at in turns.next():
            progress("compare", f"{labels[at]}, turn {turn + 1} of {TURNS}")
            begin(at)
            request = replace(requests[at], trace=requests[at].trace and turn == 0)
            parts[at].append(executor.execute(artifacts[at], request))
    return [
        build_report(artifact, request, _join(results), executor.host, given=given)
        for artifact, request, results in zip(artifacts, requests, parts, strict=True)
    ]


def _join(results: Sequence[RunResult]) -> RunResult:
    """One result of all turns, with the samples of each. What the device said, heat for example, counts in any."""
    return replace(
        results[0],
        planned_rounds=None,
        rounds=tuple(samples for result in results for samples in result.rounds),
        cold=tuple(run for result in results for run in result.cold),
        warnings=tuple(dict.fromkeys(warning for result in results for warning in result.warnings)),
    )
