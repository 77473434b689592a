"""Accuracy budgets on real artifacts: a network of which one layer cannot be held in 8 bits."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from budget_support import MODEL_FILE, WIDTH, Spiky, samples
from click.testing import CliRunner, Result

import edgex
from edgex.cli.export.export import command as export_command
from edgex.cli.run.inspect import command as inspect_command
from edgex.delegates.recipes.quantizers import shared_quantizer
from edgex.delegates.recipes.recipes import get_recipe
from edgex.export.capture.program import capture
from edgex.export.quantization.budget import speed
from edgex.export.quantization.budget.compression import describe_compression
from edgex.export.quantization.budget.metric import choose_metric
from edgex.export.quantization.budget.sensitivity import quantize_alone, quantized_modules, rank_layers
from edgex.export.quantization.calibration.samples import CalibrationData, Samples
from edgex.export.quantization.linear.layers import quantize_linear
from edgex.export.quantization.quantize import Calibrated
from edgex.export.quantization.running import GraphRunner
from edgex.runtime.session.numerics import measure_sqnr_db


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("budget")
    (folder / "spiky.py").write_text(MODEL_FILE)
    return folder


def export(folder: Path, output: str, *flags: str) -> Result:
    command = [str(folder / "spiky.py"), "-t", "reference", "-q", "--json"]
    command += () if "--quantize" in flags else ("--quantize", "int8")
    return CliRunner().invoke(
        export_command, [*command, "-o", str(folder / output), *flags], env={"EDGEX_SUPERVISED": "1"}
    )


def inspect(path: str | Path) -> str:
    return " ".join(CliRunner().invoke(inspect_command, [str(path)]).stdout.split())


def document_of(result: Result) -> dict[str, Any]:
    assert result.stdout, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_the_layer_that_suffers_stays_in_float_and_the_artifact_says_so(folder: Path) -> None:
    result = export(folder, "kept", "--max-drop", "0.01", "--no-speed-check")
    assert result.exit_code == 0, result.output
    (artifact,) = document_of(result)["artifacts"]
    quantization = artifact["quantization"]
    budget = quantization["budget"]
    assert [step["kept_float"] for step in budget["steps"]] == [[], ["spiky"]]
    assert [step["holds"] for step in budget["steps"]] == [False, True]
    assert budget["steps"][0]["drop"] > 0.01 >= budget["steps"][1]["drop"]
    assert budget["sensitivity"][0]["module"] == "spiky"
    assert budget["metric"] == "evaluate"
    assert quantization["speed"] is None
    path = Path(artifact["path"])
    manifest = json.loads((path / "manifest.json").read_text())
    assert manifest["quantization"]["accuracy"]["kept_float"] == ["spiky"]
    assert [item["module"] for item in manifest["quantization"]["unquantized"]] == ["spiky"]
    assert "median_seconds" not in json.dumps(manifest), "no times in artifacts"
    accuracy = manifest["quantization"]["accuracy"]
    assert f"{accuracy['reached']:.4g}, eager {accuracy['baseline']:.4g}: within --max-drop 0.01" in inspect(path)
    report = json.loads((path / "debug" / "quantization.json").read_text())
    assert report == quantization["compression"]
    sizes = {layer["module"]: layer for layer in report["layers"] if layer["dtype"] == "int8"}
    assert sizes["first"]["bytes"] == WIDTH * WIDTH
    assert sizes["first"]["float_bytes"] == 4 * WIDTH * WIDTH
    assert "spiky" not in sizes
    assert {"module": "first", "kind": "weight", "dead": 1, "channels": WIDTH} in report["dead_channels"]


def test_a_budget_that_nothing_meets_leaves_nothing_behind(folder: Path) -> None:
    result = export(folder, "none", "--max-drop", "1e-12")
    assert result.exit_code == 4
    (failure,) = document_of(result)["failures"]
    assert failure["stage"] == "budget"
    assert "no artifact meets --max-drop 1e-12" in failure["what"]
    assert "2 of 3 layers in floating point" in failure["why"]
    assert not (folder / "none").exists()


@pytest.mark.slow
def test_the_best_is_saved_on_request_and_still_exits_4(folder: Path) -> None:
    result = export(folder, "best", "--max-drop", "1e-12", "--keep-best", "--no-speed-check")
    document = document_of(result)
    assert result.exit_code == 4
    assert document["failures"][0]["exit_code"] == 4
    (artifact,) = document["artifacts"]
    fix = document["failures"][0]["fix"]
    assert fix.endswith(f"; the best was saved all the same: {artifact['path']}") and "--keep-best" not in fix
    assert [text for text in artifact["warnings"] if text.startswith("--max-drop 1e-12 is missed: the best of")]
    manifest = json.loads((Path(artifact["path"]) / "manifest.json").read_text())
    assert manifest["quantization"]["accuracy"]["holds"] is False
    assert ": misses --max-drop 1e-12" in inspect(artifact["path"])


def test_a_slower_artifact_is_refused_where_a_speedup_is_required(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = speed.SpeedCheck(1e-3, 2e-3, 0.5, "slower", 2)
    monkeypatch.setattr(speed, "time_against_float", lambda *_: slow)
    result = export(folder, "slow", "--require-speedup", "--min-sqnr", "1")
    assert result.exit_code == 4
    (failure,) = document_of(result)["failures"]
    assert failure["stage"] == "time"
    assert "SLOWER than float32, 2.00 times the time" in failure["why"]
    assert not (folder / "slow").exists()


def test_what_cannot_be_timed_is_not_taken_for_faster(folder: Path) -> None:
    command = [str(folder / "spiky.py"), "-t", "onnx-rocm", "--quantize", "int8", "--min-sqnr", "1", "-q", "--json"]
    command += ["--require-speedup", "-o", str(folder / "unknown")]
    result = CliRunner().invoke(export_command, command, env={"EDGEX_SUPERVISED": "1"})
    assert result.exit_code == 4, result.output
    (failure,) = document_of(result)["failures"]
    assert "nobody knows whether" in failure["what"]
    assert not (folder / "unknown").exists()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--quantize", "none", "--max-drop", "0.1"), "--max-drop without a recipe"),
        (("--quantize", "none", "--require-speedup"), "--require-speedup without a recipe"),
        (("--keep-best",), "--keep-best without a budget"),
        (("--max-drop", "-1"), "--max-drop is a finite number, 0 or more, not -1"),
        (("--max-drop", "0.1", "--dry-run"), "--dry-run measures nothing"),
    ],
)
def test_flags_are_checked_before_slow_work(folder: Path, flags: tuple[str, ...], words: str) -> None:
    result = export(folder, "flags", *flags)
    assert result.exit_code == 2
    assert words in document_of(result)["failures"][0]["what"]


@pytest.fixture(scope="module")
def calibrated() -> tuple[Calibrated, Any]:
    captured = capture(Spiky().eval(), (samples(1)[0],), {}, None, source_root=Path(__file__).parent)
    data = CalibrationData("samples", samples)
    opened = Samples(data, captured.eager, Path(__file__).parent)
    quantizer = shared_quantizer("int8")
    assert quantizer is not None
    return Calibrated(captured.program, get_recipe("int8"), quantizer, "minmax", opened), captured.eager


def test_eager_is_evaluated_once_for_all_targets(calibrated: tuple[Calibrated, Any]) -> None:
    _, eager = calibrated
    calls: list[Any] = []
    source: Any = SimpleNamespace(evaluate=lambda run: calls.append(run) or 0.5, source_root=Path())
    assert [choose_metric(source, eager, ())[1] for _target in range(3)] == [0.5] * 3 and len(calls) == 1


def test_layers_are_ranked_by_what_quantizing_them_alone_does(calibrated: tuple[Calibrated, Any]) -> None:
    model, eager = calibrated
    quantized = model.quantize().program
    assert quantized_modules(quantized) == ("first", "spiky", "last")
    ranked = rank_layers(quantized, model.program, eager)
    assert ranked[0].module == "spiky"
    assert ranked[0].sqnr_db < 15 < 25 < ranked[1].sqnr_db, ranked


def test_with_no_layer_quantized_the_numbers_are_those_of_float(calibrated: tuple[Calibrated, Any]) -> None:
    model, eager = calibrated
    none = quantize_alone(model.quantize().program, model.program, "no such module")
    (found,), (wanted,) = GraphRunner(none).run(eager.example), GraphRunner(model.program).run(eager.example)
    sqnr = measure_sqnr_db(wanted.numpy(), found.numpy())
    assert sqnr > 25, f"only the last value is still rounded: {sqnr:.1f} dB"


def test_clipped_activations_are_told(calibrated: tuple[Calibrated, Any]) -> None:
    model, _ = calibrated
    quantized = model.quantize()
    quiet = describe_compression(quantized, samples(4))
    loud = describe_compression(quantized, [10.0 * sample for sample in samples(4)])
    assert not [entry for entry in quiet["saturation"] if entry["op"] == "input"]
    (clipped,) = [entry for entry in loud["saturation"] if entry["op"] == "input"]
    assert clipped["clipped_share"] > 0.5
    assert clipped["module"] == "first"


@pytest.mark.parametrize("recipe", ["8da8w", "int8-weight"])
def test_nothing_runs_where_no_range_was_chosen_beforehand(
    calibrated: tuple[Calibrated, Any], recipe: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, _ = calibrated
    quantized = quantize_linear(model.program, get_recipe(recipe), frozenset())
    monkeypatch.setattr("edgex.export.quantization.budget.compression.GraphRunner", None)
    report = describe_compression(quantized, samples(4))
    assert report["saturation"] == [] and "int8" in report["by_dtype"]


def test_python_code_may_ask_for_a_budget_too(tmp_path: Path) -> None:
    with pytest.raises(edgex.errors.UsageError, match="--max-drop without a recipe"):
        edgex.export_model(torch.nn.Identity(), (torch.ones(1),), target="reference", output=tmp_path, max_drop=0.1)
