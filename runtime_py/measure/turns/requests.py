"""Artifacts sampled on one executor in turns, such as a device: each turn is a request with a part of the samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.execute.base import Executor, Progress, no_progress
from edgex.runtime.execute.request import Pace, RunRequest, RunResult
from edgex.runtime.measure.profile.builder import build_report
from edgex.runtime.measure.profile.report import ProfileReport
from edgex.runtime.measure.turns.contest import run_contest
from edgex.runtime.measure.turns.schedule import ContestPlan

# Turns of each artifact. A slow change, such as heat, then falls on all of them alike.
TURNS = 3


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
    contestants = [
        _Requests(executor, artifact, request, partial(progress, "compare"), label)
        for artifact, request, label in zip(artifacts, requests, labels, strict=True)
    ]
    everybody = len(contestants)
    plan = ContestPlan(1, 1, TURNS, passes=(1,) * everybody, lead_in=(False,) * everybody)
    run_contest(contestants, plan=lambda _paces: plan, begin=begin)
    return [
        build_report(one.artifact, one.request, _join(one.results), executor.host, given=given) for one in contestants
    ]


class _Requests:
    """See `edgex.runtime.measure.turns.contest.Contestant`; each turn is whole: load, warm-up and samples."""

    def __init__(
        self, executor: Executor, artifact: Artifact, request: RunRequest, tell: Callable[[str], object], label: str
    ) -> None:
        self._executor, self.artifact, self.request = executor, artifact, request
        self._tell, self._label = tell, label
        self.results: list[RunResult] = []

    def start(self) -> Pace:
        # Nobody plans by it.
        return Pace(0.0, 1, 0.0, 0.0)

    def reopen(self) -> None:
        raise AssertionError("each turn opens its own session")

    def time_block(self, passes: int, lead_in: bool) -> tuple[float, ...]:
        self._tell(f"{self._label}, turn {len(self.results) + 1} of {TURNS}")
        request = replace(self.request, trace=self.request.trace and not self.results)
        self.results.append(self._executor.execute(self.artifact, request))
        return tuple(sample for samples in self.results[-1].rounds for sample in samples)

    def stop(self) -> None:
        """The executor is its owner's."""


def _join(results: Sequence[RunResult]) -> RunResult:
    """One result of all turns, with the samples of each. What the device said, heat for example, counts in any."""
    return replace(
        results[0],
        planned_rounds=None,
        rounds=tuple(samples for result in results for samples in result.rounds),
        cold=tuple(run for result in results for run in result.cold),
        warnings=tuple(dict.fromkeys(warning for result in results for warning in result.warnings)),
    )
