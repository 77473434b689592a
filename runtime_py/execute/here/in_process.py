"""This process as an executor: for one run, and for the latency of a session that is open and warm."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.engines.loading import open_session
from edgex.runtime.execute.base import (
    Here,
    Keep,
    Progress,
    keep_nothing,
    no_progress,
    refuse_turn,
)
from edgex.runtime.execute.request import FreshRun, RunRequest, RunResult
from edgex.runtime.execute.running import Played, make_workload, play_sequences, take_samples
from edgex.runtime.session.session import Session
from edgex.runtime.session.simulation import refuse_timing

if TYPE_CHECKING:
    from edgex.runtime.execute.sampling import Clock
    from edgex.runtime.session.repeats import Repeat


class InProcess(Here):
    """See `edgex.runtime.execute.base.Executor`."""

    def __init__(
        self, session: Session | None = None, *, tuned: bool = False, clock: Clock = time.perf_counter_ns
    ) -> None:
        """Nothing is loaded yet.

        Args:
            session: A session on the artifact that is to run, whose threads and settings stay as they are; it is left
                reset. None opens one for each request, and closes it.
            tuned: Take the threads and engine settings that a pick or a sweep found quickest here, where the request
                names none.
            clock: Nanoseconds, for samples.
        """
        self._session = session
        self._tuned = tuned
        self._clock = clock

    def execute(
        self, artifact: Artifact, request: RunRequest, progress: Progress = no_progress, keep: Keep = keep_nothing
    ) -> RunResult:
        """See `Executor`."""
        refuse_turn(request, "the process that asks")
        with self._opened(artifact, request, progress) as session:
            if request.runs != 0 or request.fresh_processes:
                refuse_timing(session.simulator, session.artifact.path.name)
            # What is sampled is run while it warms up: played first, it would take the settling away.
            tell = partial(_report, progress)
            played = play_sequences(session, request.sequences, tell) if request.runs == 0 else Played()
            result = RunResult(
                executed_on=session.executed_on,
                threads=session.threads,
                outputs=played.outputs,
                refused=played.refused,
                threads_source=session.threads_source,
                tuned_options=session.tuned_options,
                assignment=session.assignment,
                planned_arena_bytes=session.runner.planned_arena_bytes,
                cold=_start_cold(session, request, progress),
                simulator=None if session.simulator is None else session.simulator.words,
                left_out=played.left_out,
            )
            if request.repeat_seconds and self._session is None:
                result = replace(result, repeats=tuple(_repeat(session, request, played)))
            return result if request.runs == 0 else self._measure(session, request, result, progress, keep)

    def _measure(
        self, session: Session, request: RunRequest, result: RunResult, progress: Progress, keep: Keep
    ) -> RunResult:
        from edgex.runtime.engines.registry import get_engine
        from edgex.runtime.execute.here.samples import collect_samples

        versions = get_engine(session.artifact.manifest.engine).versions()
        workload = make_workload(session, request.sequences[0])
        result = collect_samples(
            replace(result, versions=dict(versions)),
            lambda events: take_samples(workload, request.warmup, request.runs, events.tell, self._clock),
            progress,
            keep,
            in_child=False,
        )
        session.reset()
        if not request.trace:
            return result
        keep(result)
        return self._look_inside(session, request, result, progress)

    def _look_inside(self, session: Session, request: RunRequest, result: RunResult, progress: Progress) -> RunResult:
        """Operators and meters, in runs that are not among the samples."""
        from statistics import median

        from edgex.runtime.engines.trace.tracing import run_sequence
        from edgex.runtime.execute.here.memory_growth import measure_growth, read_resident_bytes
        from edgex.runtime.execute.here.meters import read_meters
        from edgex.runtime.execute.tracing import trace_session

        progress("trace", "operators, in runs of their own")
        run_seconds = median(sample for samples in result.rounds for sample in samples)
        kept = request.sequences[0] if session.state else request.sequences[0][:1]
        steps = [session.prepare(**step) for step in kept]
        trace, reason = trace_session(session, steps, run_seconds)
        meters = read_meters(lambda: run_sequence(session, steps), len(steps), run_seconds * len(steps))
        growth = measure_growth(
            lambda: run_sequence(session, steps), len(steps), run_seconds * len(steps), read_resident_bytes
        )
        session.reset()
        result = replace(result, trace=trace, no_trace_reason=reason, growth=growth)
        return replace(result, energy=meters.energy, counters=meters.counters)

    @contextmanager
    def _opened(self, artifact: Artifact, request: RunRequest, progress: Progress) -> Iterator[Session]:
        if self._session is not None:
            yield self._session
            return
        if request.runs != 0:
            progress("load", artifact.path.name)
        with open_session(artifact, request.threads, request.options, tuned=self._tuned) as session:
            yield session


def _report(progress: Progress, _event: str, *, stage: str, detail: str) -> None:
    progress(stage, detail)


def _repeat(session: Session, request: RunRequest, played: Played) -> list[Repeat]:
    """Run the sequences once more; the session is closed. Refused inputs stay refused, whatever the session."""
    from edgex.runtime.execute.here.repeating import Repeats

    load = session.runner.load_seconds
    opening = (load.program or 0.0) + load.method
    sequences = request.sequences[: len(request.sequences) - len(played.left_out)]
    return Repeats(session, sequences, played, request.repeat_seconds, opening).run()


def _start_cold(session: Session, request: RunRequest, progress: Progress) -> tuple[FreshRun, ...]:
    """Fresh processes with the settings of the session."""
    if not request.fresh_processes:
        return ()
    from edgex.runtime.execute.here.kept_process import start_cold

    # As many threads as here, though what a sweep found is no order of the caller's.
    threads = session.threads if session.threads_source == "tuned" else session.settings.threads
    fresh = replace(request, threads=threads, options=session.settings.options)
    return start_cold(session.artifact, fresh, progress)
