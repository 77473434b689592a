"""`edgex profile` as a user calls it: on every target, with inputs, into files, and refused."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from edgex.runtime.execute.request import FreshRun
from edgex.runtime.measure.profile.report import ProfileReport

TARGETS = ("reference", "xnnpack", "onnx-cpu")
FEW = ("--warmup", "3", "--runs", "12", "-q")


# The interpreter of `reference` takes longer than both engines.
@pytest.mark.parametrize("target", [pytest.param("reference", marks=pytest.mark.slow), *TARGETS[1:]])
def test_every_target_gives_a_whole_report(target, exported, edgex):
    artifact = exported("photonet", target)
    done = edgex("profile", str(artifact), "--threads", "1", "--json", *FEW)
    assert done.returncode == 0, done.stderr
    report = ProfileReport.from_json(json.loads(done.stdout))
    assert report.artifact.target == target
    assert report.threads == report.settings.threads_requested == 1
    assert report.steady.n == 12 and len(report.rounds) == 12
    assert report.steady.min <= report.steady.median <= report.steady.p90
    assert report.memory.peak_rss_bytes > report.memory.weights_bytes > 0
    assert (report.memory.planned_arena_bytes is not None) == (target == "xnnpack")
    assert report.load_seconds.first > 0 and len(report.fresh) == 3
    assert str(artifact.parent) not in done.stdout
    assert report.complete and report.trace.runs >= 5
    assert report.trace.module_share >= 0.95 and report.trace.source_share >= 0.9
    assert {"conv", "head"} <= {row.module_path for row in report.ops}
    assert [text.file for text in report.sources] == ["photonet.py"]
    assert "self.head(x.mean((2, 3)))" in "".join(report.sources[0].lines)
    assert {row.module_path for row in report.memory.weights} == {"conv", "head"}
    assert bool(report.memory.arena) == (target == "xnnpack")


@pytest.mark.parametrize("target", TARGETS)
def test_a_model_with_state_is_measured_in_sequences(target, exported, edgex, monkeypatch):
    fresh = FreshRun(check=1e-3, engine_import=0.5, program=2e-3, method=3e-3, first=0.01, peak_rss_bytes=1 << 20)
    # The processes are tested above.
    monkeypatch.setattr("edgex.runtime.execute.here.kept_process.start_cold", lambda *_: (fresh,))
    done = edgex("profile", str(exported("counter", target)), "--json", *FEW)
    assert done.returncode == 0, done.stderr
    settings = json.loads(done.stdout)["settings"]
    assert settings["steps"] >= 4


def test_the_terminal_report_goes_to_stdout_and_progress_to_stderr(exported, edgex):
    done = edgex("profile", str(exported("convnet", "onnx-cpu")), "--warmup", "3", "--runs", "60")
    assert done.returncode == 0, done.stderr
    assert "median" in done.stdout and "95 % interval" in done.stdout and "peak" in done.stdout
    assert "\x1b" not in done.stdout
    assert "median" not in done.stderr
    assert [line.split("] ")[1].split(":")[0] for line in done.stderr.splitlines()] == [
        "load", "fresh", "warm up", "measure", "trace", "ceilings"
    ]  # fmt: skip


def test_reports_are_written_and_not_overwritten(exported, edgex, tmp_path):
    artifact = str(exported("convnet", "onnx-cpu"))
    done = edgex("profile", artifact, "-o", "report.json", *FEW)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "report.json").read_text()
    assert ProfileReport.from_json(json.loads(text)).dumps() == text

    refused = edgex("profile", artifact, "-o", "report.json", *FEW)
    assert refused.returncode == 2
    assert "report.json exists" in refused.stderr
    assert (tmp_path / "report.json").read_text() == text

    assert edgex("profile", artifact, "-o", "report.json", "--force", *FEW).returncode == 0
    assert (tmp_path / "report.json").read_text() != text
    assert edgex("profile", artifact, "-o", "report.md", *FEW).returncode == 0
    assert (tmp_path / "report.md").read_text().startswith("# convnet on onnx-cpu\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.json", "report.md"]


def test_inputs_come_from_files(exported, edgex, tmp_path):
    np.save(tmp_path / "x.npy", np.ones((5, 6), np.float32))
    np.save(tmp_path / "scale.npy", np.ones((5, 1), np.float32))
    given = ("-i", "x=x.npy", "-i", "scale=scale.npy")
    done = edgex("profile", str(exported("dynamic", "onnx-cpu")), *given, "--json", *FEW)
    assert done.returncode == 0, done.stderr
    settings = json.loads(done.stdout)["settings"]
    assert settings["inputs"] == "given"
    assert settings["shapes"] == {"x": [5, 6], "scale": [5, 1]}


@pytest.mark.parametrize(
    ("flags", "code", "words"),
    [
        (("-o", "report.pdf"), 2, "reports are written as .html, .json, .md or .trace.json"),
        (("-o", "nowhere/report.json"), 2, "no such folder: nowhere"),
        (("--runs", "0"), 2, "--runs"),
        (("--check", "none"), 2, "--check"),
        (("-i", "missing.npz"), 2, "no such file: missing.npz"),
    ],
)
def test_wrong_flags_are_refused_and_nothing_is_written(flags, code, words, exported, edgex, tmp_path):
    done = edgex("profile", str(exported("convnet", "onnx-cpu")), *flags, *(() if "--runs" in flags else FEW))
    assert done.returncode == code
    assert words in done.stderr
    assert "fresh" not in done.stderr  # refused before any process was started
    assert not list(tmp_path.iterdir())


def test_no_artifact_and_a_damaged_one_are_refused(edgex, own_copy):
    missing = edgex("profile", "nothing.edgex", "-q")
    assert missing.returncode == 6 and "no artifact at nothing.edgex" in missing.stderr
    path = own_copy("convnet", "onnx-cpu")
    model = path / "model.onnx"
    model.write_bytes(model.read_bytes()[:-1] + b"\0")
    damaged = edgex("profile", str(path), "--json", "-q")
    assert damaged.returncode == 6
    document = json.loads(damaged.stdout)
    assert document["schema"] == "edgex.error/1" and "model.onnx" in document["what"]


def test_too_short_a_timeout_ends_it(exported, tmp_path):
    flags = ("-o", "report.json", "--timeout", "0.01", "-q")
    command = [sys.executable, "-m", "edgex", "profile", str(exported("convnet", "onnx-cpu")), *flags]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 124
    assert not list(tmp_path.iterdir())
