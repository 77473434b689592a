"""A contestant whose blocks are timed in a process of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from edgex.runtime.artifact.artifact import Artifact, CheckLevel
from edgex.runtime.artifact.golden import Case
from edgex.runtime.engines.trace.tracing import EngineTrace
from edgex.runtime.execute.here.fresh_process import Worker
from edgex.runtime.execute.request import FreshRun, RunRequest, RunResult
from edgex.runtime.measure.compare.contest import Pace
from edgex.runtime.measure.statistics import Rounds
from edgex.runtime.measure.steps import Steps
from edgex.runtime.session.runner import EngineSettings

# What a schedule needs to know.
_PACE = tuple(Pace.__dataclass_fields__)


class ProcessContestant:
    """An artifact in a process of its own; see `edgex.runtime.measure.compare.contest.Contestant`.

    Attributes:
        label: How errors name it.
        artifact: What runs.
        settings: Threads and engine settings.
        fresh: Load and first run of every process that was started.
        switches: Involuntary context switches within the timed blocks, over all processes.
    """

    def __init__(
        self, artifact: Artifact, label: str, steps: Steps, settings: EngineSettings, check: CheckLevel = "hash"
    ) -> None:
        self.artifact, self.label, self.settings = artifact, label, settings
        self._steps, self._check = steps, check
        self._worker: Worker | None = None
        self._pace: dict[str, Any] = {}
        self._opened: dict[str, Any] = {}
        self.fresh: list[FreshRun] = []
        self.switches = 0

    def start(self) -> Pace:
        """Start a process; its load times are kept.

        Raises:
            EdgexError: What the artifact or its engine raised there.
            ChildEnded: The process died.
        """
        settings = self.settings
        self._worker = Worker(self.artifact, settings.threads, settings.options, self._check, self.label)
        self._opened = self._worker.opened
        _, refused, first = self._worker.play([self._steps], outputs=False)
        for error in refused.values():
            raise error
        self._pace = self._worker.pace()
        self.fresh.append(first)
        return Pace(**{name: self._pace[name] for name in _PACE})

    @property
    def threads(self) -> int | None:
        """Threads in effect, as the last process said."""
        threads: int | None = self._opened["threads"]
        return threads

    def reopen(self) -> None:
        """Open the session again in the same process."""
        self._open_worker.reopen()

    def time_block(self, passes: int, lead_in: bool) -> tuple[float, ...]:
        """Time a block; seconds per call."""
        seconds, switches = self._open_worker.time_block(passes, lead_in)
        self.switches += switches
        return seconds

    def run_cases(self, cases: Sequence[Case]) -> tuple[Sequence[Sequence[Mapping[str, np.ndarray]]], dict[int, str]]:
        """Outputs of every step of the cases, and the reason of each that was refused."""
        outputs, refused, _ = self._open_worker.play([[step.inputs for step in case.steps] for case in cases])
        return outputs, {number: error.what for number, error in refused.items()}

    def trace(self) -> tuple[EngineTrace | None, str | None]:
        """Trace the operators, before any cases are run; or None, and the reason."""
        return self._open_worker.trace(self._pace["warmup"]["call_seconds"])

    def stop(self) -> None:
        """End the process; without one nothing happens."""
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.close()

    def request(self, *, trace: bool) -> RunRequest:
        """What was asked of it, in the form of a run that took samples."""
        settings = self.settings
        return RunRequest((self._steps,), settings.threads, settings.options, self._check, runs=None, trace=trace)

    def result(self, rounds: Rounds, traced: tuple[EngineTrace | None, str | None]) -> RunResult:
        """All of it, in the form of a run that took samples."""
        warm, opened = self._pace["warmup"], self._opened
        return RunResult(
            executed_on=opened["executed_on"],
            threads=opened["threads"],
            outputs=(),
            threads_source="default" if self.settings.threads is None else "given",
            assignment=opened["assignment"],
            planned_arena_bytes=opened["planned_arena_bytes"],
            cold=tuple(self.fresh),
            rounds=tuple(tuple(samples) for samples in rounds),
            steps=len(self._steps),
            calls_per_sample=self._pace["calls_per_sample"],
            warmup_runs=warm["calls"],
            warmup_seconds=warm["seconds"],
            warmup_settled=warm["settled"],
            versions=opened["versions"],
            trace=traced[0],
            no_trace_reason=traced[1],
        )

    @property
    def _open_worker(self) -> Worker:
        assert self._worker is not None, "it was not started"
        return self._worker
