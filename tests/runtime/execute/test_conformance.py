"""What every executor promises, wherever it runs: a new place to run is one file and one line here.

adb is a stand-in: a phone of the tests' own behind Debian's real adb, whose app doubles its inputs, and sums them up
where the model has state. All the others run real engines.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import EntryPoint

import numpy as np
import pytest
from adb_support import adb, make_artifact, needs_adb, private_server
from device_support import needs_compiler, needs_sshd, running_sshd
from standin_adbd import StandInPhone
from standin_app import StandInApp

from edgex.errors import RunError, UsageError
from edgex.runtime.artifact.artifact import Artifact, open_artifact
from edgex.runtime.artifact.golden import read_golden
from edgex.runtime.execute import address
from edgex.runtime.execute.address import open_executor, parse_address
from edgex.runtime.execute.base import Executor
from edgex.runtime.execute.here.fresh_process import FreshProcess
from edgex.runtime.execute.here.in_process import InProcess
from edgex.runtime.execute.here.kept_process import KeptProcess
from edgex.runtime.execute.request import DeviceOptions, RunRequest, Turn
from edgex.runtime.execute.run import run_once
from edgex.runtime.execute.verification import verify
from edgex.runtime.measure.profile.collect import profile_on
from edgex.runtime.measure.profile.report import ProfileReport


@dataclass
class Place:
    """An executor under test, and what it runs: a model without state, and one with it."""

    executor: Executor
    plain: Artifact
    stateful: Artifact


EXECUTORS = [
    "in-process",
    "fresh-process",
    "kept-process",
    pytest.param("local-native", marks=needs_compiler),
    pytest.param("ssh", marks=[needs_sshd, needs_compiler]),
    pytest.param("ssh-python", marks=needs_sshd),
    pytest.param("adb-standin", marks=needs_adb),
]


@pytest.fixture(scope="module", params=EXECUTORS)
def place(request, tmp_path_factory) -> Iterator[Place]:
    with ExitStack() as stack:
        monkeypatch = stack.enter_context(pytest.MonkeyPatch.context())
        if request.param == "adb-standin":
            folder = tmp_path_factory.mktemp("adb")
            yield Place(_open_phone(stack, monkeypatch, folder), *_doublers(folder))
            return
        exported = request.getfixturevalue("exported")
        target = "onnx-cpu" if request.param in ("ssh-python", "in-process") else "xnnpack"
        artifacts = (open_artifact(exported(model, target)) for model in ("convnet", "counter"))
        if request.param.startswith("ssh"):
            server = stack.enter_context(running_sshd(tmp_path_factory.mktemp("sshd")))
            monkeypatch.setenv("EDGEX_SSH_OPTIONS", server.options)
            executor = stack.enter_context(open_executor("ssh:box", DeviceOptions(python=sys.executable)))
        elif request.param == "local-native":
            executor = stack.enter_context(open_executor("local-native"))
        else:
            kinds = {"in-process": InProcess, "fresh-process": FreshProcess, "kept-process": KeptProcess}
            executor = stack.enter_context(kinds[request.param]())
        yield Place(executor, *artifacts)


def _open_phone(stack: ExitStack, monkeypatch, folder) -> Executor:
    server = stack.enter_context(private_server(folder))
    for name in ("ADB_SERVER_SOCKET", "ANDROID_SERIAL", "ADB", "ANDROID_ADB_SERVER_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    for name in ("ANDROID_ADB_SERVER_PORT", "HOME", "TMPDIR"):
        monkeypatch.setenv(name, server[name])
    phone = StandInPhone(folder / "phone", StandInApp())
    stack.callback(phone.drop)
    adb(server, "connect", phone.serial)
    return stack.enter_context(open_executor("adb"))


def _doublers(folder) -> tuple[Artifact, Artifact]:
    return make_artifact(folder / "plain"), make_artifact(folder / "state", state=True)


def example(artifact: Artifact) -> dict[str, np.ndarray]:
    """Inputs of one run."""
    case = next(case for case in read_golden(artifact) if case.kind == "compare")
    return dict(case.steps[0].inputs)


def test_it_says_what_it_is(place: Place) -> None:
    info = place.executor.describe()
    assert info.kind and info.address and not info.problems
    assert place.executor.host.logical_cores is None or place.executor.host.logical_cores >= 1
    assert json.dumps(info.to_json())


def test_outputs_come_by_sequence_step_and_name(place: Place) -> None:
    inputs = example(place.plain)
    doubled = {name: array + array for name, array in inputs.items()}
    told = []
    request = RunRequest(((inputs,), (doubled,), (inputs,)), threads=1)
    result = place.executor.execute(place.plain, request, lambda *line: told.append(line))
    assert [len(steps) for steps in result.outputs] == [1, 1, 1] and not result.refused
    names = [spec.name for spec in place.plain.manifest.method.outputs]
    for (step,) in result.outputs:
        assert sorted(step) == sorted(names)
    for name in names:
        first, other, again = (np.asarray(steps[0][name]) for steps in result.outputs)
        np.testing.assert_array_equal(first, again)
        assert not np.array_equal(first, other)
    assert result.executed_on and result.place.startswith(result.executed_on)
    assert not result.rounds


def test_each_sequence_starts_from_the_initial_state(place: Place) -> None:
    steps = max((case.steps for case in read_golden(place.stateful) if case.kind == "compare"), key=len)
    assert len(steps) > 1
    sequence = tuple(dict(step.inputs) for step in steps)
    result = place.executor.execute(place.stateful, RunRequest((sequence, sequence)))
    for outputs in result.outputs:
        for found, step in zip(outputs, steps, strict=True):
            for name, expected in step.outputs.items():
                np.testing.assert_allclose(found[name], expected, rtol=1e-5)


def test_inputs_that_do_not_fit_are_refused_and_the_others_run(place: Place) -> None:
    inputs = example(place.plain)
    name = next(iter(inputs))
    wrong = {**inputs, name: np.zeros((1, 1, 1, 1, 1, 1), np.float32)}
    result = place.executor.execute(place.plain, RunRequest(((inputs,), (wrong,), (inputs,))))
    assert list(result.refused) == [1] and name in result.refused[1].what
    assert [len(steps) for steps in result.outputs] == [1, 0, 1]
    with pytest.raises(RunError, match=name):
        run_once(place.executor, place.plain, wrong)


def test_any_memory_order_is_taken(place: Place) -> None:
    inputs = example(place.plain)
    turned = {name: np.asarray(array, order="F") for name, array in inputs.items()}
    result = place.executor.execute(place.plain, RunRequest(((inputs,), (turned,))))
    (straight,), (other,) = result.outputs
    for name, array in straight.items():
        np.testing.assert_array_equal(array, other[name])


def test_samples_are_taken_as_they_were_asked_for(place: Place) -> None:
    request = RunRequest(((example(place.plain),),), threads=1, warmup=2, runs=6)
    result = place.executor.execute(place.plain, request)
    samples = [sample for samples in result.rounds for sample in samples]
    assert len(samples) == 6 and min(samples) > 0
    assert (result.warmup_runs, result.warmup_settled, result.steps) == (2, None, 1)
    assert result.threads in (None, 1)


def test_samples_of_a_model_with_state_are_whole_sequences(place: Place) -> None:
    steps = max((case.steps for case in read_golden(place.stateful) if case.kind == "compare"), key=len)
    sequence = tuple(dict(step.inputs) for step in steps)
    result = place.executor.execute(place.stateful, RunRequest((sequence,), warmup=1, runs=5))
    assert result.steps == len(steps)
    assert sum(map(len, result.rounds)) >= 5


def test_a_request_becomes_a_report(place: Place) -> None:
    report = profile_on(place.executor, place.plain, warmup=2, runs=8, threads=1, fresh_processes=2)
    assert report.steady.n == 8 and len(report.fresh) == 2
    assert all(run.first > 0 and run.method >= 0 for run in report.fresh)
    assert report.memory.weights_bytes > 0
    # Operators, or the reason why there are none; never neither.
    assert bool(report.ops) != ("not-traced" in {warning.code for warning in report.warnings})
    assert (report.source == "device") == (report.device is not None)
    assert ProfileReport.from_json(json.loads(report.dumps())) == report


def test_the_proof_holds_there(place: Place) -> None:
    for artifact in (place.plain, place.stateful):
        verdict, result = verify(place.executor, artifact)
        assert verdict.passed, verdict.reason
        assert verdict.executed_on == result.place
        assert {case.verdict for case in verdict.cases} <= {"pass", "inconclusive", "skipped"}


def test_settings_of_an_engine_are_refused_where_there_are_none(place: Place) -> None:
    request = RunRequest(((example(place.plain),),), options={"no such setting": 1})
    with pytest.raises((UsageError, RunError), match=r"no such setting|engine settings"):
        place.executor.execute(place.plain, request)


def test_turns_are_taken_or_refused(place: Place) -> None:
    request = RunRequest(((example(place.plain),),), threads=1, turn=Turn(passes=4))
    if not isinstance(place.executor, (FreshProcess, KeptProcess)):
        with pytest.raises(UsageError, match="turns need a process that is kept"):
            place.executor.execute(place.plain, request)
        return
    result = place.executor.execute(place.plain, request)
    (samples,) = result.rounds
    assert len(samples) == 4 * result.pace.samples_per_pass and min(samples) > 0
    assert len(result.cold) == 1 and not result.outputs
    assert result.pace.sample_seconds > 0 and result.warmup_runs > 0 and result.steps == 1


def test_closing_twice_is_allowed() -> None:
    for executor in (InProcess(), FreshProcess(), KeptProcess()):
        with executor:
            executor.close()


class Farm:
    """A place of another package: each board runs what a fresh process here would."""

    def open(self, address, options):
        assert address.serial == "board-7"
        return FreshProcess()

    def list(self):
        return []


def test_a_place_of_another_package_is_found_by_its_entry_point(monkeypatch, exported) -> None:
    point = EntryPoint("farm", f"{__name__}:Farm", address.EXECUTOR_GROUP)
    known = address.find_plugins
    monkeypatch.setattr(address, "find_plugins", lambda group: {**known(group), "farm": point})
    assert str(parse_address("farm:board-7")) == "farm:board-7"
    artifact = open_artifact(exported("convnet", "onnx-cpu"))
    with open_executor("farm:board-7") as executor:
        outputs, _ = run_once(executor, artifact, example(artifact))
    assert len(outputs) == len(artifact.manifest.method.outputs)
    with pytest.raises(UsageError, match="did you mean 'farm'"):
        parse_address("frm:board-7")
