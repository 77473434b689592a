"""The process around a command: standard streams that are closed, signals before anything has begun."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys

import pytest


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_one_that_leads_nowhere(closed, own_copy):
    artifact = own_copy("convnet", "reference")
    command = f"exec {sys.executable} -m edgex run {artifact} -o out.npz --json {closed}"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, cwd=artifact.parent)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr and (artifact.parent / "out.npz").is_file()
    if closed in ("<&-", "2>&-"):
        assert json.loads(done.stdout)["schema"] == "edgex.run/1"


def test_an_error_has_its_code_where_stdout_is_closed():
    command = f"exec {sys.executable} -m edgex run nothing.edgex --json >&-"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert done.returncode == 6 and "no artifact at nothing.edgex" in done.stderr


def shown_in_a_terminal(*arguments, no_color):
    terminal, end = pty.openpty()
    environment = {**os.environ, "NO_COLOR": no_color, "TERM": "xterm"}
    command = [sys.executable, "-m", "edgex", *arguments]
    subprocess.run(command, stdin=end, stdout=end, stderr=end, env=environment, timeout=120)
    os.close(end)
    shown = b""
    try:
        while part := os.read(terminal, 65536):
            shown += part
    except OSError:  # Linux says so of a terminal that all have left
        pass
    os.close(terminal)
    return shown.decode()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", "nothing.edgex"), "no artifact at nothing.edgex"),  # an error of a child
        (("run", "nothing.edgex", "--threads", "two"), "is not a valid integer"),
        (("explain", "0x12"), "cause"),
    ],
)
def test_no_color_is_heeded_in_a_terminal(arguments, words):
    assert "\x1b[" in shown_in_a_terminal(*arguments, no_color="")
    plain = shown_in_a_terminal(*arguments, no_color="1")
    assert "\x1b[" not in plain and words in plain


EARLY = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "edgex.cli.layout":
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever started the tests may ignore it
sys.meta_path.insert(0, Interrupting())
sys.argv[1:] = ["doctor", "--json"]
from runpy import run_module
run_module("edgex", run_name="__main__")
"""


def test_ctrl_c_while_the_command_is_imported_is_no_traceback():
    done = subprocess.run([sys.executable, "-c", EARLY], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")
    assert json.loads(done.stdout)["what"] == "interrupted"
