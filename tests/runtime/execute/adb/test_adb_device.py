"""Artifacts on an Android device: the real adb program, and a stand-in for the phone behind it."""

import time
from dataclasses import replace

import numpy as np
import pytest
from adb_support import make_artifact, needs_adb
from standin_app import APP, StandInApp

from edgex.errors import DeviceError, RunError, UsageError
from edgex.runtime.execute.adb import Adb
from edgex.runtime.execute.address import open_executor
from edgex.runtime.execute.request import DeviceOptions, RunRequest
from edgex.runtime.execute.run import run_once
from edgex.runtime.execute.verification import verify
from edgex.runtime.measure.profile.collect import profile_on

pytestmark = needs_adb

EDGEX = f"Android/data/{APP}/files/edgex"


@pytest.fixture
def artifact(tmp_path):
    return make_artifact(tmp_path / "artifact")


def model_file(artifact):
    return f"{EDGEX}/{artifact.manifest.file('.pte').sha256}.pte"


def execute(phone, artifact, request=None, app=None, progress=None):
    example = {"x": np.ones((2, 3), np.float32)}
    with open_executor(f"adb:{phone.serial}", DeviceOptions(app=app)) as device:
        return device.execute(artifact, request or RunRequest(((example,),)), *([progress] if progress else []))


def test_it_runs_and_leaves_only_the_model(bench, artifact):
    phone = bench()
    with open_executor("adb") as device:
        outputs, answer = run_once(device, artifact, {"x": np.full((2, 3), 1.5, np.float32)}, threads=3)
        assert device.describe().model == "Stand-in Phone 1"
    np.testing.assert_array_equal(outputs[0], np.full((2, 3), 3.0, np.float32))
    assert (answer.threads, answer.executed_on) == (3, "executorch: XnnpackBackend")
    assert answer.device.os == "Android 15 (API 35)"
    assert answer.conditions["returned_by"] == "instrument"
    assert phone.files() == [model_file(artifact)]


def test_a_model_is_sent_once(bench, tmp_path):
    artifact = make_artifact(tmp_path / "large", size=700_000)
    phone = bench()
    first = execute(phone, artifact)
    sent = phone.pushed_bytes
    second = execute(phone, artifact)
    assert sent > 700_000
    assert phone.pushed_bytes - sent < 2000, "inputs and the job, not the model"
    assert (first.copied_bytes, second.copied_bytes, second.copy_seconds) == (700_000, 0, None)
    assert first.copy_seconds > 0


def test_the_golden_data_is_replayed_there_and_judged_here(bench, artifact, tmp_path):
    phone = bench()
    with open_executor("adb") as device:
        verdict, answer = verify(device, artifact)
    assert verdict.passed and {case.name for case in verdict.cases} == {"example", "other"}
    phone.app.fault = "wrong outputs"
    with open_executor("adb") as device:
        verdict, _ = verify(device, artifact)
    assert not verdict.passed and "SQNR" in verdict.reason
    assert answer.model_digest == artifact.manifest.file(".pte").sha256


def test_state_is_carried_through_a_sequence(bench, tmp_path):
    bench()
    with open_executor("adb") as device:
        verdict, _ = verify(device, make_artifact(tmp_path / "state", state=True))
    assert verdict.passed


def test_a_profile_is_a_report(bench, artifact):
    bench()
    seen = []
    with open_executor("adb") as device:
        report = profile_on(
            device, artifact, runs=40, warmup=5, progress=lambda stage, detail: seen.append((stage, detail))
        )
    assert report.steady.n == 40 and report.source == "device"
    assert report.host.cpu == "Nobody SoC 1" and report.host.isa == ("asimd", "asimddp")
    assert len(report.fresh) == 3 and report.fresh[0].peak_rss_bytes == 50_000_000
    assert report.device["before"]["battery_celsius"] == 30.5 and report.device["copied_bytes"] > 0
    codes = [warning.code for warning in report.warnings]
    assert "thermal" in codes and "not-traced" in codes
    assert ("measure", "20/40") in seen


