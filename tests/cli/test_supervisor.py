"""The supervisor: what it does with a body that returns, fails, hangs in native code, or crashes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

# A body that hangs in native code with the interpreter's lock held, as an engine does in a long kernel.
HANG = "import ctypes; print('hanging', file=sys.stderr, flush=True); ctypes.PyDLL(None).sleep(1000)"


def start(body: str, folder: Path, options: str = "", before: str = "") -> subprocess.Popen[str]:
    script = (
        "import os, signal, sys, time\n"
        "from edgex.cli.supervisor import supervise, leftovers_remover\n"
        "from edgex.errors import RunError\n"
        "from pathlib import Path\n"
        "def body():\n"
        + "".join(f"    {line}\n" for line in body.splitlines())
        + f"    return 0\n{before}\nsupervise(body{options})\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", script], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=30)
    return process.returncode, out, err


@pytest.mark.parametrize(("body", "code"), [("print('done')", 0), ("return 4", 4), ("sys.exit(5)", 5)])
def test_the_exit_code_is_the_bodys(tmp_path: Path, body: str, code: int) -> None:
    assert finish(start(body, tmp_path))[0] == code


def test_an_error_is_a_message_and_a_document(tmp_path: Path) -> None:
    code, out, err = finish(
        start("raise RunError('no', 'x.py:3', 'do this', why='because')", tmp_path, ", as_json=True")
    )
    assert code == 6
    assert json.loads(out) == {
        "schema": "edgex.error/1", "what": "no", "where": "x.py:3", "why": "because", "fix": "do this", "exit_code": 6,
        "blockers": None,
    }  # fmt: skip
    assert "error: no" in err and "Traceback" not in err


def test_a_defect_keeps_its_traceback(tmp_path: Path) -> None:
    code, _, err = finish(start("raise ZeroDivisionError('ours')", tmp_path))
    assert code == 1 and "Traceback" in err and "ZeroDivisionError: ours" in err


def test_ctrl_c_ends_native_code_that_holds_the_lock(tmp_path: Path) -> None:
    process = start(HANG, tmp_path)
    assert process.stderr is not None
    assert "hanging" in process.stderr.readline()
    started = time.monotonic()
    process.send_signal(signal.SIGINT)
    code, _, err = finish(process)
    assert code == 130 and "interrupted" in err
    assert time.monotonic() - started < 15  # the grace period is 3 s; far from the 1000 s of the sleep


@pytest.mark.parametrize(
    ("name", "code", "what"), [("SIGINT", 130, "interrupted"), ("SIGTERM", 143, "ended by SIGTERM")]
)
def test_a_signal_is_a_message_and_a_document(tmp_path: Path, name: str, code: int, what: str) -> None:
    process = start("print('working', file=sys.stderr, flush=True)\ntime.sleep(1000)", tmp_path, ", as_json=True")
    assert process.stderr is not None
    assert "working" in process.stderr.readline()
    process.send_signal(getattr(signal, name))
    ended, out, err = finish(process)
    assert (ended, err) == (code, f"{what}\n")
    assert json.loads(out) == {
        "schema": "edgex.error/1", "what": what, "where": None, "why": None, "fix": None, "exit_code": code,
        "blockers": None,
    }  # fmt: skip


@pytest.mark.parametrize("options", [", as_json=True", ", as_json=True, timeout_seconds=1.0"])
def test_a_body_that_tells_what_it_knows_when_it_is_ended_is_the_only_one(tmp_path: Path, options: str) -> None:
    body = (
        "from edgex.cli.failure import print_json\n"
        "try:\n    print('working', file=sys.stderr, flush=True)\n    time.sleep(1000)\n"
        "except KeyboardInterrupt:\n    print_json({'interrupted': True})\n    return 130"
    )
    process = start(body, tmp_path, options)
    assert process.stderr is not None
    assert "working" in process.stderr.readline()
    if "timeout" not in options:
        process.send_signal(signal.SIGINT)
    code, out, _ = finish(process)
    assert code == (124 if "timeout" in options else 130)
    assert json.loads(out) == {"interrupted": True}


def test_an_interrupt_of_the_child_alone_is_told(tmp_path: Path) -> None:
    code, out, err = finish(start("os.kill(os.getpid(), signal.SIGINT)\ntime.sleep(9)", tmp_path, ", as_json=True"))
    assert (code, err) == (130, "interrupted\n") and json.loads(out)["exit_code"] == 130


def test_timeout_ends_native_code_that_holds_the_lock(tmp_path: Path) -> None:
    code, out, err = finish(start(HANG, tmp_path, ", timeout_seconds=1.0, as_json=True"))
    assert code == 124 and "stopped after 1 s" in err
    assert json.loads(out)["exit_code"] == 124


def test_a_child_that_starts_late_does_nothing(tmp_path: Path) -> None:
    """Time is up before it could listen to signals, as on a busy machine."""
    late = "os.setpgid = lambda process, group: time.sleep(0.5)"
    code, _, err = finish(start("open('made', 'w').close()", tmp_path, ", timeout_seconds=0.01", late))
    assert code == 124, err
    assert list(tmp_path.iterdir()) == []


def test_python_code_may_clean_up_before_it_ends(tmp_path: Path) -> None:
    body = (
        "open('half', 'w').close()\n"
        "try:\n    print('working', file=sys.stderr, flush=True)\n    time.sleep(1000)\nfinally:\n    os.remove('half')"
    )
    process = start(body, tmp_path)
    assert process.stderr is not None
    assert "working" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    assert finish(process)[0] == 130
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_that_a_destructor_ignored_comes_again(tmp_path: Path) -> None:
    body = (
        "class Slow:\n    def __del__(self):\n"
        "        print('working', file=sys.stderr, flush=True)\n        time.sleep(1000)\n"
        "Slow()\ntime.sleep(1)\nopen('made', 'w').close()"
    )
    process = start(body, tmp_path)
    assert process.stderr is not None
    assert "working" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    code, _, err = finish(process)
    assert (code, err) == (130, "interrupted\n")
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_child_left_is_removed(tmp_path: Path) -> None:
    body = "os.makedirs(f'out/deep/.net.reference.edgex.tmp-{os.getpid()}/half')\n" + HANG
    options = ", timeout_seconds=1.0, clean_up=leftovers_remover(Path('out/deep'))"
    code, _, err = finish(start(body, tmp_path, options))
    assert code == 124, err
    assert list(tmp_path.iterdir()) == []


def test_children_of_the_body_end_with_it(tmp_path: Path) -> None:
    body = "import subprocess\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)'])\n" + HANG
    assert finish(start(body, tmp_path, ", timeout_seconds=2.0"))[0] == 124
    assert running(tmp_path) == []


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGKILL"])
def test_a_crash_names_its_signal(tmp_path: Path, name: str) -> None:
    code, _, err = finish(start(f"os.kill(os.getpid(), signal.{name})", tmp_path))
    assert code == 6 and name in err


@pytest.mark.parametrize(
    ("stage", "model", "blamed"),
    [
        ("find", "net.py", True),
        ("capture", "package.net:Net", True),
        ("reference", "net.py:model", True),
        ("find", "net.pt2", False),
        ("lower", "net.py", False),
        ("load", None, False),
    ],
)
def test_a_crash_names_its_stage_and_whose_code_runs_in_it(
    tmp_path: Path, stage: str, model: str | None, blamed: bool
) -> None:
    body = (
        "from edgex.cli.progress import StageProgress\n"
        f"with StageProgress(quiet=True) as progress:\n    progress({stage!r}, 'x')\n"
        "    os.kill(os.getpid(), signal.SIGSEGV)"
    )
    code, out, _ = finish(start(body, tmp_path, f", as_json=True, model={model!r}"))
    document = json.loads(out)
    assert code == 6 and document["what"] == f"the process was killed by SIGSEGV in the stage {stage}"
    assert document["where"] == (model if blamed else None)
    assert ("which may be the cause" in (document["why"] or "")) == blamed
    assert ("PYTHONFAULTHANDLER=1" in document["fix"]) == blamed == ("report" not in document["fix"])


WORK = """
import subprocess
os.makedirs(f'out/.net.reference.edgex.tmp-{os.getpid()}/half')
subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)'])
subprocess.Popen(['sleep', '1000'])
"""


def test_kill_9_ends_the_child_with_all_that_it_started_and_removes_what_that_left(tmp_path: Path) -> None:
    process = start(WORK + HANG, tmp_path, ", clean_up=leftovers_remover(Path('out'))")
    assert process.stderr is not None and process.stdout is not None
    assert "hanging" in process.stderr.readline()
    assert len(running(tmp_path)) == 5  # the command, its guardian, the child and the two that it started
    process.kill()
    wait_until_none(tmp_path)
    assert list(tmp_path.iterdir()) == []
    for stream in (process.stdout, process.stderr):
        stream.close()
    process.wait()


def test_kill_9_of_the_guardian_too_ends_the_child(tmp_path: Path) -> None:
    process = start(HANG, tmp_path)
    assert process.stderr is not None and process.stdout is not None
    assert "hanging" in process.stderr.readline()
    guardian = guardian_of(process)
    direct = psutil.Process(process.pid).children()
    os.kill(guardian, signal.SIGKILL)
    process.kill()
    _, alive = psutil.wait_procs(direct, 10)
    assert not alive
    for stream in (process.stdout, process.stderr):
        stream.close()
    process.wait()


def test_a_guardian_that_was_killed_harms_nobody(tmp_path: Path) -> None:
    process = start("time.sleep(0.5)\nprint('done')", tmp_path)
    os.kill(guardian_of(process), signal.SIGKILL)
    assert finish(process)[:2] == (0, "done\n")


def guardian_of(process: subprocess.Popen[str]) -> int:
    """The child that leads a session of its own, once it does: it may be younger than its sibling's first words."""
    deadline = time.monotonic() + 10
    found: list[int] = []
    while not found and time.monotonic() < deadline:
        found = [one.pid for one in psutil.Process(process.pid).children() if os.getsid(one.pid) == one.pid]
    return found[0]


def running(folder: Path) -> list[int]:
    return [found.pid for found in psutil.process_iter(["cwd"]) if found.info["cwd"] == str(folder)]


def wait_until_none(folder: Path) -> None:
    deadline = time.monotonic() + 10
    while running(folder) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert running(folder) == []
