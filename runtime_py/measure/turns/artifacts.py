"""A contestant whose blocks are timed in a process of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from edgex.runtime.artifact.artifact import Artifact, CheckLevel
from edgex.runtime.artifact.golden import Case
from edgex.runtime.engines.trace.tracing import EngineTrace
from edgex.runtime.execute.here.kept_process import KeptProcess
from edgex.runtime.execute.request import FreshRun, Pace, RunRequest, RunResult, Turn
from edgex.runtime.measure.statistics import Rounds
from edgex.runtime.measure.steps import Steps
from edgex.runtime.session.runner import EngineSettings


class ArtifactContestant:
    """An artifact in a process of its own; see `edgex.runtime.measure.turns.contest.Contestant`.

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
        self._request = RunRequest((steps,), settings.threads, settings.options, check)
        self._executor = KeptProcess(label)
        self._session = 0
        self._started: RunResult | None = None
        self.fresh: list[FreshRun] = []
        self.switches = 0

    def start(self) -> Pace:
        """Start a process; its load times are kept.

        Raises:
            EdgexError: What the artifact or its engine raised there.
            ChildEnded: The process died.
        """
        self._session = 0
        result = self._started = self._take(Turn())
        for error in result.refused.values():
            raise error
        assert result.pace is not None
        self.fresh += result.cold
        return result.pace

    @property
    def threads(self) -> int | None:
        """Threads in effect, as the last process said."""
        return self._last_start.threads

    def reopen(self) -> None:
        """Open the session again in the same process."""
        self._session += 1
        self._take(Turn(self._session))

    def time_block(self, passes: int, lead_in: bool) -> tuple[float, ...]:
        """Time a block; seconds per call."""
        result = self._take(Turn(self._session, passes, lead_in))
        self.switches += result.switches
        return result.rounds[0]

    def run_cases(self, cases: Sequence[Case]) -> tuple[Sequence[Sequence[Mapping[str, np.ndarray]]], dict[int, str]]:
        """Outputs of every step of the cases, and the reason of each that was refused."""
        sequences = tuple(tuple(step.inputs for step in case.steps) for case in cases)
        result = self._executor.execute(self.artifact, replace(self._request, sequences=sequences))
        return result.outputs, {number: error.what for number, error in result.refused.items()}

    def trace(self) -> tuple[EngineTrace | None, str | None]:
        """Trace the operators of what is timed; or None, and the reason."""
        result = self._take(Turn(self._session), trace=True)
        return result.trace, result.no_trace_reason

    def stop(self) -> None:
        """End the process; without one nothing happens."""
        self._executor.close()

    def request(self, *, trace: bool) -> RunRequest:
        """What was asked of it, in the form of a run that took samples."""
        return replace(self._request, runs=None, trace=trace)

    def result(self, rounds: Rounds, traced: tuple[EngineTrace | None, str | None]) -> RunResult:
        """All of it, in the form of a run that took samples."""
        trace, reason = traced
        own = tuple(tuple(samples) for samples in rounds)
        return replace(self._last_start, cold=tuple(self.fresh), rounds=own, trace=trace, no_trace_reason=reason)

    def _take(self, turn: Turn, *, trace: bool = False) -> RunResult:
        return self._executor.execute(self.artifact, replace(self._request, turn=turn, trace=trace))

    @property
    def _last_start(self) -> RunResult:
        assert self._started is not None, "it was not started"
        return self._started
