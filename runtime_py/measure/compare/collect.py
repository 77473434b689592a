"""`edgex.compare(a, b)`: artifacts timed in turns, or saved profiles, with verdicts that the samples carry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from edgex.errors import UsageError
from edgex.runtime.artifact.artifact import CheckLevel, check_level
from edgex.runtime.execute.base import Executor
from edgex.runtime.measure.compare.artifacts import CompareSettings, compare_artifacts
from edgex.runtime.measure.compare.on_executor import compare_on
from edgex.runtime.measure.compare.reports import compare_reports
from edgex.runtime.measure.compare.result import Comparison
from edgex.runtime.measure.compare.subjects import (
    Given,
    all_artifacts,
    all_reports,
    find_differences,
    read_subjects,
    refuse_differences,
)
from edgex.runtime.measure.turns.contest import BUDGET_SECONDS, PROCESSES
from edgex.runtime.support.arguments import check_mapping, check_number, check_threads


def compare(
    *subjects: Given,
    inputs: Mapping[str, Any] | None = None,
    threads: int | None = None,
    options: Mapping[str, Any] | None = None,
    allow_different: bool = False,
    max_seconds: float = BUDGET_SECONDS,
    processes: int = PROCESSES,
    check: CheckLevel = "hash",
    executor: Executor | None = None,
    progress: Callable[[str, str], None] = lambda _stage, _detail: None,
) -> Comparison:
    """Compare artifacts, or saved profiles, with the first.

    Artifacts are timed in turns, each in a process of its own. Reports were taken at different times: their intervals
    are wider, and inputs, threads and so on are as they were.

    Args:
        *subjects: Two or more artifacts, or two or more reports: folders, `.json` files, or such things opened.
        inputs: Arrays of one run by name, for every artifact; None takes the baseline's golden example.
        threads: Threads of every artifact; None is the engines' default, which is one for all. What a sweep found is
            not used here.
        options: Engine settings, for every artifact.
        allow_different: Compare different models too, each on its own example, without their outputs.
        max_seconds: How long to go on while an interval is wide, starts and loads included; the smallest schedule, the
            traces and the golden inputs are run in any case.
        processes: Fresh processes of each artifact.
        check: How artifacts are checked.
        executor: Where artifacts run, such as a device, which takes coarser turns; None is this machine.
        progress: Told about each stage, with a detail.

    Raises:
        UsageError: Fewer than two, artifacts and reports together, different models, or settings for reports.
        ArtifactError: One is not there, damaged, or of another schema.
        EdgexError: An artifact cannot be loaded or run.
    """
    check_level(check)
    check_threads(threads, here=executor is None)
    check_mapping("options", options)
    check_number("max_seconds", max_seconds)
    if executor is not None:
        return compare_on(
            executor,
            subjects,
            inputs=inputs,
            threads=threads,
            allow_different=allow_different,
            check=check,
            progress=progress,
        )
    labels, opened = read_subjects(subjects, check)
    differences = find_differences(labels, opened)
    refuse_differences(differences, allow_different)
    if all_reports(opened):
        if inputs is not None or threads is not None or options:
            raise UsageError("inputs, threads and options are for artifacts: a report is what it was")
        return compare_reports(labels, opened, differences)
    assert all_artifacts(opened)
    settings = CompareSettings(inputs, threads, dict(options or {}), max_seconds, processes, check)
    return compare_artifacts(labels, opened, differences, settings, progress)
