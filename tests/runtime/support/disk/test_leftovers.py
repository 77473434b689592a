"""What killed processes left goes with the next; what a living process holds stays, whatever its number."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from edgex.runtime.support.disk import leftovers
from edgex.runtime.support.disk.scratch import scratch_folder
from edgex.runtime.support.publish import replacing, staged_folder

HOLD = """
import sys, time
from pathlib import Path
from edgex.runtime.support.disk.scratch import scratch_folder
from edgex.runtime.support.publish import replacing, staged_folder
path = Path(sys.argv[2])
makers = {"folder": staged_folder, "file": replacing, "scratch": lambda parent: scratch_folder("run", parent)}
with makers[sys.argv[1]](path) as temporary:
    (temporary / "half" if temporary.is_dir() else temporary).write_text("half")
    print("writing", flush=True)
    time.sleep(1000)
"""


@pytest.fixture
def hold():
    """Starts processes that hold something temporary; they are ended after the test."""
    started = []

    def start(kind, path):
        process = subprocess.Popen([sys.executable, "-c", HOLD, kind, str(path)], stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout.readline() == "writing\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def kill(process):
    process.send_signal(signal.SIGKILL)
    process.wait()


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(("kind", "maker"), [("folder", staged_folder), ("file", replacing)])
def test_the_next_one_that_writes_the_same_removes_what_a_killed_one_left(tmp_path, hold, kind, maker):
    path = tmp_path / "net.edgex"
    process = hold(kind, path)
    assert names(tmp_path) == [f".net.edgex.tmp-{process.pid}"]
    with maker(path) as temporary:
        assert f".net.edgex.tmp-{process.pid}" in names(tmp_path), "its process lives"
        temporary.write_text("") if kind == "file" else None
    kill(process)
    assert f".net.edgex.tmp-{process.pid}" in names(tmp_path)
    with maker(path) as temporary:
        assert names(tmp_path) == sorted({f".net.edgex.tmp-{os.getpid()}", *({"net.edgex"} if kind == "file" else ())})
        temporary.write_text("") if kind == "file" else None


def test_the_next_temporary_folder_removes_what_a_killed_one_left(tmp_path, hold):
    killed, living = hold("scratch", tmp_path), hold("scratch", tmp_path)
    kill(killed)
    with scratch_folder("trace", tmp_path) as own:
        left = names(tmp_path)
        assert own.name in left and len(left) == 2
        assert any(name.startswith("edgex-run-") and name.endswith(f".tmp-{living.pid}") for name in left)


def test_a_folder_that_is_held_stays_though_its_number_means_nobody_here(tmp_path):
    """So it looks from another container, in which processes have other numbers."""
    gone = _number_of_nobody()
    folder = tmp_path / f".net.edgex.tmp-{gone}"
    folder.mkdir()
    with leftovers.held(folder):
        leftovers.remove_abandoned(tmp_path, r"\.net\.edgex")
        assert folder.is_dir()
    leftovers.remove_abandoned(tmp_path, r"\.net\.edgex")
    assert not folder.exists()


def test_a_number_that_another_process_has_now_protects_nothing(tmp_path):
    folder = tmp_path / f".net.edgex.tmp-{os.getpid()}"
    folder.mkdir()
    leftovers.remove_abandoned(tmp_path, r"\.net\.edgex")
    assert folder.is_dir(), "this process may have made it"
    os.utime(folder, (1e9, 1e9))  # long before this process began
    with staged_folder(tmp_path / "net.edgex") as own:
        assert own == folder and names(own) == []


def test_without_locks_the_number_decides(tmp_path, monkeypatch):
    """A stand-in for a file system that has no locks."""

    def refuse(descriptor, operation):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(leftovers.fcntl, "flock", refuse)
    for number in (_number_of_nobody(), os.getpid()):
        (tmp_path / f".net.edgex.tmp-{number}").mkdir()
    leftovers.remove_abandoned(tmp_path, r"\.net\.edgex")
    assert names(tmp_path) == [f".net.edgex.tmp-{os.getpid()}"]


def test_what_is_not_edgexs_stays(tmp_path):
    gone = _number_of_nobody()
    others = [f".other.tmp-{gone}", f"net.edgex.tmp-{gone}", ".net.edgex.tmp-x", f".net.edgex.tmp-{gone}.txt"]
    for name in others:
        (tmp_path / name).mkdir()
    (tmp_path / f".net.edgex.tmp-{gone}").write_text("a file of somebody's")
    (tmp_path / "kept").mkdir()
    (tmp_path / f".a.edgex.tmp-{gone}").symlink_to(tmp_path / "kept")
    before = names(tmp_path)
    with staged_folder(tmp_path / "net.edgex", kin=".edgex"):
        pass
    assert names(tmp_path) == before


def test_an_export_removes_what_killed_exports_of_other_models_left(tmp_path):
    (tmp_path / f".other.onnx-cpu.edgex.tmp-{_number_of_nobody()}-trial").mkdir()
    with staged_folder(tmp_path / "net.edgex", kin=".edgex"):
        assert names(tmp_path) == [f".net.edgex.tmp-{os.getpid()}"]


def test_an_older_folder_that_was_put_aside_comes_back(tmp_path):
    """The process was killed between the two renamings that stand for a swap where the file system has none."""
    aside = tmp_path / f".net.edgex.tmp-{_number_of_nobody()}-old"
    aside.mkdir()
    (aside / "manifest.json").write_text("{}")
    with staged_folder(tmp_path / "net.edgex"):
        assert names(tmp_path / "net.edgex") == ["manifest.json"]
    assert names(tmp_path) == ["net.edgex"]


def _number_of_nobody():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert not Path(f"/proc/{process.pid}").exists()
    return process.pid
