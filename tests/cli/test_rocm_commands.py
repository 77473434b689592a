"""onnx-rocm through every command, on a machine without an AMD GPU: no result says or implies that a GPU ran."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from model_support import CONV_NET, DYNAMIC, run_edgex
from torch import nn

pytestmark = pytest.mark.skipif(os.path.exists("/dev/kfd"), reason="this machine has an AMD GPU")  # noqa: PTH110

GPU_PROVIDER = re.compile(r"MIGraphX|ROCM|CUDA|gfx\d|\bGPU\b(?!.*(?:no AMD GPU|not executed))", re.IGNORECASE)
NAME = "convnet.onnx-rocm.edgex"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An exported artifact and the document that the export printed."""
    made = tmp_path_factory.mktemp("rocm")
    (made / "convnet.py").write_text(CONV_NET)
    done = run_edgex("export", "convnet.py", "-t", "onnx-rocm", "-q", "--json", cwd=made)
    assert done.returncode == 0, done.stderr
    (made / "export.json").write_text(done.stdout)
    return made


@pytest.fixture
def command(folder: Path, edgex: Callable, monkeypatch: pytest.MonkeyPatch) -> Callable:
    monkeypatch.chdir(folder)
    return edgex


class Wave(nn.Module):
    """Operators that the stand-in takes."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sqrt(torch.relu(torch.cos(x)))


def executed_on(document: object) -> list[str]:
    """Every `executed_on` and every provider with nodes, wherever it stands in a document."""
    found: list[str] = []
    if isinstance(document, dict):
        for key, value in document.items():
            if key == "executed_on" and value is not None:
                found.append(value)
            elif key == "assignment" and value is not None:
                found += list(value)
            else:
                found += executed_on(value)
    elif isinstance(document, list):
        for item in document:
            found += executed_on(item)
    return found


def assert_cpu(document: dict) -> None:
    names = executed_on(document)
    assert names, "the result does not say who ran it"
    for name in names:
        providers = name.partition(";")[0]
        assert "CPUExecutionProvider" in providers and not GPU_PROVIDER.search(providers), name


def test_export_assembles_it_and_proves_it_on_the_cpu(folder: Path) -> None:
    document = json.loads((folder / "export.json").read_text())
    (exported,) = document["artifacts"]
    assert exported["status"] == "assembled"
    assert any("assembled, not verified" in warning for warning in exported["warnings"])
    assert exported["verification"]["passed"] is True
    assert exported["verification"]["verified_on"] == "cpu-reference"
    assert exported["verification"]["min_sqnr_db"] >= 80
    assert_cpu(document)


def test_the_manifest_says_assembled_with_the_reason(command: Callable) -> None:
    manifest = json.loads(command("inspect", NAME, "--json").stdout)["manifest"]
    assert manifest["status"] == "assembled"
    assert manifest["status_reason"] == "not executed on an AMD GPU: there is no /dev/kfd: no AMD GPU, or its driver " \
        "is not loaded"  # fmt: skip
    assert manifest["options"]["opset"] == 18
    assert manifest["verification"]["verified_on"] == "cpu-reference"
    assert sum(manifest["verification"]["assignment"].values()) > 0
    assert_cpu(manifest)


@pytest.mark.parametrize("verb", ["run", "verify", "profile"])
def test_without_a_word_it_does_not_run(command: Callable, verb: str) -> None:
    done = command(verb, NAME, "--json")
    assert done.returncode == 7
    document = json.loads(done.stdout)
    assert "no AMD GPU can be used here" in document["what"] and "device node" in document["why"]
    assert "--allow-fallback" in document["fix"]
    assert not executed_on(document)


def test_run_with_fallback_names_the_cpu_and_counts(command: Callable) -> None:
    document = json.loads(command("run", NAME, "--allow-fallback", "--json").stdout)
    assert document["executed_on"].startswith("onnxruntime: CPUExecutionProvider (")
    assert "fallback: there is no /dev/kfd" in document["executed_on"]
    assert list(document["assignment"]) == ["CPUExecutionProvider"]
    assert_cpu(document)
    assert "CPUExecutionProvider" in command("run", NAME, "--allow-fallback").stdout


@pytest.mark.parametrize("flag", ["--allow-fallback", "--cpu-reference"])
def test_verify_on_the_cpu_is_called_so(command: Callable, flag: str) -> None:
    done = command("verify", NAME, flag, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["passed"] and document["verified_on"] == "cpu-reference"
    assert_cpu(document)


def test_profile_with_fallback_names_the_cpu(command: Callable) -> None:
    done = command("profile", NAME, "--allow-fallback", "--json", "--runs", "5", "--warmup", "1", "-q")
    assert done.returncode == 0, done.stderr
    assert_cpu(json.loads(done.stdout))


def test_load_from_python(folder: Path) -> None:
    import edgex
    from edgex.errors import RunError, TargetUnavailable

    with pytest.raises(TargetUnavailable, match="no AMD GPU can be used here"):
        edgex.load(folder / NAME)
    with edgex.load(folder / NAME, options={"allow_fallback": True}) as session:
        assert_cpu({"executed_on": session.executed_on, "assignment": session.assignment})
    with pytest.raises(RunError, match="no option 'cache_dri'"):
        edgex.load(folder / NAME, options={"cache_dri": "x"})
    with pytest.raises(RunError, match="device_id=-1"):
        edgex.load(folder / NAME, options={"device_id": -1})
    with pytest.raises(RunError, match="allow_fallback=maybe"):
        edgex.load(folder / NAME, options={"allow_fallback": "maybe"})


def test_a_plug_in_library_without_a_gpu_runs_nothing(folder: Path) -> None:
    import edgex
    from edgex.errors import TargetUnavailable

    nxrt = pytest.importorskip("nxrt_ep_cpu")
    with pytest.raises(TargetUnavailable, match="no AMD GPU"):
        edgex.load(folder / NAME, options={"provider_library": nxrt.get_library_path()})


def test_a_stand_in_for_amds_library_runs_the_artifact_and_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The whole way of the engine with a real plug-in, once the checks hold: opening, cache, assignment, numbers."""
    import dataclasses

    import numpy as np

    import edgex
    from edgex.errors import RunError
    from edgex.runtime.engines.onnxruntime.provider import opening as base
    from edgex.runtime.engines.rocm import opening

    nxrt = pytest.importorskip("nxrt_ep_cpu")
    monkeypatch.setattr(opening, "detect", lambda machine, run_session: [])
    plain = base.open_on_provider
    stand_in = dataclasses.replace(opening.MIGRAPHX, device_types=("CPU",))
    monkeypatch.setattr(
        base,
        "open_on_provider",
        lambda ort, model, options, choice: plain(
            ort, model, options, dataclasses.replace(choice, provider=stand_in, options={})
        ),
    )
    options = {"provider_library": nxrt.get_library_path(), "cache_dir": str(tmp_path / "cache")}
    x = torch.linspace(0.1, 1.4, 12).reshape(3, 4)
    wave = edgex.export_model(Wave(), (x,), target="onnx-rocm", output=tmp_path)
    assert wave.manifest.status == "assembled"
    with edgex.load(wave.path, options=options) as session:
        assert session.assignment is not None and set(session.assignment) == {"cpu_ep"}
        assert session.executed_on.startswith("onnxruntime: cpu_ep (")
        np.testing.assert_allclose(session.run(x)[0], Wave()(x).numpy(), rtol=1e-5)
    (tmp_path / "cache" / "edgex-cache.json").write_text("{}")
    with pytest.raises(RunError, match="stale"):
        edgex.load(wave.path, options=options)


