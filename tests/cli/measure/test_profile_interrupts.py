"""A profile that is interrupted, or runs out of time, leaves what it measured."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

from edgex.runtime.measure.profile.report import ProfileReport

# A sample takes at least 20 µs: 12 s in all, less than half a second a round on a quiet machine.
_RUNS = "600000"


def start(artifact: Path, output: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "edgex", "profile", str(artifact), "-o", str(output), "--runs", _RUNS, *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_ctrl_c_saves_the_rounds_that_were_measured(exported, tmp_path):
    output = tmp_path / "report.json"
    child = start(exported("counter", "onnx-cpu"), output, "--warmup", "100")
    for line in child.stderr:
        if "measure" in line:
            break
    time.sleep(6)
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=60)
    assert child.returncode == 130, errors
    assert "written:" in errors and "interrupted" in errors
    report = ProfileReport.from_json(json.loads(output.read_text()))
    assert not report.complete and report.trace is None
    assert 0 < len(report.rounds) < report.settings.rounds
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]


def test_interrupted_before_anything_was_measured_nothing_is_written(exported, tmp_path):
    output = tmp_path / "report.json"
    child = start(exported("counter", "onnx-cpu"), output, "--timeout", "0.1")
    _, errors = child.communicate(timeout=60)
    assert child.returncode == 124, errors
    assert not output.exists()
