"""An artifact for Qualcomm's HTP on a Linux device: what the device must have, and who really runs it there."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from qnn_support import needs_qnn
from torch import nn

import edgex
from edgex.errors import DeviceError, RunError
from edgex.runtime.artifact.artifact import Artifact, open_artifact
from edgex.runtime.artifact.golden import read_example
from edgex.runtime.execute.address import open_executor
from edgex.runtime.execute.linux import python as makers
from edgex.runtime.execute.request import RunRequest
from edgex.runtime.execute.verification import verify

_PACKAGES = {
    "python": "3.12.1",
    "executable": "/usr/bin/python3",
    "numpy": "2.0",
    "packaging": "24",
    "onnxruntime": "1.31",
}


@pytest.mark.parametrize(
    ("installed", "machine", "libc", "what", "fix"),
    [
        (None, "aarch64", (2, 36), "lacks onnxruntime-qnn", "pip install 'onnxruntime-qnn>=2.7'"),
        ("1.24.4", "aarch64", (2, 36), "onnxruntime-qnn 1.24.4, which is too old", "pip install"),
        (None, "aarch64", (2, 31), r"no onnxruntime-qnn for the device \(aarch64, glibc 2.31\)", "newer system"),
        (None, "x86_64", (2, 34), r"no onnxruntime-qnn for the device \(x86_64, glibc 2.34\)", "newer system"),
        (None, "riscv64", (2, 40), "no onnxruntime-qnn for the device", "onnx-cpu"),
        (None, "aarch64", None, "no glibc", "newer system"),
    ],
)
def test_a_device_without_the_provider_is_told_what_it_lacks(
    installed: str | None,
    machine: str,
    libc: tuple[int, ...] | None,
    what: str,
    fix: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    packages = _PACKAGES | ({"onnxruntime-qnn": installed} if installed else {})
    monkeypatch.setattr(makers, "read_packages", lambda _link, _python: packages)
    manifest = SimpleNamespace(
        options={"execution_provider": "QNNExecutionProvider"},
        files=(),
        requirements=SimpleNamespace(minimum_version="1.27"),
    )
    artifact = SimpleNamespace(manifest=manifest)
    with pytest.raises(DeviceError, match=what) as raised:
        makers.PythonMaker()(
            artifact, SimpleNamespace(address="ssh:a"), SimpleNamespace(machine=machine, libc=libc), print
        )  # type: ignore[arg-type]
    assert fix in (raised.value.fix or "")


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    folder = tmp_path_factory.mktemp("device")
    return edgex.export_model(model, (torch.randn(2, 8),), target="onnx-qnn", precision="fp16", output=folder)


@needs_qnn
def test_a_device_whose_provider_simulates_says_so_and_takes_no_times(exported: Artifact) -> None:
    """On this machine's processor the provider has a simulator; on Arm64 it has the HTP, which nobody ran here."""
    with open_executor("local-native") as device:
        verdict, answer = verify(device, exported)
        assert verdict.passed and verdict.verified_on == "simulator", verdict
        assert answer.simulator is not None and "as sm8650" in answer.simulator
        assert "QNNExecutionProvider" in answer.executed_on and "onnxruntime-qnn" in answer.versions
        example = read_example(exported)
        with pytest.raises(RunError, match="times of a simulator"):
            device.execute(exported, RunRequest(((example,),), runs=10))


@needs_qnn
def test_cases_beyond_the_budget_are_left_out_on_a_device_too(exported: Artifact) -> None:
    manifest = replace(exported.manifest, options={**exported.manifest.options, "simulation_seconds": 0.0})
    (exported.path / "manifest.json").write_text(manifest.dumps())
    artifact = open_artifact(exported.path)
    example = read_example(artifact)
    with open_executor("local-native") as device:
        answer = device.execute(artifact, RunRequest(((example,), (example,), (example,))))
    assert set(answer.left_out) == {1, 2} and "of simulation" in answer.left_out[1]
    assert len(answer.outputs[0]) == 1 and not answer.outputs[1] and np.isfinite(answer.outputs[0][0]["output_0"]).all()