def test_targets_and_doctor_imply_no_gpu(command: Callable) -> None:
    targets = {t["name"]: t for t in json.loads(command("targets", "--json").stdout)["targets"]}
    rocm = targets["onnx-rocm"]
    assert rocm["available"] is False and "/dev/kfd" in rocm["reason"] and rocm["fix"]
    assert [(check["name"], check["passed"]) for check in rocm["checks"]][:3] == [
        ("exporter", True), ("engine", True), ("device node", False),
    ]  # fmt: skip
    assert rocm["checks"][-1]["passed"] is None
    assert rocm["native_precisions"] is None
    doctor = json.loads(command("doctor", "--json").stdout)
    assert doctor["gpu"][0]["passed"] is False


def test_pages_for_people_say_that_no_device_was_asked(command: Callable) -> None:
    page = command("inspect", NAME).stdout
    assert "as predicted" in page and "not executed on an AMD GPU" in page
    assert "says nothing about the device" in command("verify", NAME, "--cpu-reference").stdout


def test_dynamic_sizes_are_refused_with_advice(edgex: Callable, tmp_path: Path) -> None:
    (tmp_path / "dynamic.py").write_text(DYNAMIC)
    done = edgex("export", "dynamic.py", "-t", "onnx-rocm", "-q")
    assert done.returncode == 5
    assert "x: dimension 0 is batch=1..8" in done.stderr and "--sizes" in done.stderr
    assert not (tmp_path / "dynamic.onnx-rocm.edgex").exists()


def test_a_wrong_opset_and_an_unknown_option_are_refused_at_once(edgex: Callable, tmp_path: Path) -> None:
    (tmp_path / "convnet.py").write_text(CONV_NET)
    done = edgex("export", "convnet.py", "-t", "onnx-rocm", "--option", "opset=20", "-q")
    assert done.returncode == 2 and "MIGraphX reads up to 19" in done.stderr
    done = edgex("export", "convnet.py", "-t", "onnx-rocm", "--option", "exhaustive_tun=1", "-q")
    assert done.returncode == 2 and "exhaustive_tune" in done.stderr


def test_half_precision_is_proved_on_the_cpu(edgex: Callable, tmp_path: Path) -> None:
    (tmp_path / "convnet.py").write_text(CONV_NET)
    done = edgex("export", "convnet.py", "-t", "onnx-rocm", "--precision", "fp16", "-q", "--json")
    assert done.returncode == 0, done.stderr
    (exported,) = json.loads(done.stdout)["artifacts"]
    assert exported["verification"]["min_sqnr_db"] >= 40
    assert_cpu(exported)


def test_allow_fallback_on_another_target_is_no_silent_no_op(command: Callable, folder: Path, tmp_path: Path) -> None:
    ordinary = Path(shutil.copytree(folder / NAME, tmp_path / "convnet.onnx-cpu.edgex"))
    manifest = json.loads((ordinary / "manifest.json").read_text())
    del manifest["options"]["execution_provider"]
    (ordinary / "manifest.json").write_text(json.dumps(manifest))
    assert command("run", str(ordinary)).returncode == 0
    done = command("run", str(ordinary), "--allow-fallback")
    assert done.returncode == 6 and "allow_fallback" in done.stderr
