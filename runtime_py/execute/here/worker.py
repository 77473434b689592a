"""One artifact in a process of its own: the child's side of `edgex.runtime.execute.here.client`.

```
request                                                       answer
{"do": "preload", engine}                                     {}: the engine's library is imported, if it can be
{"do": "open", artifact, method, check, threads, options}     {executed_on, assignment, threads, planned_arena_bytes,
                                                              versions, simulator, simulated_seconds}; what was open
                                                              before is closed
{"do": "play", inputs: FILE, steps: [[method or null of each run] of each sequence], outputs: FILE or null, cold, timed}
                                                              {fresh: {…}, done: [steps], refused: {number: error},
                                                              left_out: {number: reason}}, and the event progress
{"do": "repeat", seconds, outputs: FILE}                      {repeats: [{…, changed: [[number, steps]], refused}]};
                                                              the session is closed
{"do": "sample", warmup, runs}                                {}, and the events warmup, plan, round
{"do": "trace", seconds}                                      {trace: {…}} or {reason}
{"do": "pace"}                                                {pace: {…}, warmup: {…}, calls_per_sample}: it is warm
{"do": "block", passes, lead_in}                              {seconds: […], switches}
{"do": "reopen"}                                              {}: the session, elsewhere in memory, and warm
```

What is sampled, traced and timed is the first sequence that was played with `timed`. Files hold tensors: see
`edgex.runtime.execute.tensors`.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from edgex.errors import RunError
from edgex.runtime.artifact.artifact import open_artifact
from edgex.runtime.engines.base import PreloadingEngine
from edgex.runtime.engines.registry import get_engine
from edgex.runtime.execute.request import MethodInputs, method_of
from edgex.runtime.execute.running import (
    FreshSession,
    Played,
    Steps,
    make_workload,
    open_measured,
    play_sequences,
    take_samples,
)
from edgex.runtime.execute.sampling import (
    WarmUp,
    collector_off,
    count_calls_per_sample,
    rest,
    split_pass,
    time_passes,
    warm_up,
)
from edgex.runtime.execute.tensors import pack_tensors, unpack_tensors
from edgex.runtime.execute.tracing import trace_session
from edgex.runtime.session.runner import EngineSettings
from edgex.runtime.session.session import Session
from edgex.runtime.session.simulation import refuse_timing
from edgex.runtime.support.process.serving import Tell, describe_error

# A session that was opened again: its code is warm, only its own memory is not.
_REWARM_SECONDS, _REWARM_CALLS = 0.02, 3


class Worker:
    """Answers requests about one artifact."""

    def __init__(self) -> None:
        self._opened: FreshSession | None = None
        self._session: Session | None = None
        self._steps: Steps = ()
        self._warm: WarmUp | None = None
        self._played: tuple[Sequence[Steps], Played] | None = None

    def __call__(self, request: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
        """Do what a request asks."""
        given = {name: value for name, value in request.items() if name != "do"}
        if request["do"] == "sample":
            take_samples(make_workload(self._open_session, self._steps), tell=tell, **given)
            return {}
        if request["do"] == "play":
            return self.do_play(tell=tell, **given)
        answer: dict[str, Any] = getattr(self, f"do_{request['do']}")(**given)
        return answer

    def close(self) -> None:
        """Close the session."""
        if self._session is not None:
            self._session.close()

    def do_preload(self, engine: str) -> dict[str, Any]:
        """Import an engine's library before there is an artifact; what hinders that is said when one is opened."""
        with suppress(Exception):  # a plug-in may raise anything
            found = get_engine(engine)
            if isinstance(found, PreloadingEngine):
                found.preload()
        return {}

    def do_open(
        self, artifact: str, check: Any, threads: int | None, options: Mapping[str, Any], method: str | None = None
    ) -> dict[str, Any]:
        """Open the artifact, and note what that takes."""
        self.close()
        self._session = self._opened = None
        opened = open_artifact(artifact, check).select(method)
        engine = get_engine(opened.manifest.engine)
        self._opened = open_measured(opened, engine, EngineSettings(threads, options))
        self._session = self._opened.session
        runner = self._session.runner
        return {
            "executed_on": runner.executed_on,
            "assignment": None if self._session.assignment is None else dict(self._session.assignment),
            "threads": runner.threads,
            "planned_arena_bytes": runner.planned_arena_bytes,
            "versions": dict(engine.versions()),
            "simulator": None if self._session.simulator is None else self._session.simulator.words,
            "simulated_seconds": None if self._session.simulator is None else self._session.simulator.seconds,
        }

    def do_play(
        self, inputs: str, steps: list[list[str | None]], outputs: str | None, cold: bool, timed: bool, tell: Tell
    ) -> dict[str, Any]:
        """Run sequences, and write what comes out; `cold` where what it takes is wanted."""
        session, opened = self._open_session, self._opened
        assert opened is not None
        sets = iter(unpack_tensors(Path(inputs).read_bytes()))
        sequences = [
            [next(sets) if method is None else MethodInputs(method, next(sets)) for method in one] for one in steps
        ]
        if timed:
            self._steps = sequences[0] if sequences else ()
        if cold:
            refuse_timing(session.simulator, session.artifact.path.name)
        played = play_sequences(session, sequences, tell)
        self._played = sequences[: len(sequences) - len(played.left_out)], played
        if outputs is not None:
            with Path(outputs).open("wb") as stream:
                for found, given in zip(played.outputs, sequences, strict=True):
                    _write_outputs(stream, session, found, given)
        return {
            "fresh": opened.describe(played),
            "done": [len(sequence) for sequence in played.outputs],
            "refused": {str(number): describe_error(error) for number, error in played.refused.items()},
            "left_out": {str(number): reason for number, reason in played.left_out.items()},
        }

    def do_repeat(self, seconds: float, outputs: str) -> dict[str, Any]:
        """Run what was played once more, and write what comes out otherwise."""
        from edgex.runtime.execute.here.repeating import Repeats

        session, opened = self._open_session, self._opened
        assert opened is not None and self._played is not None
        opening = sum(value or 0.0 for part, value in opened.seconds.items() if part in ("program", "method"))
        self._session = None
        found = Repeats(session, *self._played, seconds, opening).run()
        with Path(outputs).open("wb") as stream:
            for number, steps in (changed for repeat in found for changed in repeat.outputs.items()):
                _write_outputs(stream, session, steps, self._played[0][number])
        return {
            "repeats": [
                {
                    **{name: getattr(repeat, name) for name in ("how", "runs", "sequences", "threads", "reason")},
                    "changed": [[number, len(steps)] for number, steps in repeat.outputs.items()],
                    "refused": {str(number): describe_error(error) for number, error in repeat.refused.items()},
                }
                for repeat in found
            ]
        }

    def do_trace(self, seconds: float) -> dict[str, Any]:
        """Trace the operators; `seconds` of one run that is not traced."""
        session = self._open_session
        found, reason = trace_session(session, [session.prepare(**step) for step in self._steps], seconds)
        if found is None:
            return {"reason": reason}
        rows = [row.to_json() for row in found.rows]
        return {"trace": {**asdict(found), "rows": rows}}

    def do_pace(self) -> dict[str, Any]:
        """Warm up, and say what the other side must know before it plans."""
        self._workload = make_workload(self._open_session, self._steps)
        warm = self._warm = warm_up(self._workload)
        self._calls_per_sample = count_calls_per_sample(self._workload, warm.call_seconds)
        self._passes = split_pass(self._workload, self._calls_per_sample)
        started = time.perf_counter()
        rest()
        resting = time.perf_counter() - started
        self.do_reopen()
        reopening = time.perf_counter() - started - 2 * resting
        return {
            "pace": {
                "sample_seconds": warm.mean_seconds * self._calls_per_sample,
                "samples_per_pass": len(self._passes),
                "rest_seconds": resting,
                "open_seconds": max(0.0, reopening),
            },
            "warmup": asdict(warm),
            "calls_per_sample": self._calls_per_sample,
        }

    def do_block(self, passes: int, lead_in: bool) -> dict[str, Any]:
        """Time passes; `lead_in`: after one that is not counted."""
        before = _count_switches()
        with collector_off():
            if lead_in:
                time_passes(self._passes, 1, self._workload.reset, time.perf_counter_ns)
            samples = time_passes(self._passes, passes, self._workload.reset, time.perf_counter_ns)
        switches = _count_switches() - before
        gc.collect(0)
        rest()
        # A tenth of a nanosecond is finer than any clock here.
        return {"seconds": [round(sample, 10) for sample in samples], "switches": switches}

    def do_reopen(self) -> dict[str, Any]:
        """Open the session again, elsewhere in memory, and warm it up."""
        old, warm = self._open_session, self._warm
        assert warm is not None
        # The new one first: opened after, it would be given the very memory that the old one has left.
        self._session = get_engine(old.artifact.manifest.engine).open(old.artifact, old.settings)
        self._session.settings = old.settings
        old.close()
        self._workload = make_workload(self._session, self._steps)
        calls = max(_REWARM_CALLS, math.ceil(_REWARM_SECONDS / max(warm.mean_seconds, 1e-9)))
        warm_up(self._workload, calls if warm.mean_seconds < _REWARM_SECONDS else 1)
        self._passes = split_pass(self._workload, self._calls_per_sample)
        rest()
        return {}

    @property
    def _open_session(self) -> Session:
        if self._session is None:
            raise RunError("no artifact is open in this process")
        return self._session


def _write_outputs(stream: IO[bytes], session: Session, found: Steps, given: Steps) -> None:
    """Outputs of the steps that were run; the session may be closed."""
    for outputs, step in zip(found, given, strict=False):
        method = session.artifact.select(method_of(step)).manifest.method
        stream.write(pack_tensors(method.outputs, outputs))


def _count_switches() -> int:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
