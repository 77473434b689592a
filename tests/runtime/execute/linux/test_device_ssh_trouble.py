"""What goes wrong on a Linux machine over a real sshd: said in a sentence with exit code 8, and nothing is left there.

Programs of the far side are replaced where a machine of another kind, or one in trouble, is wanted.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from device_support import Sshd, needs_compiler, needs_sshd, running_sshd, wait_until

from edgex.errors import DeviceError, RunError
from edgex.runtime.artifact.artifact import Artifact, hash_file, open_artifact
from edgex.runtime.artifact.golden import read_example
from edgex.runtime.artifact.manifest import FileEntry
from edgex.runtime.execute.address import open_executor
from edgex.runtime.execute.request import RunResult
from edgex.runtime.execute.run import run_once
from edgex.runtime.execute.verification import verify
from edgex.runtime.measure.profile.collect import profile_on

pytestmark = [needs_sshd, needs_compiler]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with running_sshd(tmp_path_factory.mktemp("sshd")) as running:
        yield running


@pytest.fixture
def box(server: Sshd, monkeypatch):
    monkeypatch.setenv("EDGEX_SSH_OPTIONS", server.options)
    server.forget()
    yield server
    assert wait_until(lambda: not server.left_behind()), server.left_behind()
    server.forget()


@pytest.fixture
def artifact(exported) -> Artifact:
    return open_artifact(exported("counter", "xnnpack"))


def run(artifact: Artifact, progress=lambda stage, detail: None) -> RunResult:
    with open_executor("ssh:box") as device:
        return run_once(device, artifact, read_example(artifact), threads=1, progress=progress)[1]


@pytest.mark.parametrize(
    ("program", "script", "words"),
    [
        ("uname", 'test "$1" = -m && echo riscv64 || $SYSTEM $1', "there is no native runner for riscv64"),
        ("uname", 'test "$1" = -s && echo Darwin || $SYSTEM $1', "its system is Darwin, not Linux"),
        ("getconf", 'test "$1" = LONG_BIT && echo 32 || $SYSTEM $1', "32"),
        ("getconf", 'test "$1" = GNU_LIBC_VERSION && echo glibc 2.17 || $SYSTEM $1', "the device has glibc 2.17"),
        ("getconf", 'test "$1" = LONG_BIT && echo 64 || echo musl libc', "the device has musl"),
    ],
)
def test_machines_that_cannot_run_it(box: Sshd, artifact, program, script, words) -> None:
    box.replace(program, script)
    with pytest.raises(DeviceError) as caught:
        run(artifact)
    assert words in f"{caught.value.what} {caught.value.why}" and caught.value.exit_code == 8
    assert list((box.cache / "edgex" / "device").iterdir()) == [], "it was refused after something was sent"


def test_another_architecture_without_its_wheel(box: Sshd, artifact, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    box.replace("uname", 'test "$1" = -m && echo aarch64 || $SYSTEM $1')
    with pytest.raises(DeviceError, match="for aarch64, which are not here") as caught:
        run(artifact)
    assert caught.value.fix is not None and "--executorch-wheel" in caught.value.fix


@pytest.mark.parametrize(
    ("program", "script"),
    [
        ("tar", "head -c 9000 > model.pte; echo 'tar: x: Cannot write: No space left on device' >&2; exit 2"),
        # A login shell's own files may call it too.
        ("head", 'test "$1" = -c || exec $SYSTEM "$@"; echo "head: write error: No space left on device" >&2; exit 1'),
    ],
    ids=["sending", "inputs"],
)
def test_a_disk_that_fills_up(box: Sshd, artifact, program, script) -> None:
    box.replace(program, script)
    with pytest.raises(DeviceError, match="the device is out of space"):
        run(artifact)


def test_a_machine_without_a_program_that_it_must_have(box: Sshd, artifact) -> None:
    box.replace("sha256sum", "echo 'sh: sha256sum: not found' >&2; exit 127")
    with pytest.raises(DeviceError, match="arrived damaged") as caught:
        run(artifact)
    assert "not found" in str(caught.value.why)


START = """echo '{"event":"start","run_id":"%s","seconds":0.1}'; """


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        (START % "ffff" + """echo '{"event":"done","run_id":"ffff"}'; : > out.tensors""", "that of another run"),
        (START % "$4" + "kill -9 $$", "killed by SIGKILL"),
        ("echo 'edgex-runner: /lib/libc.so.6: version `GLIBC_2.99 not found' >&2; exit 1", "did not start"),
        ('echo \'{"event":"error","kind":"input","what":"its SHA-256 is 00","code":0}\'; exit 2', "SHA-256"),
    ],
    ids=["another run", "killed", "old library", "another model"],
)
def test_a_runner_in_trouble(box: Sshd, artifact, answers, words) -> None:
    run(artifact)
    (runner,) = (box.cache / "edgex" / "device").glob("runner-*/edgex-runner")
    runner.write_text(f"#!/bin/sh\n{answers}\n")
    with pytest.raises(DeviceError) as caught:
        run(artifact)
    assert words in caught.value.what and caught.value.exit_code == 8


def test_the_engines_refusal_is_the_runs_error(box: Sshd, artifact) -> None:
    run(artifact)
    (runner,) = (box.cache / "edgex" / "device").glob("runner-*/edgex-runner")
    refusal = '{"event":"error","kind":"engine","what":"load the program","code":35}'
    runner.write_text(f"#!/bin/sh\necho '{refusal}'; exit 6\n")
    with pytest.raises(RunError, match="could not load the program"):
        run(artifact)


@pytest.mark.parametrize("when", ["send", "runner", "measure"])
def test_an_interrupt_leaves_nothing(box: Sshd, artifact, when) -> None:
    def interrupt(stage: str, _detail: str) -> None:
        if stage == when:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), open_executor("ssh:box") as device:
        folder = device._link._folder
        profile_on(device, artifact, runs=200_000, trace=False, fresh_processes=1, progress=interrupt)
    assert not folder.exists(), "the connection's folder is still here"
    if when != "measure":
        assert not list((box.cache / "edgex" / "device").glob("*"))


def test_ctrl_c_ends_what_runs_there(box: Sshd, artifact, tmp_path) -> None:
    """The whole command in a process of its own, as in a terminal."""
    command = [sys.executable, "-m", "edgex", "profile", str(artifact.path), "--device", "ssh:box", "--runs", "9000000"]
    environment = {name: value for name, value in os.environ.items() if name != "EDGEX_SUPERVISED"}
    environment["TMPDIR"] = str(tmp_path)
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert any("measure" in line for line in process.stderr), "it never measured"
    running = [int(path.read_text()) for path in box.cache.glob("edgex/device/run-*/pid")]
    process.send_signal(signal.SIGINT)
    with process.stderr:
        process.stderr.read()
    assert process.wait(300) == 130
    assert running and wait_until(lambda: not any(_is_running(pid) for pid in running))
    assert wait_until(lambda: not box.left_behind())
    assert not list(tmp_path.iterdir()), "the connection's folder is still here"


def _is_running(pid: int) -> bool:
    try:
        return b"edgex-runner" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


@pytest.mark.skipif(shutil.which("busybox") is None, reason="BusyBox is not here: apt-get install busybox-static")
def test_a_machine_whose_programs_are_those_of_busybox(box: Sshd, artifact) -> None:
    busybox = Path(str(shutil.which("busybox")))
    for name in subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split():
        (box.programs / name).symlink_to(busybox)
    assert run(artifact).copied_bytes > 0
    with open_executor("ssh:box") as device:
        verdict, answer = verify(device, artifact)
    assert verdict.passed and answer.copied_bytes == 0


@pytest.mark.slow
@pytest.mark.timeout(3600)  # it hashes 200 MB several times, which an overloaded machine makes many minutes of
def test_a_model_of_200_mb_is_sent_once(box: Sshd, own_copy) -> None:
    artifact = grow(own_copy("counter", "xnnpack"), 200_000_000)
    first, second = run(artifact), run(artifact)
    assert first.copied_bytes > 200_000_000 and first.model_digest == artifact.manifest.file(".pte").sha256
    assert (second.copied_bytes, second.copy_seconds) == (0, None)
    print(f"sent in {first.copy_seconds:.1f} s")


def grow(path: Path, size: int) -> Artifact:
    """The artifact with a model of that size: zeros after its end, which nothing reads but its digest."""
    artifact = open_artifact(path)
    model = artifact.file(".pte")
    os.truncate(model, size)
    old = artifact.manifest.file(".pte")
    files = [
        FileEntry(old.path, size, hash_file(model)) if entry == old else entry for entry in artifact.manifest.files
    ]
    manifest = dataclasses.replace(artifact.manifest, files=tuple(files))
    (path / "manifest.json").write_text(manifest.dumps(), encoding="utf-8")
    return open_artifact(path)
