"""A real sshd on loopback: the same answers as here, nothing sent twice, nothing left behind, clear words."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from decoder_support import eager_greedy
from device_support import Sshd, needs_compiler, needs_sshd, running_sshd, wait_until, write_known_host

import edgex as edgex_package
from edgex.errors import DeviceError
from edgex.runtime.artifact.artifact import open_artifact
from edgex.runtime.artifact.golden import read_example
from edgex.runtime.execute.address import open_executor
from edgex.runtime.execute.linux import ssh_link
from edgex.runtime.execute.request import DeviceOptions, TextRequest
from edgex.runtime.execute.run import run_once
from edgex.runtime.execute.verification import verify
from edgex.runtime.measure.profile.collect import profile_on

pytestmark = [needs_sshd, needs_compiler]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with running_sshd(tmp_path_factory.mktemp("sshd")) as running:
        yield running


@pytest.fixture
def box(server: Sshd, monkeypatch) -> Sshd:
    monkeypatch.setenv("EDGEX_SSH_OPTIONS", server.options)
    return server


def open_box():
    return open_executor("ssh:box", DeviceOptions(python=sys.executable))


@pytest.mark.parametrize(("target", "shells"), [("xnnpack", 2), ("onnx-cpu", 3)])
def test_the_same_answers_and_nothing_twice(exported, box: Sshd, monkeypatch, target, shells) -> None:
    started = []
    for name in ("run_process", "stream_process"):
        original = getattr(ssh_link, name)
        monkeypatch.setattr(ssh_link, name, lambda *given, call=original: started.append(given) or call(*given))
    artifact = open_artifact(exported("convnet", target))
    example = read_example(artifact)
    with open_box() as device:
        outputs, first = run_once(device, artifact, example, threads=1)
    started.clear()
    with open_box() as device:
        _, second = run_once(device, artifact, example, threads=1)
        assert len(started) == shells, "each shell there costs a login"
        verdict, _ = verify(device, artifact)
    assert first.copied_bytes > 0 and second.copied_bytes == 0 and second.copy_seconds is None
    model = artifact.manifest.file(".pte" if target == "xnnpack" else ".onnx")
    assert first.run_id != second.run_id and first.model_digest == model.sha256
    with edgex_package.load(artifact.path, threads=1) as session:
        for ours, theirs in zip(outputs, session.run(**example), strict=True):
            np.testing.assert_array_equal(ours, theirs)
    assert verdict.passed and box.left_behind() == []


def test_a_text_comes_token_by_token(exported, box: Sshd) -> None:
    artifact = open_artifact(exported("decoder", "xnnpack"))
    prompt = (7, 3, 58, 11)
    with open_box() as device:
        run = device.generate(artifact, TextRequest(prompt, 6))
        assert list(run) == eager_greedy(prompt, 6) and run.finish == "length"
        tokens = iter(device.generate(artifact, TextRequest(prompt, 40)))
        assert next(tokens) == eager_greedy(prompt, 1)[0]
        tokens.close()
    assert run.result.device.kind == "ssh"
    assert wait_until(lambda: not box.left_behind()), "the folder of a text that is left early stays"


def test_a_profile(exported, box: Sshd) -> None:
    artifact = open_artifact(exported("convnet", "xnnpack"))
    with open_box() as device:
        report = profile_on(device, artifact, warmup=2, runs=10, threads=1, fresh_processes=1)
    assert report.source == "device" and report.device["address"] == "ssh:box" and report.steady.n == 10 and report.ops


def test_commands(exported, box: Sshd, edgex) -> None:
    artifact = str(exported("convnet", "xnnpack"))
    assert edgex("run", artifact, "--device", "ssh:box").returncode == 0
    listed = edgex("devices", "--device", "ssh:box", "--device", f"ssh:127.0.0.1:{box.port}")
    # The second is reached without the configuration's key: it is listed with its problem.
    assert listed.returncode == 8 and "ssh:box" in listed.stdout and "problem" in listed.stdout


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("other key", "it refused the login"),
        ("other host key", "host key is not the one that is known"),
        ("unknown host", "its host key is not known yet"),
        ("nothing there", "nothing listens on its ssh port"),
        ("no such name", "there is no host of this name"),
    ],
)
def test_no_connection(box: Sshd, monkeypatch, tmp_path, change, words) -> None:
    for name in ("config", "known", "user_key"):
        (tmp_path / name).write_text((box.folder / name).read_text().replace(str(box.folder), str(tmp_path)))
    (tmp_path / "user_key").chmod(0o600)
    config = tmp_path / "config"
    if change in ("other key", "other host key"):
        key = tmp_path / "new"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
        if change == "other key":
            key.replace(tmp_path / "user_key")
        else:
            write_known_host(tmp_path, box.port, key.with_suffix(".pub").read_text())
    elif change == "unknown host":
        (tmp_path / "known").write_text("")
    elif change == "nothing there":
        config.write_text(config.read_text().replace(f"Port {box.port}", "Port 1"))
    else:
        config.write_text(config.read_text().replace("HostName 127.0.0.1", "HostName no-such-host.invalid"))
    monkeypatch.setenv("EDGEX_SSH_OPTIONS", f"-F {config}")
    with pytest.raises(DeviceError) as caught:
        open_box()
    assert words in caught.value.what and caught.value.why and caught.value.fix


def test_no_space(exported, box: Sshd, monkeypatch) -> None:
    monkeypatch.setattr(ssh_link, "_SPARE_BYTES", 1 << 60)
    artifact = open_artifact(exported("counter", "xnnpack"))
    with pytest.raises(DeviceError, match="out of space"), open_box() as device:
        run_once(device, artifact, read_example(artifact))
    assert box.left_behind() == []


def test_files_that_arrive_damaged(exported, box: Sshd, monkeypatch) -> None:
    monkeypatch.setattr(ssh_link, "hash_file", lambda path: "0" * 64)
    artifact = open_artifact(exported("counter", "xnnpack"))
    with pytest.raises(DeviceError, match="arrived damaged"), open_box() as device:
        run_once(device, artifact, read_example(artifact))
    assert box.left_behind() == []


def test_a_connection_that_breaks_in_the_middle(exported, box: Sshd) -> None:
    artifact = open_artifact(exported("convnet", "xnnpack"))
    with open_box() as device:
        link = device._link
        seen = threading.Event()

        def break_it() -> None:
            seen.wait(60)
            os.kill(link._master.pid, signal.SIGKILL)

        def note(stage: str, detail: str) -> None:
            if stage == "measure":
                seen.set()

        breaker = threading.Thread(target=break_it)
        breaker.start()
        with pytest.raises(DeviceError) as caught:
            profile_on(
                device, artifact, runs=200_000, trace=False, progress=lambda stage, _: stage == "measure" and seen.set()
            )
        breaker.join()
    assert caught.value.exit_code == 8 and "connection" in caught.value.what
    deadline = time.monotonic() + 20
    while box.left_behind() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert box.left_behind() == []
