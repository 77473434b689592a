"""The engine openvino: settings, devices that are not there, and errors in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from openvino_support import needs_openvino
from torch import nn

import edgex
from edgex.errors import RunError, TargetUnavailable
from edgex.runtime.engines.base import list_settings
from edgex.runtime.engines.openvino.binding import sentence
from edgex.runtime.engines.openvino.engine import OpenVinoEngine
from edgex.runtime.engines.openvino.session import parse_settings
from edgex.runtime.session.runner import EngineSettings


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"devise": "CPU"}, "no option 'devise'"),
        ({"inference_precision": "f23"}, "inference_precision=f23 is unknown"),
        ({"cpu_pinning": "maybe"}, "cpu_pinning=maybe is unknown"),
    ],
)
def test_unknown_settings_are_refused(options: dict, words: str) -> None:
    with pytest.raises(RunError, match=words):
        parse_settings(EngineSettings(1, options))


def test_a_missing_package_is_a_state_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    from edgex.runtime.engines import package

    monkeypatch.setattr(package, "installed_version", lambda _name: None)
    found = OpenVinoEngine().availability()
    assert not found.available and found.fix == "pip install 'edgex-toolchain[run-openvino]'"


def test_the_last_line_that_says_something_is_the_error() -> None:
    text = (
        "Exception from src/inference/src/cpp/core.cpp:92:\nCheck 'x' failed at src/core/a.cpp:1:\nno kernel for it\n"
    )
    assert sentence(RuntimeError(text)) == "no kernel for it" and sentence(ValueError("")) == "ValueError"


@needs_openvino
def test_a_device_that_is_not_there_and_a_damaged_file(tmp_path: Path) -> None:
    artifact = edgex.export_model(nn.Linear(2, 2), (torch.randn(1, 2),), target="openvino", output=tmp_path)
    with pytest.raises(RunError, match="finds no device NPU here") as caught:
        edgex.load(artifact.path, options={"device": "NPU"})
    assert "there are: CPU" in str(caught.value.why)
    native = next(artifact.path.glob("*.onnx"))
    native.write_bytes(b"\0" * native.stat().st_size)
    with pytest.raises(RunError, match="cannot load"):
        edgex.load(artifact.path, check="size")


@needs_openvino
def test_an_older_openvino_than_the_artifact_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from edgex.runtime.engines import package

    artifact = edgex.export_model(nn.Linear(2, 2), (torch.randn(1, 2),), target="openvino", output=tmp_path)
    monkeypatch.setattr(package, "installed_version", lambda _name: "2024.6.0")
    with pytest.raises(TargetUnavailable, match=r"2024\.6\.0 is too old"):
        edgex.load(artifact.path)


def test_the_setting_worth_timing_is_one_that_it_takes() -> None:
    (setting,) = list_settings(OpenVinoEngine(), 1)
    assert setting == ("cpu_pinning", False)
    assert parse_settings(EngineSettings(1)).pinning and not parse_settings(EngineSettings(1, dict([setting]))).pinning


@needs_openvino
def test_threads_that_are_not_pinned_give_the_same_bits(tmp_path: Path) -> None:
    x = torch.randn(1, 2)
    artifact = edgex.export_model(nn.Linear(2, 2), (x,), target="openvino", output=tmp_path)
    answers = []
    for options in ({}, {"cpu_pinning": False}):
        with edgex.load(artifact.path, options=options) as session:
            answers.append(session.run(x)[0].tobytes())
            pinned = session.runner.compiled.get_property("ENABLE_CPU_PINNING")  # type: ignore[attr-defined]
            assert not (options and pinned)
    assert answers[0] == answers[1]
