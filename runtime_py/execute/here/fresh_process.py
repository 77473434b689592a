"""A process of its own on this machine: for proof, load, first run and memory, and for timing in turns.

In a warm process files are cached in the engine, thread pools run and memory is already taken; only a fresh one shows
what a user's program pays. Engines do not share thread pools, allocators or an OpenMP runtime, and a crash ends the
child alone.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from edgex.errors import EdgexError
from edgex.runtime.artifact.artifact import Artifact, CheckLevel
from edgex.runtime.engines.trace.operators import ArenaSpan, OperatorRow
from edgex.runtime.engines.trace.tracing import EngineTrace
from edgex.runtime.execute.base import (
    Closing,
    Keep,
    Prepared,
    Progress,
    describe_here,
    keep_nothing,
    no_progress,
    prepare_sequences,
)
from edgex.runtime.execute.here.sampled import collect_samples
from edgex.runtime.execute.request import Arrays, DeviceInfo, FreshRun, RunRequest, RunResult
from edgex.runtime.execute.tensors import pack_tensors, unpack_tensors
from edgex.runtime.session.repeats import Repeat
from edgex.runtime.support.disk.scratch import scratch_folder
from edgex.runtime.support.machine.host import HostInfo, read_host
from edgex.runtime.support.process.child import Child, Event, rebuild_error

_TASK = "edgex.runtime.execute.here.worker:Worker"
_INPUTS, _OUTPUTS = "in.tensors", "out.tensors"


class Worker:
    """The parent's side of `edgex.runtime.execute.here.worker`: one artifact, open in one child, asked at will.

    Attributes:
        opened: What it said of itself when it had opened the artifact: `executed_on`, `assignment`, `threads`,
            `planned_arena_bytes`, `versions`, `simulator`.
        left_out: Why the last sequences that were played were not simulated, by number.
    """

    def __init__(
        self,
        artifact: Artifact,
        threads: int | None = None,
        options: Mapping[str, Any] | None = None,
        check: CheckLevel = "hash",
        label: str | None = None,
    ) -> None:
        """Start it, and open the artifact there.

        Args:
            artifact: What it opens; checked once more there.
            threads: Threads of a run.
            options: Engine settings by name; values that JSON can hold.
            check: How the artifact is checked.
            label: How errors name it; None is the artifact's folder.

        Raises:
            EdgexError: What the artifact or its engine raised there.
            ChildEnded: It died.
        """
        name = label or artifact.path.name
        self._child = Child(_TASK, f"the process that ran {name}", where=name)
        self._settings = {"check": check, "threads": threads, "options": dict(options or {})}
        try:
            self.open(artifact)
        except BaseException:
            self._child.kill()
            raise

    def open(self, artifact: Artifact) -> None:
        """Open another artifact in the same process, in place of the one that was open.

        Raises:
            EdgexError: What the artifact or its engine raised there.
            ChildEnded: It died.
        """
        self._artifact = artifact
        self.left_out: Mapping[int, str] = {}
        chosen = {"artifact": str(artifact.path.resolve()), "method": artifact.manifest.selected}
        self.opened = self._child.ask({"do": "open", **chosen, **self._settings})

    def kill(self) -> None:
        """End the process at once."""
        self._child.kill()

    def play(
        self,
        sequences: Sequence[Sequence[Arrays]],
        *,
        outputs: bool = True,
        cold: bool = False,
        on_event: Callable[[Event], object] = lambda _event: None,
    ) -> tuple[Sequence[tuple[Arrays, ...]], Mapping[int, EdgexError], FreshRun]:
        """Run sequences, each from the initial state.

        Args:
            sequences: Prepared inputs by name.
            outputs: Whether what comes out is wanted.
            cold: Whether what it takes is wanted, which no simulator tells.
            on_event: Told what the child says meanwhile.

        Returns:
            Outputs per sequence and step; why the engine refused some; load and first run of this process.
        """
        method = self._artifact.manifest.method
        with scratch_folder("run") as folder:
            inputs, written = folder / _INPUTS, folder / _OUTPUTS
            with inputs.open("wb") as stream:
                for step in (step for sequence in sequences for step in sequence):
                    stream.write(pack_tensors(method.inputs, step))
            answer = self._child.ask(
                {
                    "do": "play",
                    "inputs": str(inputs),
                    "steps": [len(sequence) for sequence in sequences],
                    "outputs": str(written) if outputs else None,
                    "cold": cold,
                },
                on_event,
            )
            sets = iter(_read_outputs(written) if outputs else ())
        self.left_out = {int(number): str(reason) for number, reason in answer["left_out"].items()}
        found = [tuple(next(sets, {}) for _ in range(done)) for done in answer["done"]]
        refused = {
            int(number): rebuild_error(said["error"], self._artifact.path.name)
            for number, said in answer["refused"].items()
        }
        return found, refused, FreshRun(**answer["fresh"]) if answer["fresh"]["first"] is not None else _NO_RUN

    def repeat(self, seconds: float) -> tuple[Repeat, ...]:
        """Run what was played once more; nothing can be run afterwards."""
        with scratch_folder("run") as folder:
            answer = self._child.ask({"do": "repeat", "seconds": seconds, "outputs": str(folder / _OUTPUTS)})
            sets = iter(_read_outputs(folder / _OUTPUTS))
        found = []
        for said in answer["repeats"]:
            outputs = {number: tuple(next(sets) for _ in range(steps)) for number, steps in said.pop("changed")}
            errors = {
                int(number): rebuild_error(error["error"], self._artifact.path.name)
                for number, error in said.pop("refused").items()
            }
            found.append(Repeat(**said, outputs=outputs, refused=errors))
        return tuple(found)

    def sample(self, warmup: int | None, runs: int | None, on_event: Callable[[Event], object]) -> None:
        """Take samples of the first sequence that was played; they come as events."""
        self._child.ask({"do": "sample", "warmup": warmup, "runs": runs}, on_event)

    def trace(self, run_seconds: float) -> tuple[EngineTrace | None, str | None]:
        """Trace the operators of the first sequence; or None, and the reason."""
        answer = self._child.ask({"do": "trace", "seconds": run_seconds})
        if "reason" in answer:
            return None, str(answer["reason"])
        said = answer["trace"]
        rows = tuple(map(OperatorRow.from_json, said.pop("rows")))
        arena = tuple(ArenaSpan(**span) for span in said.pop("arena"))
        return EngineTrace(rows=rows, arena=arena, **said), None

    def pace(self) -> dict[str, Any]:
        """Warm up; what a schedule needs to know."""
        return self._child.ask({"do": "pace"})

    def time_block(self, passes: int, lead_in: bool) -> tuple[tuple[float, ...], int]:
        """Time a block: seconds per call, and involuntary context switches meanwhile."""
        answer = self._child.ask({"do": "block", "passes": passes, "lead_in": lead_in})
        return tuple(answer["seconds"]), int(answer["switches"])

    def reopen(self) -> None:
        """Open the session again in the same process."""
        self._child.ask({"do": "reopen"})

    def close(self) -> None:
        """End the process."""
        self._child.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_rest: object) -> None:
        if kind is None or issubclass(kind, EdgexError):
            self._child.close()
        else:
            self._child.kill()


# What stands for the load and first run of a process in which no sequence could be run.
_NO_RUN = FreshRun(None, None, None, 0.0, 0.0, None)


class FreshProcess(Closing):
    """See `edgex.runtime.execute.base.Executor`; a new process for every request."""

    def describe(self) -> DeviceInfo:
        """See `Executor`."""
        return describe_here()

    @property
    def host(self) -> HostInfo:
        """See `Executor`."""
        return read_host()

    def execute(
        self, artifact: Artifact, request: RunRequest, progress: Progress = no_progress, keep: Keep = keep_nothing
    ) -> RunResult:
        """See `Executor`."""
        prepared = prepare_sequences(artifact, request)
        cold = self.start_cold(artifact, request, progress)
        with self._open(artifact, request) as worker:
            outputs, refused, first = worker.play(
                prepared.sequences, on_event=lambda event: progress(event["stage"], event["detail"])
            )
            said = worker.opened
            result = RunResult(
                executed_on=said["executed_on"],
                threads=said["threads"],
                outputs=prepared.spread(outputs),
                refused={**prepared.refused, **{prepared.numbers[at]: error for at, error in refused.items()}},
                threads_source="default" if request.threads is None else "given",
                assignment=said["assignment"],
                planned_arena_bytes=said["planned_arena_bytes"],
                cold=cold or (() if first is _NO_RUN else (first,)),
                versions=said["versions"],
                simulator=said["simulator"],
                left_out={prepared.numbers[at]: reason for at, reason in worker.left_out.items()},
            )
            if request.repeat_seconds:
                result = replace(result, repeats=_number(worker.repeat(request.repeat_seconds), prepared))
            return self._measure(worker, request, result, progress, keep) if request.runs != 0 else result

    def start_cold(self, artifact: Artifact, request: RunRequest, progress: Progress) -> tuple[FreshRun, ...]:
        """Load the artifact and run the first step once, in as many new processes as the request asks for.

        Raises:
            EdgexError: What the artifact or its engine raised there.
            ChildEnded: A process died.
        """
        if request.fresh_processes:
            progress("fresh", f"load and first run in {request.fresh_processes} new processes")
        first = RunRequest((request.sequences[0][:1],))
        steps: Prepared | None = None
        found = []
        for _ in range(request.fresh_processes):
            steps = steps or prepare_sequences(artifact, first)
            with self._open(artifact, request) as worker:
                _, refused, run = worker.play(steps.sequences, outputs=False, cold=True)
            for error in (*steps.refused.values(), *refused.values()):
                raise error
            found.append(run)
        return tuple(found)

    def _open(self, artifact: Artifact, request: RunRequest) -> Worker:
        return Worker(artifact, request.threads, request.options, request.check)

    def _measure(
        self, worker: Worker, request: RunRequest, result: RunResult, progress: Progress, keep: Keep
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


def _read_outputs(path: Path) -> list[dict[str, Any]]:
    """Outputs where they lie in the file: those of many cases need not all be in memory at once."""
    if not path.stat().st_size:
        return []
    with path.open("rb") as stream:
        return unpack_tensors(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ), copy=False)
