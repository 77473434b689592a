"""Processes that begin with everything imported are processes of their own, and stand where no test is about that."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from warm_processes import find_command, is_cold, start_python, start_server

from edgex.runtime.support.process.child import Child

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="they are forked from another process on Linux alone")


@pytest.fixture(autouse=True)
def warm(monkeypatch):
    """Whatever the run asks for."""
    monkeypatch.delenv("EDGEX_COLD", raising=False)


SCRIPT = """
import os, sys
print(os.getcwd(), os.environ["COLOUR"], sys.stdin.read(), sys.argv, "torch" in sys.modules)
print("to stderr", file=sys.stderr)
sys.exit(7)
"""


def start(script: str, folder: Path, **variables: str) -> subprocess.Popen[str]:
    (folder / "script.py").write_text(script)
    command = find_command("python", os.environ)
    assert command is not None
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(
        [*command, "script.py", "one"], cwd=folder, env={**os.environ, **variables}, text=True, **pipes
    )


def test_folder_variables_files_and_exit_code_are_the_clients(tmp_path):
    process = start(SCRIPT, tmp_path, COLOUR="blue")
    out, err = process.communicate("in")
    assert process.returncode == 7, err
    assert out == f"{tmp_path} blue in ['script.py', 'one'] True\n" and err == "to stderr\n"


def test_nothing_is_left_of_another(tmp_path):
    start("import edgex.errors\nedgex.errors.LEFT = 1", tmp_path).communicate()
    out, _ = start("import edgex.errors\nprint(hasattr(edgex.errors, 'LEFT'))", tmp_path).communicate()
    assert out == "False\n"


def test_it_ends_as_it_would_and_with_its_client(tmp_path):
    crashed = start("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", tmp_path)
    crashed.communicate()
    assert crashed.returncode == -signal.SIGSEGV
    raised = start("raise ValueError('no')", tmp_path)
    assert "ValueError: no" in raised.communicate()[1] and raised.returncode == 1
    waiting = start("import os, sys\nprint(os.getpid(), flush=True)\nsys.stdin.read()", tmp_path)
    number = int(waiting.stdout.readline())
    assert Path(f"/proc/{number}").exists()
    waiting.kill()
    waiting.communicate()
    end = time.monotonic() + 30
    while Path(f"/proc/{number}").exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert not Path(f"/proc/{number}").exists()


def test_a_client_that_says_nothing_keeps_nobody_busy():
    server = psutil.Process(int(start_server().rpartition("-")[2])).children()
    (server,) = [child for child in server if "warm_server.py" in " ".join(child.cmdline())]
    with socket.socket(socket.AF_UNIX) as silent:
        silent.connect("\0" + start_server())
    end = time.monotonic() + 30
    while server.children() and time.monotonic() < end:
        time.sleep(0.05)
    assert not server.children()


def test_children_are_started_so_unless_a_library_was_loaded_otherwise(monkeypatch):
    with Child("edgex.runtime.execute.here.worker:Worker", "the worker") as child:
        assert "warm_client.py" in " ".join(child._process.args)
    process = start_python("edgex.runtime.execute.here.worker:Worker", {"OMP_NUM_THREADS": "1"})
    assert "warm_client.py" not in " ".join(process.args)
    process.communicate()
    monkeypatch.setenv("KMP_INIT_AT_FORK", "FALSE")  # as scikit-learn does: no reason
    assert find_command("edgex", os.environ) is not None
    monkeypatch.setenv("EDGEX_COLD", "1")
    assert is_cold() and find_command("edgex", os.environ) is None


def test_tests_of_processes_have_real_ones(monkeypatch):
    for test, cold in (
        ("tests/runtime/execute/here/test_kept_process.py::test_it", True),
        ("tests/cli/test_interrupts.py::test_it", True),
        ("tests/cli/export/test_export_output.py::test_only_our_own_lines_reach_the_terminal", True),
        ("tests/cli/export/test_export_output.py::test_sizes_begin_with_the_model_and_inspect_agrees", False),
        ("tests/export/proof/test_proof.py::test_it", False),
    ):
        monkeypatch.setenv("PYTEST_CURRENT_TEST", f"{test} (call)")
        assert is_cold() == cold, test