def test_a_second_run_needs_few_calls_of_adb(bench, artifact):
    """Each call costs some hundredths of a second; together they are what a run takes beside transfer and the app."""
    phone = bench()
    execute(phone, artifact)
    before = len(phone.lines)
    started = time.perf_counter()
    execute(phone, artifact)
    print(f"round trip without transfer: {time.perf_counter() - started:.2f} s")
    assert len(phone.lines) - before <= 8, phone.lines[before:]


@pytest.mark.parametrize(
    ("setting", "way"), [("silent", "pull"), ("silent, no pull", "run-as"), ("no instrument", "activity")]
)
def test_there_are_other_ways_to_the_answer(bench, artifact, setting, way):
    app = StandInApp(fault=setting.partition(",")[0], debuggable=way == "run-as")
    app.forbids_pull = "no pull" in setting
    phone = bench(app)
    answer = execute(phone, artifact)
    assert answer.conditions["returned_by"] == way
    np.testing.assert_array_equal(answer.outputs[0][0]["y"], np.full((2, 3), 2, np.float32))
    assert phone.files() == [model_file(artifact)]


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("crash", "the app crashed on the device: Process crashed."),
        ("other run", "the device answered for another run: '0123456789abcdef'"),
        ("other model", "another model ran on the device: SHA-256 ffffffffffff…"),
        ("digest", "the model on the device is not the one that was sent"),
        ("damaged", "the device's answer is damaged"),
        ("no start", "the device lets nothing be started in the app"),
    ],
)
def test_what_goes_wrong_in_the_app_is_said_and_nothing_is_left(bench, artifact, fault, sentence):
    phone = bench(StandInApp(fault=fault))
    with pytest.raises(DeviceError) as caught:
        execute(phone, artifact)
    assert caught.value.exit_code == 8
    assert sentence in caught.value.what
    assert phone.files() == []
    if fault == "crash":
        assert "Fatal signal 4 (SIGILL)" in caught.value.why and "libexecutorch.so" in caught.value.why
        assert "private words" not in caught.value.why and "Start proc" in caught.value.why


def test_lost_answers_without_another_way_are_said(bench, artifact):
    app = StandInApp(fault="silent")
    app.forbids_pull = True
    phone = bench(app)
    with pytest.raises(DeviceError, match="its answer did not come back"):
        execute(phone, artifact)
    assert phone.files() == []


def test_the_engines_refusal_is_the_runs_error(bench, artifact):
    phone = bench(StandInApp(fault="engine"))
    with pytest.raises(RunError) as caught:
        execute(phone, artifact)
    assert "0x14" in caught.value.why and caught.value.exit_code == 6
    assert caught.value.fix == "edgex explain 0x14"
    assert phone.files() == []


def test_a_damaged_model_on_the_device_is_replaced(bench, artifact):
    phone = bench()
    execute(phone, artifact)
    stored = phone.path(f"/sdcard/{model_file(artifact)}")
    stored.write_bytes(b"x" * stored.stat().st_size)
    with pytest.raises(DeviceError, match="another model ran"):
        execute(phone, artifact)
    assert phone.files() == []
    execute(phone, artifact)
    assert phone.files() == [model_file(artifact)]


def test_what_an_interrupted_run_left_is_removed(bench, artifact):
    phone = bench()
    folder = phone.path(f"/sdcard/{EDGEX}")
    (folder / "job-old").mkdir(parents=True)
    (folder / "job-old" / "in-0-0-0.bin").write_bytes(b"x")
    (folder / ("a" * 64 + ".pte.part")).write_bytes(b"x")
    execute(phone, artifact)
    assert phone.files() == [model_file(artifact)]


def test_an_interrupted_run_leaves_nothing(bench, artifact):
    phone = bench()

    def interrupt(stage, _detail):
        if stage == "measure":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        execute(phone, artifact, progress=interrupt)
    assert phone.files() == []
    assert any(line.startswith("am force-stop") for line in phone.lines)


def test_a_trace_comes_back_where_the_app_records_one(bench, artifact):
    app = StandInApp()
    app.trace = b"ED00" * 100
    phone = bench(app)
    result = execute(phone, artifact)
    assert result.trace is None and "trace" in result.no_trace_reason  # it came back, and is none that can be read
    assert phone.files() == [model_file(artifact)]


