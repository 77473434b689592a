"""Real artifacts in real engines, each in a process of its own."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest
import torch

import edgex
from edgex.errors import ArtifactError, RunError, UsageError
from edgex.runtime.artifact.artifact import open_artifact
from edgex.runtime.measure.steps import choose_steps
from edgex.runtime.measure.turns.artifacts import ArtifactContestant
from edgex.runtime.session.runner import EngineSettings

# Real times are never asserted: one process, and the smallest schedule.
QUICK = {"processes": 1, "max_seconds": 0.1, "threads": 1}


@pytest.fixture
def contestant(exported):
    """Start a process for an exported artifact; ended after the test."""
    made = []

    def make(model: str, target: str, **options) -> ArtifactContestant:
        artifact = open_artifact(exported(model, target))
        steps = choose_steps(artifact, options.pop("inputs", None))
        settings = EngineSettings(options.pop("threads", 1), options)
        made.append(ArtifactContestant(artifact, artifact.path.name, steps, settings))
        return made[-1]

    yield make
    for one in made:
        one.stop()


def test_two_targets_of_one_model(exported):
    baseline, candidate = exported("convnet", "onnx-cpu"), exported("convnet", "reference")
    comparison = edgex.compare(baseline, candidate, **QUICK)
    assert (comparison.kind, comparison.method.interleaved, comparison.method.processes) == ("artifacts", True, 1)
    assert comparison.method.sessions >= 12
    (contrast,) = comparison.contrasts
    assert (contrast.baseline, contrast.candidate) == ("convnet.onnx-cpu.edgex", "convnet.reference.edgex")
    assert contrast.judgement.estimate.ci95 is not None and contrast.judgement.floor > 0
    assert contrast.numerics.cases >= 3 and not contrast.numerics.refused
    assert 80 < contrast.numerics.min_sqnr_db <= 300
    assert contrast.numerics.outputs[0].name == "output_0" and contrast.numerics.outputs[0].problem is None
    for subject, target in zip(comparison.subjects, ("onnx-cpu", "reference"), strict=True):
        report = subject.report
        assert (report.artifact.target, report.threads, report.settings.threads_source) == (target, 1, "given")
        assert report.load_seconds.first > 0 and report.load_seconds.method > 0
        assert report.memory.peak_rss_bytes > 10_000_000
        assert report.steady.n == sum(map(len, report.rounds)) and len(report.rounds) == comparison.method.sessions
        assert subject.delegation["total_ops"] > 0 and subject.eager["min_sqnr_db"] >= 80
        assert type(report).from_json(report.to_json()) == report
        assert {"engine", "load", "first"} <= set(report.fresh[0].stages)
        assert report.trace.runs >= 5 and report.ops
    matched = [delta for delta in contrast.operators if delta.match in ("operators", "module")]
    assert any("conv" in " ".join(delta.operators) for delta in matched), contrast.operators
    assert all(delta.baseline_seconds and delta.candidate_seconds for delta in matched)


def test_sequences_with_state_are_timed_whole_and_their_outputs_are_equal(exported):
    path = exported("counter", "onnx-cpu")
    comparison = edgex.compare(path, path, **QUICK)
    assert comparison.subjects[0].report.settings.steps >= 4
    assert comparison.contrasts[0].numerics.min_sqnr_db == 300
    assert comparison.contrasts[0].numerics.max_abs_error == 0


def test_given_inputs_are_used_for_all(exported):
    path = exported("dynamic", "onnx-cpu")
    inputs = {"x": np.ones((5, 6), np.float32), "scale": np.ones((5, 1), np.float32)}
    comparison = edgex.compare(path, path, inputs=inputs, **QUICK)
    assert comparison.subjects[1].report.settings.shapes == {"x": (5, 6), "scale": (5, 1)}
    assert comparison.subjects[1].report.settings.inputs == "given"
    wrong = {"x": np.ones((5, 6), np.float64), "scale": np.ones((5, 1), np.float32)}
    with pytest.raises(RunError, match="float64"):
        edgex.compare(path, path, inputs=wrong, **QUICK)


def test_different_models_are_refused_or_run_on_their_own_inputs(exported):
    one, other = exported("convnet", "onnx-cpu"), exported("counter", "onnx-cpu")
    with pytest.raises(UsageError, match="different models") as caught:
        edgex.compare(one, other, **QUICK)
    assert "convnet" in caught.value.why and "float32[4]" in caught.value.why
    comparison = edgex.compare(one, other, allow_different=True, **QUICK)
    assert comparison.contrasts[0].numerics is None
    assert len(comparison.differences) == 3  # name, inputs, outputs
    assert [s.report.settings.shapes["x"] for s in comparison.subjects] == [(1, 3, 8, 8), (4,)]


def test_the_same_model_with_other_weights_is_said_to_give_other_outputs(tmp_path):
    made = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        net, made_of_it = torch.nn.Linear(16, 16).eval(), tmp_path / str(seed) / "net.onnx-cpu.edgex"
        made_of_it.parent.mkdir()
        edgex.export_model(net, (torch.linspace(-1, 1, 16)[None],), target="onnx-cpu", name="net", output=made_of_it)
        made.append(made_of_it)
    told = [warning for warning in edgex.compare(*made, **QUICK).warnings if warning.code == "other-outputs"]
    assert [warning.text.split(" gives ")[0] for warning in told] == ["1/net.onnx-cpu.edgex"]
    same = edgex.compare(made[0], made[0], **QUICK)
    assert not [warning for warning in same.warnings if warning.code == "other-outputs"]


def test_an_artifact_and_a_report_are_not_compared(exported, tmp_path):
    from compare_support import save_report

    with pytest.raises(UsageError, match="artifacts and saved reports"):
        edgex.compare(exported("convnet", "onnx-cpu"), save_report(tmp_path, "a.json"))


def test_a_damaged_artifact_is_refused(exported, own_copy):
    damaged = own_copy("convnet", "onnx-cpu")
    (damaged / "model.onnx").write_bytes(b"\0" * (damaged / "model.onnx").stat().st_size)
    with pytest.raises(ArtifactError, match=r"model\.onnx"):
        edgex.compare(exported("convnet", "onnx-cpu"), damaged, **QUICK)


# ---- the process of a contestant


def test_a_process_times_blocks_and_opens_its_session_again(contestant):
    one = contestant("convnet", "onnx-cpu")
    pace = one.start()
    assert pace.samples_per_pass == 1 and pace.sample_seconds > 0 and pace.open_seconds > 0
    assert len(one.time_block(5, lead_in=True)) == 5
    one.reopen()
    assert all(seconds > 0 for seconds in one.time_block(3, lead_in=False))
    one.stop()
    one.start()
    assert len(one.fresh) == 2


@pytest.mark.parametrize("target", ["onnx-cpu", "xnnpack"])
def test_engines_run_with_their_own_threads(target, contestant):
    one, two = contestant("convnet", target, threads=1), contestant("convnet", target, threads=2)
    one.start(), two.start()
    assert (one.threads, two.threads) == (1, 2)


def test_an_error_of_the_other_process_is_raised_here(contestant):
    one = contestant("convnet", "onnx-cpu", speed=11)
    with pytest.raises(RunError, match="no option 'speed'") as caught:
        one.start()
    assert caught.value.where == "convnet.onnx-cpu.edgex"


def test_a_process_that_dies_is_named(contestant):
    one = contestant("convnet", "onnx-cpu")
    one.start()
    os.kill(one._executor._worker._child._process.pid, signal.SIGKILL)
    with pytest.raises(RunError, match=r"convnet\.onnx-cpu\.edgex ended: killed by SIGKILL"):
        for _ in range(2):  # the first request may still find its pipe open
            one.time_block(1, lead_in=False)


def test_no_process_is_left(exported, monkeypatch):
    started = []
    popen = __import__("subprocess").Popen
    monkeypatch.setattr(
        "edgex.runtime.support.process.child.subprocess.Popen",
        lambda *args, **kwargs: started.append(popen(*args, **kwargs)) or started[-1],
    )
    path = exported("convnet", "onnx-cpu")
    edgex.compare(path, path, **QUICK)
    assert len(started) == 3 and all(process.returncode == 0 for process in started)


def test_example_inputs_are_needed(exported, own_copy):
    path = own_copy("convnet", "onnx-cpu")
    index = path / "golden" / "index.json"
    artifact = open_artifact(path)
    index.write_text('{"format": "edgex.golden/1", "cases": []}')
    with pytest.raises(ArtifactError, match="no example inputs"):
        choose_steps(artifact, None)
    (spec,) = artifact.manifest.method.inputs
    given = np.ones(spec.static_shape, spec.numpy_dtype)
    for form in ({spec.name: given}, [given]):
        assert list(choose_steps(artifact, form)[0]) == [spec.name]
    assert isinstance(path, Path)
