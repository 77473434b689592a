"""A process that is kept from request to request, with real engines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgex.errors import EdgexError
from edgex.runtime.artifact.artifact import open_artifact
from edgex.runtime.artifact.golden import read_golden
from edgex.runtime.execute.here.kept_process import KeptProcess
from edgex.runtime.execute.request import RunRequest, Turn


@pytest.fixture(scope="module")
def artifact(exported):
    return open_artifact(exported("convnet", "xnnpack"))


@pytest.fixture(scope="module")
def request_of_turns(artifact) -> RunRequest:
    case = next(case for case in read_golden(artifact) if case.kind == "compare")
    return RunRequest((tuple(dict(step.inputs) for step in case.steps),), threads=1)


def pid(process: KeptProcess) -> int:
    """Of the child."""
    assert process._worker is not None
    return process._worker._child._process.pid


def test_turns_share_a_process_and_warm_up_once(artifact, request_of_turns):
    with KeptProcess() as process:
        first = process.execute(artifact, replace(request_of_turns, turn=Turn()))
        own = pid(process)
        assert first.pace is not None and len(first.cold) == 1 and not first.rounds
        for turn in (Turn(passes=3, lead_in=True), Turn(session=1), Turn(session=1, passes=2)):
            later = process.execute(artifact, replace(request_of_turns, turn=turn))
            assert later.pace is None and not later.cold
            assert [len(samples) for samples in later.rounds] == ([turn.passes] if turn.passes else [])
        assert pid(process) == own


def test_other_requests_between_turns_leave_what_is_timed(artifact, request_of_turns):
    (step,) = request_of_turns.sequences[0]
    other = ({name: array * 2 for name, array in step.items()},)
    with KeptProcess() as process:
        process.execute(artifact, replace(request_of_turns, turn=Turn()))
        played = process.execute(artifact, replace(request_of_turns, sequences=(other, request_of_turns.sequences[0])))
        assert not played.cold
        assert [len(outputs) for outputs in played.outputs] == [1, 1]
        for name, array in played.outputs[0][0].items():
            assert not np.array_equal(array, played.outputs[1][0][name])
        traced = process.execute(artifact, replace(request_of_turns, turn=Turn(passes=1), trace=True))
        assert traced.pace is None and traced.trace is not None and traced.trace.rows
        sampled = process.execute(artifact, replace(request_of_turns, sequences=(other,), warmup=1, runs=3))
        assert sum(map(len, sampled.rounds)) == 3 and not sampled.cold
        again = process.execute(artifact, replace(request_of_turns, turn=Turn(passes=1)))
        assert again.pace is not None and not again.cold, "the workload is another by now"


def test_other_settings_and_errors_have_another_process(artifact, request_of_turns, tmp_path):
    with KeptProcess("mine") as process:
        process.execute(artifact, request_of_turns)
        first = pid(process)
        process.execute(artifact, replace(request_of_turns, threads=2))
        second = pid(process)
        assert second != first
        missing = replace(artifact, path=tmp_path / "nothing.edgex")
        with pytest.raises(EdgexError):
            process.execute(missing, replace(request_of_turns, threads=2))
        assert process._worker is None
        assert process.execute(artifact, request_of_turns).outputs[0]
