"""Profiles of a runner whose time the test decides."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from profile_support import X, shown, write_artifact

from edgex.errors import ArtifactError
from edgex.runtime.artifact.artifact import hash_file, open_artifact
from edgex.runtime.measure.profile import collect
from edgex.runtime.session.runner import LoadSeconds
from edgex.runtime.session.session import Session


@pytest.fixture(scope="module")
def artifact(tmp_path_factory) -> Path:
    return write_artifact(tmp_path_factory.mktemp("profile") / "double.onnx-cpu.edgex")


class SimulatedRunner:
    """Not an engine: turns the test's clock and notes what it was asked to do."""

    executed_on, threads, planned_arena_bytes = "simulated", 64, 4096
    load_seconds = LoadSeconds(0.0, 0.0)

    def __init__(self, seconds: float) -> None:
        self.now_ns, self.log, self._step_ns = 0, [], round(seconds * 1e9)

    def execute(self, inputs):
        self.now_ns += self._step_ns
        self.log.append(float(inputs[0][0, 3]))
        return (inputs[0] * 2,)

    def reset(self):
        self.now_ns += 1_000_000_000
        self.log.append("reset")

    def close(self):
        self.log.append("close")


@pytest.mark.usefixtures("without_fresh_process")
def test_simulated_state_runs_through_the_longest_proved_sequence_from_reset(tmp_path):
    path = write_artifact(tmp_path / "state.edgex", steps=3, stateful=True)
    runner = SimulatedRunner(0.1)
    session = Session(open_artifact(path), runner)
    report = collect.profile(session, warmup=3, runs=6, trace=False, clock=lambda: runner.now_ns)
    assert report.settings.steps == 3
    assert runner.log == ["reset", 1.0, 2.0, 3.0] * 3 + ["reset"]
    assert report.rounds == ((0.1, 0.1, 0.1), (0.1, 0.1, 0.1))  # a reset takes a second, and is not counted
    assert report.memory.peak_rss_bytes is None and report.memory.planned_arena_bytes == 4096


@pytest.mark.usefixtures("without_fresh_process")
def test_simulated_state_with_given_inputs_keeps_the_length_of_the_sequence(tmp_path):
    path = write_artifact(tmp_path / "state.edgex", steps=3, stateful=True)
    runner = SimulatedRunner(0.1)
    collect.profile(
        Session(open_artifact(path), runner), [X], warmup=1, runs=3, trace=False, clock=lambda: runner.now_ns
    )
    assert runner.log == ["reset", 1.0, "reset", 1.0, 1.0, 1.0, "reset"]


@pytest.mark.usefixtures("without_fresh_process")
def test_simulated_latency_settles_and_is_summarised(artifact):
    runner = SimulatedRunner(2e-3)
    told = []
    session = Session(open_artifact(artifact), runner)
    report = collect.profile(
        session, progress=lambda *line: told.append(line), trace=False, clock=lambda: runner.now_ns
    )
    assert report.settings.warmup_settled is True
    assert report.steady.n == 1500 and report.steady.median == report.steady.p99 == 2e-3
    assert report.steady.median_ci95 == (2e-3, 2e-3)
    assert report.throughput == pytest.approx(500.0)
    assert [stage for stage, _ in told] == ["warm up", "measure"]
    assert "threads-over-cores" in {warning.code for warning in report.warnings}  # the runner claims 64 threads


@pytest.mark.usefixtures("without_fresh_process")
def test_simulated_quick_runs_share_samples_and_the_report_says_so(artifact):
    runner = SimulatedRunner(3e-6)
    session = Session(open_artifact(artifact), runner)
    report = collect.profile(session, runs=10, trace=False, clock=lambda: runner.now_ns)
    assert report.settings.calls_per_sample == 7
    assert report.steady.n == 10 and report.steady.median == 3e-6
    assert "10 samples of 7 runs each" in shown(report, 80)


@pytest.mark.usefixtures("without_fresh_process")
def test_an_artifact_without_example_inputs_needs_some(tmp_path):
    path = write_artifact(tmp_path / "bare.edgex")
    (path / "golden" / "index.json").write_text('{"format": "edgex.golden/1", "cases": []}')
    session = Session(open_artifact_loosely(path), SimulatedRunner(1e-3))
    with pytest.raises(ArtifactError, match="no example inputs"):
        collect.profile(session)


def open_artifact_loosely(path: Path):
    """The artifact with its file list brought up to date."""
    document = json.loads((path / "manifest.json").read_text())
    for entry in document["files"]:
        file = path / entry["path"]
        entry |= {"bytes": file.stat().st_size, "sha256": hash_file(file)}
    (path / "manifest.json").write_text(json.dumps(document))
    return open_artifact(path)
