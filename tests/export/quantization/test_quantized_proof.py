"""The proof of quantized artifacts: eager where ranges were measured, the quantized program elsewhere, lies caught."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import edgex
from edgex.delegates.base import CapturedProgram, LoweredModule
from edgex.delegates.recipes.quantizers import LinearWeights
from edgex.delegates.recipes.tolerances import DEFAULT_TOLERANCES, QUANTIZED_TOLERANCE
from edgex.delegates.reference.delegate import ReferenceDelegate
from edgex.errors import QuantizationError, UsageError, VerificationError
from edgex.export.capture.program import capture
from edgex.export.pipeline import export_to_targets
from edgex.export.proof.verification import LEAST_SQNR_DB, explain_failure
from edgex.export.settings import ExportSettings
from edgex.export.source.source import wrap_model
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.artifact.golden import read_golden

HERE = Path(__file__).parent
TRUTH = ReferenceDelegate.lower


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(6, 32), nn.Linear(32, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.two(torch.relu(self.one(x)))
        return y, y.argmax(-1)


def sample(seed: int) -> tuple[torch.Tensor]:
    return (torch.randn(8, 6, generator=torch.Generator().manual_seed(seed)),)


@pytest.fixture(scope="module")
def net() -> nn.Module:
    torch.manual_seed(0)
    return Net().eval()


def export(net: nn.Module, out: Path, **options: Any) -> Artifact:
    data = [sample(seed) for seed in range(1, 21)]
    given = {"quantize": "int8", "calibration": data, "output": out, "name": "net", "bisect": False}
    return edgex.export_model(net, sample(0), target="reference", **given, **options)


@pytest.fixture(scope="module")
def artifact(net: nn.Module, tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    return export(net, tmp_path_factory.mktemp("quantized"), observer="minmax")


def test_each_case_says_what_it_was_held_against(artifact: Artifact) -> None:
    verification = artifact.manifest.verification
    assert verification is not None
    assert verification["tolerance"] == DEFAULT_TOLERANCES["int8"].to_json()
    assert verification["quantized_tolerance"] == QUANTIZED_TOLERANCE.to_json()
    references = {case["name"]: case["reference"] for case in verification["cases"]}
    assert references["example"] == "eager"
    assert references["held-out sample 10"] == references["held-out sample 20"] == "eager"
    assert references["example, as quantized"] == "quantized"
    assert {name for name, found in references.items() if found == "quantized"} >= {
        f"stress: {word}" for word in ("large", "tiny", "negative", "zero", "transposed memory")
    }
    found = {(case["name"], case["output"]): case["sqnr_db"] for case in verification["cases"]}
    assert 20 < found["example", "output_0"] < 60
    assert found["example, as quantized", "output_0"] > 100


class FeedsRounding(nn.Module):
    """Zeros leave the second normalization nothing but what eight bits make of a small bias."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(64, 64), nn.Linear(64, 64)
        self.norm = nn.LayerNorm(64)
        nn.init.normal_(self.one.bias, std=1e-2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.norm(self.two(self.norm(self.one(x))))
        return y


def test_where_rounding_is_all_that_is_left_the_limit_is_lower_and_nowhere_else(tmp_path: Path) -> None:
    torch.manual_seed(0)
    data = [(torch.randn(4, 64) * 8,) for _ in range(20)]
    artifact = edgex.export_model(
        FeedsRounding().eval(), data[0], target="reference", quantize="int8", calibration=data[1:], output=tmp_path
    )
    limits = {case.name: case.min_sqnr_db for case in read_golden(artifact)}
    lowered = {name for name, limit in limits.items() if limit is not None}
    assert lowered == {"stress: tiny", "stress: zero"}, limits
    assert all(LEAST_SQNR_DB <= limits[name] < QUANTIZED_TOLERANCE.min_sqnr_db for name in lowered), limits


def test_the_manifest_says_how_it_was_quantized(artifact: Artifact) -> None:
    assert artifact.manifest.precision == "fp32"
    assert artifact.manifest.quantization == {
        "recipe": "int8",
        "activations": "static",
        "weight_bits": 8,
        "group_size": None,
        "observer": "minmax",
        "calibration": {"origin": "calibration", "samples": 18, "held_out": 2, "random": False},
        "unquantized": [],
    }


def lie(monkeypatch: pytest.MonkeyPatch, change: Callable[[CapturedProgram], CapturedProgram]) -> None:
    """Make the reference delegate write another program than it was given."""

    def lower(self: ReferenceDelegate, program: CapturedProgram, options: Any) -> LoweredModule:
        return TRUTH(self, change(program), options)

    monkeypatch.setattr(ReferenceDelegate, "lower", lower)


def test_an_engine_that_does_not_clip_is_caught(
    net: nn.Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is better than asked on the example. But it is not the program: somewhere else its numbers are others."""
    other = capture(net, sample(0), source_root=HERE).program
    lie(monkeypatch, lambda program: dataclasses.replace(program, exported=other.exported))
    with pytest.raises(VerificationError, match="not eager's") as caught:
        export(net, tmp_path / "out", observer="minmax")
    assert "stress: large, output_0: SQNR" in str(caught.value.why)
    assert "example, output_0" not in str(caught.value.why)
    assert list(tmp_path.iterdir()) == []


def test_dropped_scales_are_caught(net: nn.Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def drop(program: CapturedProgram) -> CapturedProgram:
        for name, tensor in program.exported.state_dict.items():
            if name.endswith("weight_scale"):
                tensor.fill_(1.0)
        return program

    lie(monkeypatch, drop)
    with pytest.raises(VerificationError) as caught:
        export(net, tmp_path / "out", observer="minmax")
    assert "example, output_0: SQNR" in str(caught.value.why)
    assert list(tmp_path.iterdir()) == []


def test_random_data_is_warned_of_and_recorded_and_a_dry_run_calibrates(net: nn.Module, tmp_path: Path) -> None:
    settings = ExportSettings(("reference",), tmp_path, quantize="int8", calibration="random:3", observer="minmax")
    said: list[tuple[str, str]] = []
    report = export_to_targets(
        lambda: wrap_model(net, sample(0), {}),
        settings,
        name="net",
        progress=lambda stage, detail: said.append((stage, detail)),
        dry_run=True,
    )
    warnings = report.artifacts[0].warnings
    assert any("calibrated on random data" in text for text in warnings)
    assert any("calibrated on 3 samples: below 8" in text for text in warnings)
    assert ("calibrate", "random:3: sample 3") in said
    assert ("calibrated", "on 3 samples") in said
    assert "quantize" in report.artifacts[0].seconds
    quantization = json.loads(json.dumps(report.to_json()))["artifacts"][0]["quantization"]
    assert quantization["calibration"] == {"origin": "random:3", "samples": 3, "held_out": 0, "random": True}
    assert list(tmp_path.iterdir()) == []


def test_python_refuses_a_recipe_without_data(net: nn.Module, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="needs calibration data, and there is none"):
        edgex.export_model(net, sample(0), target="reference", quantize="int8", output=tmp_path)


def test_a_target_that_cannot_quantize_the_model_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ReferenceDelegate, "quantizer", lambda self, recipe: LinearWeights())
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 2, 3)).eval()
    x = torch.randn(1, 3, 8, 8)
    settings = ExportSettings(
        ("reference", "onnx-cpu"), tmp_path, quantize="int8", calibration=[(x,)] * 9, observer="minmax"
    )
    report = export_to_targets(lambda: wrap_model(model, (x,), {}), settings, name="net", dry_run=True)
    assert [artifact.target for artifact in report.artifacts] == ["onnx-cpu"]
    assert [failure.target for failure in report.failures] == ["reference"]
    assert "nothing in this model that int8 can quantize" in report.failures[0].error.what
    assert report.failures[0].error.exit_code == 5
    with pytest.raises(QuantizationError, match="nothing in this model"):
        edgex.export_model(model, (x,), target="reference", quantize="int8", calibration=[(x,)] * 9, output=tmp_path)


@pytest.mark.parametrize("sqnr_db", [6.0, 15.0])
def test_a_loss_by_quantizing_is_no_fault_of_the_target(sqnr_db: float) -> None:
    """What was quantized is computed right, and that is checked by cases of its own."""
    case = {
        "name": "example",
        "output": "scores",
        "verdict": "fail",
        "reason": f"SQNR {sqnr_db} dB is below 20 dB",
        "sqnr_db": sqnr_db,
        "max_abs_error": 0.5,
        "reference": "eager",
    }
    document = {
        "reason": case["reason"],
        "cases": [case],
        "repeats": None,
        "quantized_tolerance": {"min_sqnr_db": 30.0},
    }
    lossy = explain_failure(document, "xnnpack")
    assert "--max-drop 0.01" in lossy.fix and "numbers are wrong" not in lossy.fix
    assert ("quantizing loses more than it may" in lossy.what) is (sqnr_db < 10)
    wrong = explain_failure({**document, "cases": [case, {**case, "reference": "quantized"}]}, "xnnpack")
    assert "--max-drop" not in wrong.fix and "outputs are not eager's" in wrong.what
