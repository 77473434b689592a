"""What every Python side of a run does with an open session: play sequences, take samples, take stock of a fresh start.

Imports no engine, so that the few files that a device is sent stay few.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from edgex.errors import RunError
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.engines.base import Engine, PreloadingEngine
from edgex.runtime.execute.request import method_of
from edgex.runtime.session.runner import EngineSettings
from edgex.runtime.session.session import Session
from edgex.runtime.session.simulation import refuse_timing
from edgex.runtime.support.machine.memory import read_peak_rss_bytes

if TYPE_CHECKING:
    # Not every run is timed: the functions that do it import it.
    from edgex.runtime.execute.sampling import Clock, Workload

Steps = Sequence[Mapping[str, Any]]
Tell = Callable[..., None]


@dataclass
class Played:
    """What playing sequences gave.

    Attributes:
        outputs: Per sequence and step, outputs by name; of a refused sequence the steps before.
        refused: Why the engine or the signature refused a sequence, by number.
        first_seconds: The very first run; None where there was none.
        first_peak_bytes: Largest resident set after it; None where the system does not say.
        left_out: Why the last sequences, of which there are no outputs, were not simulated, by number.
    """

    outputs: list[tuple[dict[str, np.ndarray], ...]] = field(default_factory=list)
    refused: dict[int, RunError] = field(default_factory=dict)
    first_seconds: float | None = None
    first_peak_bytes: int | None = None
    left_out: dict[int, str] = field(default_factory=dict)


def play_sequences(session: Session, sequences: Sequence[Steps], tell: Tell = lambda _event, **_values: None) -> Played:
    """Run sequences, each from the initial state; the session is left reset.

    Args:
        session: What runs them.
        sequences: Inputs by name, of each step.
        tell: Hears `progress` before each sequence that is simulated, with an estimate.
    """
    played = Played()
    begun = time.perf_counter()
    for number, steps in enumerate(sequences):
        if session.simulator is not None:
            gone = time.perf_counter() - begun
            if number and gone > session.simulator.seconds:
                reason = f"left out: {number} of {len(sequences)} took {session.simulator.seconds:g} s of simulation"
                played.left_out.update(dict.fromkeys(range(number, len(sequences)), reason))
                played.outputs += [()] * (len(sequences) - number)
                break
            left = f", about {gone / number * (len(sequences) - number):.0f} s left" if number else ""
            tell("progress", stage="simulate", detail=f"{number + 1} of {len(sequences)}{left}")
        session.reset()
        found: list[dict[str, np.ndarray]] = []
        try:
            for step in steps:
                own = session_of(session, step)
                started = time.perf_counter()
                results = own.run(**step)
                if played.first_seconds is None:
                    played.first_seconds = time.perf_counter() - started
                    played.first_peak_bytes = read_peak_rss_bytes()
                found.append({spec.name: array for spec, array in zip(own.outputs, results, strict=True)})
        except RunError as error:
            played.refused[number] = error
        played.outputs.append(tuple(found))
    session.reset()
    return played


def session_of(session: Session, step: Mapping[str, Any]) -> Session:
    """The session on the method that runs a step."""
    method = method_of(step)
    return session if method is None else session.method(method)


def make_workload(session: Session, steps: Steps) -> Workload:
    """What is timed: the steps, with a reset before the first where there is state; without state the first alone.

    Raises:
        RunError: It runs in a simulator.
    """
    from edgex.runtime.execute.sampling import Workload

    refuse_timing(session.simulator, session.artifact.path.name)
    kept = steps if session.state else steps[:1]
    calls = [(own.run, own.prepare(**step)) for step in kept for own in [session_of(session, step)]]
    return Workload(
        tuple(functools.partial(run, *arrays) for run, arrays in calls), session.reset if session.state else None
    )


def take_samples(
    workload: Workload,
    warmup: int | None,
    runs: int | None,
    tell: Callable[..., None],
    clock: Clock = time.perf_counter_ns,
) -> None:
    """Warm up and take samples; `tell` hears `progress`, `warmup`, `plan` and each `round`, as devices say them.

    Args:
        workload: What is timed.
        warmup: Warm-up runs; None runs until the latency settles.
        runs: Samples; None takes about three seconds' worth.
        tell: `(event, **values)`, called outside of what is timed.
        clock: Nanoseconds.
    """
    from edgex.runtime.execute.sampling import plan_rounds, sample_rounds, warm_up

    tell("progress", stage="warm up", detail="until the latency settles" if warmup is None else f"{warmup} runs")
    warm = warm_up(workload, warmup, clock=clock)
    tell("warmup", runs=warm.calls, seconds=warm.seconds, settled=warm.settled)
    plan = plan_rounds(workload, warm, runs)
    tell(
        "plan",
        samples=plan.samples,
        rounds=plan.rounds,
        samples_per_round=plan.samples_per_round,
        calls_per_sample=plan.calls_per_sample,
        steps=len(workload.calls),
    )
    taken: list[tuple[float, ...]] = []
    sample_rounds(
        workload, plan, into=taken, after_round=lambda number: tell("round", seconds=taken[number - 1]), clock=clock
    )


@dataclass(frozen=True)
class FreshSession:
    """A session that was just opened in this process, with what that took.

    Attributes:
        session: Open, and not run yet.
        seconds: `check`, `engine_import`, `program`, `method`, as in `FreshRun`.
        stages: Peak resident bytes at the end of each stage so far; None where the system does not tell.
    """

    session: Session
    seconds: Mapping[str, float | None]
    stages: Mapping[str, int | None]

    def describe(self, played: Played) -> dict[str, Any]:
        """The fields of `FreshRun`, once something was played."""
        seconds = {**self.seconds, "first": played.first_seconds}
        stages = {**self.stages, "first": played.first_peak_bytes}
        return {
            **{part: None if value is None else round(value, 9) for part, value in seconds.items()},
            "peak_rss_bytes": played.first_peak_bytes,
            "stages": {stage: size for stage, size in stages.items() if size is not None},
        }


def open_measured(artifact: Artifact, engine: Engine, settings: EngineSettings) -> FreshSession:
    """Open an artifact in this process, which should be fresh, and take the time and the memory of each stage."""
    stages: dict[str, int | None] = {"interpreter": read_peak_rss_bytes()}
    started = time.perf_counter()
    if isinstance(engine, PreloadingEngine):
        engine.preload()
        stages["engine"] = read_peak_rss_bytes()
    session = engine.open(artifact, settings)
    session.settings = settings
    open_seconds = time.perf_counter() - started
    stages["load"] = read_peak_rss_bytes()
    load = session.runner.load_seconds
    seconds = {
        "check": artifact.check_seconds,
        "engine_import": max(0.0, open_seconds - (load.program or 0.0) - load.method),
        "program": load.program,
        "method": load.method,
    }
    return FreshSession(session, seconds, stages)
