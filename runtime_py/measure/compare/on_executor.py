"""Artifacts compared with the first on one executor, such as a device: sampled in turns, a part of the samples each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from edgex.errors import UsageError
from edgex.runtime.artifact.artifact import CheckLevel
from edgex.runtime.execute.base import Executor, Progress, no_progress
from edgex.runtime.execute.request import RunRequest
from edgex.runtime.measure.compare.reports import compare_reports
from edgex.runtime.measure.compare.result import Comparison
from edgex.runtime.measure.compare.subjects import (
    Given,
    all_artifacts,
    find_differences,
    read_subjects,
    refuse_differences,
)
from edgex.runtime.measure.steps import choose_steps
from edgex.runtime.measure.turns.requests import TURNS, report_in_turns
from edgex.runtime.support.machine.activity import MeasurementWarning

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
