"""A process of its own on this machine, kept from request to request: for timing in turns, and many small requests.

Engines do not share thread pools, allocators or an OpenMP runtime with it, and a crash ends the child alone; after one,
and after any other error, the next request has a new process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from edgex.errors import EdgexError
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.execute.base import (
    Here,
    Keep,
    Prepared,
    Progress,
    keep_nothing,
    no_progress,
    prepare_sequences,
)
from edgex.runtime.execute.here.client import WorkerClient
from edgex.runtime.execute.here.samples import collect_samples
from edgex.runtime.execute.request import FreshRun, RunRequest, RunResult, Turn
from edgex.runtime.execute.sampling import WarmUp
from edgex.runtime.session.repeats import Repeat
from edgex.runtime.support.process.child import Child


class KeptProcess(Here):
    """See `edgex.runtime.execute.base.Executor`; one process for all requests with the same threads and settings."""

    def __init__(self, label: str | None = None, child: Child | None = None) -> None:
        """Nothing is started yet.

        Args:
            label: How errors name what runs; None is the artifact's folder.
            child: Serves the first request, where there is one; see `edgex.runtime.execute.here.client.start_ahead`.
        """
        self._label = label
        self._child = child
        self._worker: WorkerClient | None = None
        self._artifact: Artifact | None = None
        self._settings: tuple[Any, ...] = ()
        self._is_fresh = False
        # The sequences of which turns are taken, in which session, and how warming up for them went.
        self._timed: tuple[tuple[Mapping[str, Any], ...], ...] | None = None
        self._session = 0
        self._warm: WarmUp | None = None

    def execute(
        self, artifact: Artifact, request: RunRequest, progress: Progress = no_progress, keep: Keep = keep_nothing
    ) -> RunResult:
        """See `Executor`."""
        cold = start_cold(artifact, request, progress)
        try:
            worker = self._open(artifact, request)
            if request.turn is not None:
                return self._take_turn(worker, artifact, request, request.turn, cold)
            result = self._play(worker, artifact, request, cold, progress)
            return self._measure(worker, request, result, progress, keep) if request.runs != 0 else result
        except BaseException as error:
            self._end(at_once=not isinstance(error, EdgexError))
            raise

    def close(self) -> None:
        """End the process; the next request starts another."""
        self._end(at_once=False)

    def _open(self, artifact: Artifact, request: RunRequest) -> WorkerClient:
        settings = request.threads, request.options, request.check
        if self._worker is None or settings != self._settings:
            self.close()
            child, self._child = self._child, None
            self._worker = WorkerClient(artifact, request.threads, request.options, request.check, self._label, child)
            self._is_fresh = True
        elif artifact is not self._artifact:
            self._worker.open(artifact)
        else:
            return self._worker
        self._artifact, self._settings, self._timed = artifact, settings, None
        return self._worker

    def _end(self, *, at_once: bool) -> None:
        worker, self._worker = self._worker, None
        if worker is not None and at_once:
            worker.kill()
        elif worker is not None:
            worker.close()

    def _play(
        self,
        worker: WorkerClient,
        artifact: Artifact,
        request: RunRequest,
        cold: tuple[FreshRun, ...],
        progress: Progress = no_progress,
    ) -> RunResult:
        """Run the sequences, each from the initial state; all of them once more where that is wanted."""
        prepared = prepare_sequences(artifact, request)
        outputs, refused, first = worker.play(
            prepared.sequences,
            outputs=request.turn is None,
            timed=request.turn is not None or request.runs != 0,
            on_event=lambda event: progress(event["stage"], event["detail"]),
        )
        if first is not None and self._is_fresh:
            # What ran later found everything warm.
            cold, self._is_fresh = cold or (first,), False
        if request.runs != 0:
            self._timed = None
        result = replace(
            _describe(worker, request),
            outputs=() if request.turn else prepared.spread(outputs),
            refused={**prepared.refused, **{prepared.numbers[at]: error for at, error in refused.items()}},
            cold=cold,
            left_out={prepared.numbers[at]: reason for at, reason in worker.left_out.items()},
        )
        if request.repeat_seconds:
            repeats = _number(worker.repeat(request.repeat_seconds), prepared)
            # Nothing can be run in it afterwards.
            self._end(at_once=False)
            return replace(result, repeats=repeats)
        return result

    def _measure(
        self, worker: WorkerClient, request: RunRequest, result: RunResult, progress: Progress, keep: Keep
    ) -> RunResult:
        result = collect_samples(
            result,
            lambda events: worker.sample(request.warmup, request.runs, events.take),
            progress,
            keep,
            in_child=True,
        )
        if request.trace:
            keep(result)
            progress("trace", "operators, in runs of their own")
            trace, reason = worker.trace(median(sample for samples in result.rounds for sample in samples))
            result = replace(result, trace=trace, no_trace_reason=reason)
        return result

    def _take_turn(
        self, worker: WorkerClient, artifact: Artifact, request: RunRequest, turn: Turn, cold: tuple[FreshRun, ...]
    ) -> RunResult:
        result = _describe(worker, request)
        if request.sequences is not self._timed:
            result = self._play(worker, artifact, request, cold)
            if result.refused:
                return result
            pace, self._warm, per_sample = worker.pace()
            self._timed, self._session = request.sequences, turn.session
            result = replace(
                result,
                pace=pace,
                steps=len(request.sequences[0]),
                calls_per_sample=per_sample,
                warmup_runs=self._warm.calls,
                warmup_seconds=self._warm.seconds,
                warmup_settled=self._warm.settled,
            )
        elif turn.session != self._session:
            worker.reopen()
            self._session = turn.session
        if turn.passes:
            seconds, switches = worker.time_block(turn.passes, turn.lead_in)
            result = replace(result, rounds=(seconds,), switches=switches)
        if request.trace:
            assert self._warm is not None
            trace, reason = worker.trace(self._warm.call_seconds)
            result = replace(result, trace=trace, no_trace_reason=reason)
        return result


def start_cold(artifact: Artifact, request: RunRequest, progress: Progress) -> tuple[FreshRun, ...]:
    """Load the artifact and run the first step once, in as many new processes as the request asks for.

    Raises:
        EdgexError: What the artifact or its engine raised there.
        ChildEnded: A process died.
    """
    if not request.fresh_processes:
        return ()
    progress("fresh", f"load and first run in {request.fresh_processes} new processes")
    steps = prepare_sequences(artifact, RunRequest((request.sequences[0][:1],)))
    found = []
    for _ in range(request.fresh_processes):
        with WorkerClient(artifact, request.threads, request.options, request.check) as worker:
            _, refused, run = worker.play(steps.sequences, outputs=False, cold=True)
        for error in (*steps.refused.values(), *refused.values()):
            raise error
        assert run is not None
        found.append(run)
    return tuple(found)


def _describe(worker: WorkerClient, request: RunRequest) -> RunResult:
    """What the process said of itself when it had opened the artifact."""
    said = worker.opened
    return RunResult(
        executed_on=said["executed_on"],
        threads=said["threads"],
        outputs=(),
        threads_source="default" if request.threads is None else "given",
        assignment=said["assignment"],
        planned_arena_bytes=said["planned_arena_bytes"],
        versions=said["versions"],
        simulator=said["simulator"],
    )


def _number(repeats: Sequence[Repeat], prepared: Prepared) -> tuple[Repeat, ...]:
    """With the request's numbers of sequences."""
    return tuple(
        replace(
            repeat,
            outputs={prepared.numbers[at]: steps for at, steps in repeat.outputs.items()},
            refused={prepared.numbers[at]: error for at, error in repeat.refused.items()},
        )
        for repeat in repeats
    )
