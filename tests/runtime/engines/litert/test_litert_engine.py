"""The engine litert: settings, a missing or older package, and files that are none of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from litert_support import needs_litert
from torch import nn

import edgex
from edgex.errors import RunError, TargetUnavailable
from edgex.runtime.engines.litert.engine import LiteRtEngine
from edgex.runtime.engines.litert.session import sentence


def test_a_missing_package_is_a_state_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    from edgex.runtime.engines import package

    monkeypatch.setattr(package, "installed_version", lambda _name: None)
    found = LiteRtEngine().availability()
    assert not found.available and found.fix == "pip install 'edgex-toolchain[run-litert]'"


def test_the_last_line_that_says_something_is_the_error() -> None:
    assert sentence("kernels.cc:1: a != b\nNode number 3 (SUB) failed to prepare.\n") == (
        "Node number 3 (SUB) failed to prepare."
    )
    assert sentence("Didn't find op for builtin opcode 'A'.\nRegistration failed.") == (
        "Didn't find op for builtin opcode 'A'."
    )
    assert sentence("") == "LiteRT gives no reason"


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("engine")
    return edgex.export_model(nn.Linear(2, 2), (torch.randn(1, 2),), target="litert", output=folder).path


@needs_litert
def test_unknown_settings_are_refused(exported: Path) -> None:
    with pytest.raises(RunError, match="no option 'device'"):
        edgex.load(exported, options={"device": "GPU"})


@needs_litert
def test_an_older_runtime_than_the_artifact_needs(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from edgex.runtime.engines import package

    monkeypatch.setattr(package, "installed_version", lambda _name: "1.4.0")
    with pytest.raises(TargetUnavailable, match=r"1\.4\.0 is too old"):
        edgex.load(exported)


@needs_litert
def test_a_damaged_file_is_refused(exported: Path) -> None:
    native = next(exported.glob("*.tflite"))
    native.write_bytes(b"\0" * native.stat().st_size)
    with pytest.raises(RunError, match="cannot load"):
        edgex.load(exported, check="size")