def test_a_device_that_goes_away_is_named(bench, artifact):
    phone = bench(StandInApp(fault="leave"))
    with pytest.raises(DeviceError, match="the device went away while edgex tried to run the app") as caught:
        execute(phone, artifact)
    assert caught.value.exit_code == 8


def test_a_device_that_goes_away_during_the_transfer_is_named(bench, artifact):
    app = StandInApp()
    app.leaves_during_push = True
    phone = bench(app)
    with pytest.raises(DeviceError, match="the device went away while edgex tried to send the model"):
        execute(phone, artifact)


def test_no_room_is_said_before_anything_is_sent(bench, artifact):
    phone = bench(free_kib=20_000)
    with pytest.raises(DeviceError, match="no room left for the model: 0 MB, free are 20 MB"):
        execute(phone, artifact)
    assert phone.pushed_bytes == 0 and phone.files() == []


def test_no_room_in_the_middle_leaves_nothing(bench, artifact):
    phone = bench()
    phone.full = True
    with pytest.raises(DeviceError, match="the device has no room left: could not send the model"):
        execute(phone, artifact)
    assert phone.files() == []


@pytest.mark.parametrize(
    ("properties", "sentence"),
    [
        ({"ro.product.cpu.abilist": "armeabi-v7a"}, "its ABI is wrong: it has armeabi-v7a"),
        ({"ro.build.version.sdk": "23"}, "it runs Android API 23"),
    ],
)
def test_devices_that_cannot_run_it_are_refused(bench, artifact, properties, sentence):
    phone = bench(properties=properties)
    with pytest.raises(DeviceError) as caught:
        execute(phone, artifact)
    assert sentence in caught.value.why and caught.value.exit_code == 8
    assert any(sentence in problem for device in Adb().list() for problem in device.problems)
    assert phone.app.tasks == []


@pytest.mark.parametrize(
    ("info", "sentence"),
    [
        ({"executorch": "1.4.1"}, "the app has ExecuTorch 1.4.1, the model was exported with 1.5.1"),
        ({"engine": "onnxruntime"}, "the app on the device runs its model on onnxruntime"),
        ({"protocol": 2}, "the app on the device speaks protocol 2"),
        ({"backends": ["Other"]}, "the app's ExecuTorch lacks the backend XnnpackBackend"),
    ],
)
def test_apps_that_do_not_fit_are_refused(bench, artifact, info, sentence):
    phone = bench(StandInApp(**info))
    with pytest.raises(DeviceError, match=sentence) as caught:
        execute(phone, artifact)
    assert caught.value.exit_code == 8
    assert phone.pushed_bytes == 0 and phone.files() == []


def test_artifacts_that_no_phone_runs_are_refused(bench, tmp_path):
    phone = bench()
    for number, (change, sentence) in enumerate(
        [
            ({"plugins": ["onednn"]}, "it needs onednn"),
            ({"engine": "onnxruntime"}, "it needs onnxruntime"),
            ({"dtype": "int16"}, "input 'x' is int16"),
        ]
    ):
        with pytest.raises(DeviceError, match=sentence):
            execute(phone, make_artifact(tmp_path / str(number), **change))
    assert phone.lines == []


def test_numbers_out_of_bounds_are_the_users(bench, artifact):
    phone = bench()
    request = RunRequest((({"x": np.ones((2, 3), np.float32)},),), threads=65)
    with pytest.raises(UsageError, match="--threads 65"):
        execute(phone, artifact, request)
    with pytest.raises(UsageError, match="--runs 100001"):
        execute(phone, artifact, replace(request, threads=None, runs=100_001))


@pytest.mark.slow
@pytest.mark.timeout(3600)  # it hashes 200 MB several times, which an overloaded machine makes many minutes of
def test_a_model_of_200_mb_is_sent_once(bench, tmp_path):
    artifact = make_artifact(tmp_path / "large", size=200_000_000)
    phone = bench()
    first = execute(phone, artifact)
    sent = phone.pushed_bytes
    second = execute(phone, artifact)
    assert sent > 200_000_000 and phone.pushed_bytes - sent < 2000
    assert (first.copied_bytes, second.copied_bytes, second.copy_seconds) == (200_000_000, 0, None)
    assert first.model_digest == second.model_digest == artifact.manifest.file(".pte").sha256
    print(f"sent in {first.copy_seconds:.1f} s")
