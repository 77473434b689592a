"""The target onnx-qnn in the simulator: proved in fp16 and int8, refused with the provider's reasons, never timed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from model_support import run_edgex
from qnn_support import needs_qnn
from torch import nn

import edgex
from edgex.delegates.onnxruntime.qnn.delegate import OnnxQnnOptions
from edgex.delegates.registry import get_delegate
from edgex.errors import LoweringError, RunError, TargetUnavailable
from edgex.export.capture.program import capture
from edgex.export.rewrites.precision import convert_precision
from edgex.runtime.artifact.artifact import open_artifact
from edgex.runtime.session.numerics import measure_sqnr_db

pytestmark = [needs_qnn, pytest.mark.long_file]

MODEL = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Linear(8, 4)

    def forward(self, x):
        return self.head(torch.relu(self.norm(self.conv(x))).mean((2, 3)))


def get_model():
    torch.manual_seed(0)
    return Net().eval()


def get_args():
    return (torch.randn(1, 3, 8, 8, generator=torch.Generator().manual_seed(0)),)


def calibration_data():
    generator = torch.Generator().manual_seed(1)
    return [(torch.randn(1, 3, 8, 8, generator=generator),) for _ in range(8)]
"""


class Untaken(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(torch.sinh(x))  # the line


class Averaging(nn.Module):
    """State written in place, and two scalars, which in 8 bits are one byte under two scales."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(16, 32), nn.Linear(32, 8)
        self.register_buffer("average", torch.zeros(1, 32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.average.mul_(0.75).add_(0.25 * torch.relu(self.inner(x)))
        return self.outer(self.average)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("qnn")
    (made / "net.py").write_text(MODEL)
    return made


@pytest.fixture(scope="module")
def half(folder: Path) -> Path:
    done = run_edgex("export", "net.py", "-t", "onnx-qnn", "--precision", "fp16", "--json", "-q", cwd=folder)
    assert done.returncode == 0, done.stderr
    # Nothing but the document on stdout: the simulator's banner is not ours.
    (artifact,) = json.loads(done.stdout)["artifacts"]
    assert artifact["status"] == "simulated" and artifact["verification"]["verified_on"] == "simulator"
    assert artifact["delegation"]["fraction"] == 1.0
    assert artifact["verification"]["min_sqnr_db"] >= 40
    return folder / "net.onnx-qnn.edgex"


def test_the_manifest_says_what_ran(half: Path) -> None:
    manifest = open_artifact(half).manifest
    assert manifest.status == "simulated"
    for text in (manifest.status_reason, manifest.verification["executed_on"], manifest.verification["simulator"]):
        assert "HTP simulator of onnxruntime-qnn" in text and "sm8650 (HTP v75)" in text
    assert set(manifest.verification["assignment"]) == {"QNNExecutionProvider"}
    assert manifest.options["provider_options"]["soc_model"] == 57
    assert "/" not in json.dumps(dict(manifest.options))


def test_it_runs_and_says_that_it_is_simulated(half: Path) -> None:
    for verb in ("run", "verify"):
        done = run_edgex(verb, half.name, "--json", cwd=half.parent)
        assert done.returncode == 0, done.stderr
        assert "simulated: HTP simulator" in json.loads(done.stdout)["executed_on"]
    page = run_edgex("inspect", half.name, cwd=half.parent).stdout
    assert "simulated" in page and "no such device has run it" in " ".join(page.split())


def test_its_times_are_not_told(half: Path) -> None:
    done = run_edgex("profile", half.name, "--json", cwd=half.parent)
    assert done.returncode == 6 and "times of a simulator" in json.loads(done.stdout)["what"]


def test_float16_is_that_of_the_soc(half: Path) -> None:
    """In float32 it would be 130 dB from eager."""
    x = torch.randn(1, 3, 8, 8, generator=torch.Generator().manual_seed(5))
    with edgex.load(half) as session, edgex.load(half, options={"cpu_reference": True}) as reference:
        assert session.simulator is not None and reference.simulator is None
        sqnr_db = measure_sqnr_db(reference.run(x)[0], session.run(x)[0])
        assert 40 < sqnr_db < 100, f"{sqnr_db:.1f} dB"
        assert np.array_equal(session.run(x)[0], session.run(x)[0])


@pytest.mark.parametrize("recipe", ["int8", "a16w8"])
def test_a_recipe_is_proved(folder: Path, recipe: str) -> None:
    arguments = ("--quantize", recipe, "--option", "soc=sm8550", "-o", recipe, "--json", "-q")
    done = run_edgex("export", "net.py", "-t", "onnx-qnn", *arguments, cwd=folder)
    assert done.returncode == 0, done.stderr
    (artifact,) = json.loads(done.stdout)["artifacts"]
    assert artifact["status"] == "simulated" and "sm8550 (HTP v73)" in artifact["verification"]["simulator"]
    assert artifact["delegation"]["fraction"] == 1.0
    assert any("simulator's times" in warning for warning in artifact["warnings"])


def test_state_in_integers_is_carried_from_run_to_run(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = Averaging().eval()
    data = [(torch.randn(1, 16),) for _ in range(16)]
    artifact = edgex.export_model(
        module, data[0], target="onnx-qnn", quantize="int8", calibration=data, output=tmp_path
    )  # fmt: skip
    assert [spec.name for spec in artifact.manifest.method.state] == ["average"]
    with edgex.load(artifact.path) as session, torch.no_grad():
        module.average.zero_()
        for step in range(4):
            expected, actual = module(*data[step]).numpy(), session.run(*data[step])[0]
            sqnr_db = measure_sqnr_db(expected, actual)
            assert sqnr_db > 30, f"step {step + 1}: {sqnr_db:.1f} dB"
        module.average.zero_()
        alone = module(*data[3]).numpy()
    assert measure_sqnr_db(expected, alone) < 20, "these inputs do not show the state"


def test_what_qnn_does_not_take_is_named_with_its_reason_and_line() -> None:
    captured = capture(Untaken(), (torch.randn(1, 4),), source_root=Path(__file__).parent)
    program = convert_precision(captured.program, "fp16")
    delegate = get_delegate("onnx-qnn")
    (left,) = delegate.plan(program, OnnxQnnOptions()).fallbacks
    assert (left.op, left.code, left.fatal) == ("aten.sinh.default", "not_in_delegate", True)
    assert "Sinh" in left.reason and str(left.source).startswith(f"{Path(__file__).name}:")
    with pytest.raises(LoweringError, match=r"QNN for sm8650 \(HTP v75\) cannot run this model: aten.sinh") as caught:
        delegate.lower(program, OnnxQnnOptions())
    assert "allow_fallback=true" in str(caught.value.fix)
    lowered = delegate.lower(program, OnnxQnnOptions(allow_fallback=True))
    assert not lowered.plan.fatal and any("--allow-fallback" in warning for warning in lowered.warnings)


def test_sizes_that_vary_are_refused_with_the_flags_that_fix_them(tmp_path: Path) -> None:
    shapes = {"input": {0: torch.export.Dim("batch", min=1, max=8)}}
    with pytest.raises(LoweringError, match="fixed sizes") as caught:
        edgex.export_model(
            nn.Sequential(nn.Linear(6, 4), nn.ReLU()), (torch.randn(3, 6),), target="onnx-qnn", output=tmp_path,
            precision="fp16", dynamic_shapes=shapes,
        )  # fmt: skip
    assert "--sizes input:0=" in str(caught.value.fix) and "allow_fallback" not in str(caught.value.fix)


def test_where_the_provider_is_missing_it_does_not_run(half: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from edgex.runtime.engines.qnn import detection

    monkeypatch.setattr(detection, "installed_version", lambda _name: None)
    with pytest.raises(TargetUnavailable, match="onnxruntime-qnn is not installed") as caught:
        edgex.load(half)
    assert "[run-qnn]" in str(caught.value.fix) and caught.value.exit_code == 7
    with edgex.load(half, options={"allow_fallback": True}) as session:
        assert "CPUExecutionProvider" in session.executed_on and session.simulator is None
    with pytest.raises(RunError, match="no option 'simulation_second'"):
        edgex.load(half, options={"simulation_second": 1})


def test_a_context_binary_is_written_loaded_and_run(tmp_path: Path, half: Path) -> None:
    torch.manual_seed(0)
    module, x = nn.Sequential(nn.Linear(6, 4), nn.ReLU()).eval(), torch.randn(2, 6)
    artifact = edgex.export_model(
        module, (x,), target="onnx-qnn", output=tmp_path, precision="fp16", options={"context": True}
    )
    native = {entry.path for entry in artifact.manifest.native_files}
    assert {"model.onnx", "model_ctx.onnx", "model_ctx_qnn.bin"} <= native
    assert artifact.manifest.status == "simulated"
    assert "from its context binary" in artifact.manifest.verification["executed_on"]
    with edgex.load(artifact.path) as session, edgex.load(artifact.path, options={"context": False}) as plain:
        assert session.assignment == {"QNNExecutionProvider": 1} and "context binary" not in plain.executed_on
        np.testing.assert_array_equal(session.run(x)[0], plain.run(x)[0])
    with pytest.raises(RunError, match="holds no context binary"):
        edgex.load(half, options={"context": True})
