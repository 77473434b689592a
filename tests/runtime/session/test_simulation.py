"""What runs in a simulator: a stated time for its cases, and no times told. A stand-in says that it is one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import edgex
from edgex.errors import RunError
from edgex.runtime.artifact.artifact import open_artifact
from edgex.runtime.artifact.golden import read_golden
from edgex.runtime.execute.here.in_process import InProcess
from edgex.runtime.execute.request import RunRequest
from edgex.runtime.execute.running import make_workload, play_sequences
from edgex.runtime.execute.verification import verify
from edgex.runtime.session.session import Session
from edgex.runtime.session.simulation import Simulator


@pytest.fixture
def simulated(exported: Callable[[str, str], Path]) -> Iterator[Session]:
    with edgex.load(exported("convnet", "onnx-cpu"), threads=1) as session:
        session.simulator = Simulator("stand-in for a simulator", 0.0)
        yield session


def test_cases_that_do_not_fit_are_listed_and_the_rest_is_judged(simulated: Session) -> None:
    told: list[tuple[str, str]] = []
    verdict, result = verify(
        InProcess(simulated), simulated.artifact, progress=lambda stage, detail: told.append((stage, detail))
    )
    played = [case for case in read_golden(simulated.artifact) if case.kind != "skipped"]
    assert verdict.passed, verdict.reason
    assert verdict.verified_on == "simulator" and verdict.to_json()["simulator"] == "stand-in for a simulator"
    assert set(result.left_out) == set(range(1, len(played)))
    left = [case for case in verdict.cases if case.verdict == "skipped" and "of simulation" in str(case.reason)]
    assert len(left) == len(played) - 1 and "1 of" in str(left[0].reason)
    assert told[-1] == ("simulate", f"1 of {len(played)}")


def test_with_time_enough_all_run_with_an_estimate(simulated: Session) -> None:
    simulated.simulator = replace(simulated.simulator, seconds=1e9)  # type: ignore[type-var]
    told: list[str] = []
    steps = [case.steps for case in read_golden(simulated.artifact) if case.kind == "compare"][:2]
    sequences = [[dict(step.inputs) for step in case] for case in steps]
    played = play_sequences(simulated, sequences, lambda _event, **values: told.append(values["detail"]))
    assert not played.left_out and all(played.outputs)
    assert told[0] == "1 of 2" and told[1].startswith("2 of 2, about ")


def test_nothing_is_timed(simulated: Session) -> None:
    case = read_golden(simulated.artifact)[0]
    inputs = [dict(case.steps[0].inputs)]
    with pytest.raises(RunError, match="times of a simulator"):
        make_workload(simulated, inputs)
    with pytest.raises(RunError, match="times of a simulator"):
        InProcess(simulated).execute(open_artifact(simulated.artifact.path), RunRequest((tuple(inputs),), runs=3))
    with pytest.raises(RunError, match="times of a simulator"):
        edgex.profile(simulated)
