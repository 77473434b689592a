"""The process around a command: standard streams that are closed, signals before anything has begun."""

from __future__ import annotations

import json
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
