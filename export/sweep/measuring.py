"""What a process that measures does: one artifact, or several in turns, here or on a device; latency, no operators."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict
from statistics import median
from typing import TYPE_CHECKING, Any

from edgex.errors import EdgexError
from edgex.export.sweep.placing import fetched
from edgex.export.sweep.task import MeasureTask
from edgex.runtime.measure.results.row import HERE, Timing
from edgex.runtime.support.process.serving import describe_error

if TYPE_CHECKING:
    from edgex.runtime.artifact.artifact import Artifact
    from edgex.runtime.execute.base import Executor
    from edgex.runtime.measure.profile.report import ProfileReport
    from edgex.runtime.measure.steps import Steps
    from edgex.runtime.support.process.serving import Tell

# As long as one artifact alone is measured, about; and processes of each, which differ among themselves.
_SECONDS_EACH, _PROCESSES = 3.0, 2


def answer(request: Mapping[str, Any], _tell: Tell) -> Mapping[str, Any]:
    """Measure.

    Args:
        request: A `MeasureTask` as JSON.

    Returns:
        By job: `timing`, or `error` and `exit_code` where the artifact cannot be fetched, opened or run.

    Raises:
        EdgexError: The device cannot be reached.
    """
    from edgex.runtime.artifact.artifact import open_artifact

    task = MeasureTask.from_json(request)
    artifacts: dict[str, Artifact] = {}
    found: dict[str, Mapping[str, Any]] = {}
    with _open(task.device) as executor, ExitStack() as copies:
        for subject in task.subjects:
            try:
                place = copies.enter_context(fetched(subject.artifact))
                artifacts[subject.job] = open_artifact(str(place), check="size")
            except EdgexError as error:
                found[subject.job] = describe_failure(error)
        while artifacts:
            # One that fails is left out, and the others begin again.
            turns = _Turns(executor, artifacts, task)
            try:
                reports = turns.run()
            except EdgexError as error:
                found[turns.job] = describe_failure(error)
                del artifacts[turns.job]
                continue
            return found | {job: {"timing": asdict(_read_report(report))} for job, report in reports.items()}
    return found


def describe_failure(error: EdgexError) -> dict[str, Any]:
    """An error as an entry of the answer."""
    return {**describe_error(error), "exit_code": error.exit_code}


class _Turns:
    """Artifacts that are timed together.

    Attributes:
        job: Of the one whose turn it is, or was when something failed.
    """

    def __init__(self, executor: Executor, artifacts: Mapping[str, Artifact], task: MeasureTask) -> None:
        self._executor, self._artifacts, self._task = executor, artifacts, task
        self._jobs = list(artifacts)
        self.job = self._jobs[0]

    def run(self) -> dict[str, ProfileReport]:
        """Time them.

        Raises:
            EdgexError: One failed; `job` says which.
        """
        if len(self._jobs) == 1:
            reports = [self._time_alone()]
        elif self._task.device == HERE:
            reports = self._time_here()
        else:
            reports = self._time_on_device()
        return dict(zip(self._jobs, reports, strict=True))

    def _begin(self, index: int) -> None:
        self.job = self._jobs[index]

    def _choose_steps(self) -> list[Steps]:
        from edgex.runtime.measure.steps import choose_steps

        found = []
        for index, artifact in enumerate(self._artifacts.values()):
            self._begin(index)
            found.append(choose_steps(artifact, None))
        return found

    def _time_alone(self) -> ProfileReport:
        from edgex.runtime.measure.profile.collect import profile_on

        (artifact,), task = self._artifacts.values(), self._task
        return profile_on(
            self._executor,
            artifact,
            runs=task.runs,
            threads=task.threads,
            check="size",
            fresh_processes=1,
            trace=False,
        )

    def _time_here(self) -> list[ProfileReport]:
        from edgex.runtime.measure.compare.artifacts import NOT_TRACED, report_contest
        from edgex.runtime.measure.turns.artifacts import ArtifactContestant
        from edgex.runtime.measure.turns.contest import run_contest
        from edgex.runtime.session.runner import EngineSettings
        from edgex.runtime.support.machine.activity import describe_activity, take_snapshot

        settings = EngineSettings(self._task.threads)
        contestants = [
            ArtifactContestant(artifact, artifact.path.name, steps, settings, "size")
            for artifact, steps in zip(self._artifacts.values(), self._choose_steps(), strict=True)
        ]
        host, before = self._executor.host, take_snapshot()
        contest = run_contest(
            contestants,
            processes=_PROCESSES,
            max_seconds=_SECONDS_EACH * len(contestants),
            last_is_first=False,
            begin=self._begin,
        )
        activity = describe_activity(before, take_snapshot(), host.logical_cores)
        return report_contest(contest, contestants, [NOT_TRACED] * len(contestants), activity, host, given=False)

    def _time_on_device(self) -> list[ProfileReport]:
        from edgex.runtime.execute.request import RunRequest
        from edgex.runtime.measure.turns.requests import report_in_turns

        requests = [
            RunRequest((steps,), self._task.threads, {}, "size", runs=None, fresh_processes=1)
            for steps in self._choose_steps()
        ]
        artifacts = list(self._artifacts.values())
        return report_in_turns(self._executor, artifacts, requests, self._jobs, begin=self._begin)


def _open(device: str) -> Executor:
    if device == HERE:
        from edgex.runtime.execute.here.in_process import InProcess

        return InProcess()
    from edgex.runtime.execute.address import open_executor

    return open_executor(device)


def _read_report(report: ProfileReport) -> Timing:
    steady = report.steady
    low, high = steady.median_ci95 or (None, None)
    return Timing(
        median_seconds=steady.median,
        low_seconds=low,
        high_seconds=high,
        min_seconds=steady.min,
        p90_seconds=steady.p90,
        mad_seconds=steady.mad,
        samples=steady.n,
        round_medians_seconds=tuple(float(median(samples)) for samples in report.rounds),
        threads=report.threads,
        load_seconds=report.load_seconds.method,
        first_seconds=report.load_seconds.first,
        peak_rss_bytes=report.memory.peak_rss_bytes,
        executed_on=report.executed_on,
        warnings=tuple(dict.fromkeys(warning.code for warning in report.warnings)),
        host=report.host.to_json(),
    )
