"""The parent's side of `edgex.runtime.execute.here.worker`: a process with one open artifact, asked at will."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from edgex.errors import EdgexError
from edgex.runtime.artifact.artifact import Artifact, CheckLevel
from edgex.runtime.engines.trace.operators import ArenaSpan, OperatorRow
from edgex.runtime.engines.trace.tracing import EngineTrace
from edgex.runtime.execute.request import Arrays, FreshRun, Pace, method_of
from edgex.runtime.execute.sampling import WarmUp
from edgex.runtime.execute.tensors import pack_tensors, unpack_tensors
from edgex.runtime.session.repeats import Repeat
from edgex.runtime.support.disk.scratch import scratch_folder
from edgex.runtime.support.process.child import Child, Event, rebuild_error

_TASK = "edgex.runtime.execute.here.worker:Worker"
# How long a simulator may take for one sequence of a proof.
RUN_SECONDS = 1800.0
_INPUTS, _OUTPUTS = "in.tensors", "out.tensors"


def start_ahead(engine: str) -> Child:
    """A child that imports an engine's library while nothing is asked of it."""
    child = Child(_TASK, "the process that waits for an artifact")
    child.begin({"do": "preload", "engine": engine})
    return child


class WorkerClient:
    """One artifact, open in one child.

    Attributes:
        opened: What it said of itself when it had opened the artifact: `executed_on`, `assignment`, `threads`,
            `planned_arena_bytes`, `versions`, `simulator`, `simulated_seconds`.
        left_out: Why the last sequences that were played were not simulated, by number.
    """

    def __init__(
        self,
        artifact: Artifact,
        threads: int | None = None,
        options: Mapping[str, Any] | None = None,
        check: CheckLevel = "hash",
        label: str | None = None,
        child: Child | None = None,
    ) -> None:
        """Start it, and open the artifact there.

        Args:
            artifact: What it opens; checked once more there.
            threads: Threads of a run.
            options: Engine settings by name; values that JSON can hold.
            check: How the artifact is checked.
            label: How errors name it; None is the artifact's folder.
            child: One of `start_ahead` that nobody has asked anything; None starts one.

        Raises:
            EdgexError: What the artifact or its engine raised there.
            ChildEnded: It died.
        """
        name = label or artifact.path.name
        what = f"the process that ran {name}"
        self._child = child or Child(_TASK, what, where=name)
        self._child.name(what, name)
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
        simulated = self.opened.get("simulated_seconds")
        # The first sequence, and one that was begun, run to their end: not for ever, where a simulator runs them.
        self._most_seconds = None if simulated is None else simulated + RUN_SECONDS

    def kill(self) -> None:
        """End the process at once."""
        self._child.kill()

    def play(
        self,
        sequences: Sequence[Sequence[Arrays]],
        *,
        outputs: bool = True,
        cold: bool = False,
        timed: bool = False,
        on_event: Callable[[Event], object] = lambda _event: None,
    ) -> tuple[Sequence[tuple[Arrays, ...]], Mapping[int, EdgexError], FreshRun | None]:
        """Run sequences, each from the initial state.

        Args:
            sequences: Prepared inputs by name.
            outputs: Whether what comes out is wanted.
            cold: Whether what it takes is wanted, which no simulator tells.
            timed: Whether the first sequence is what is sampled, traced and timed from now on.
            on_event: Told what the child says meanwhile.

        Returns:
            Outputs per sequence and step; why the engine refused some; load and first run of this process, None where
            none could be run.
        """
        with scratch_folder("run") as folder:
            inputs, written = folder / _INPUTS, folder / _OUTPUTS
            with inputs.open("wb") as stream:
                for step in (step for sequence in sequences for step in sequence):
                    method = self._artifact.select(method_of(step)).manifest.method
                    stream.write(pack_tensors(method.inputs, step))
            answer = self._child.ask(
                {
                    "do": "play",
                    "inputs": str(inputs),
                    "steps": [[method_of(step) for step in sequence] for sequence in sequences],
                    "outputs": str(written) if outputs else None,
                    "cold": cold,
                    "timed": timed,
                },
                on_event,
                timeout_seconds=self._most_seconds,
            )
            sets = iter(_read_outputs(written) if outputs else ())
        self.left_out = {int(number): str(reason) for number, reason in answer["left_out"].items()}
        found = [tuple(next(sets, {}) for _ in range(done)) for done in answer["done"]]
        refused = {
            int(number): rebuild_error(said["error"], self._artifact.path.name)
            for number, said in answer["refused"].items()
        }
        return found, refused, FreshRun(**answer["fresh"]) if answer["fresh"]["first"] is not None else None

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
        """Take samples; they come as events."""
        self._child.ask({"do": "sample", "warmup": warmup, "runs": runs}, on_event)

    def trace(self, run_seconds: float) -> tuple[EngineTrace | None, str | None]:
        """Trace the operators; or None, and the reason."""
        answer = self._child.ask({"do": "trace", "seconds": run_seconds})
        if "reason" in answer:
            return None, str(answer["reason"])
        said = answer["trace"]
        rows = tuple(map(OperatorRow.from_json, said.pop("rows")))
        arena = tuple(ArenaSpan(**span) for span in said.pop("arena"))
        return EngineTrace(rows=rows, arena=arena, **said), None

    def pace(self) -> tuple[Pace, WarmUp, int]:
        """Warm up; what a schedule needs to know, how that went, and how many calls share a sample."""
        answer = self._child.ask({"do": "pace"})
        return Pace(**answer["pace"]), WarmUp(**answer["warmup"]), answer["calls_per_sample"]

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

    def __enter__(self) -> WorkerClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_rest: object) -> None:
        if kind is None or issubclass(kind, EdgexError):
            self._child.close()
        else:
            self._child.kill()


def _read_outputs(path: Path) -> list[dict[str, Any]]:
    """Outputs where they lie in the file: those of many cases need not all be in memory at once."""
    if not path.stat().st_size:
        return []
    with path.open("rb") as stream:
        return unpack_tensors(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ), copy=False)
