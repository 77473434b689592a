"""The engine coreai: settings, a missing or older package, a notebook's event loop, and a damaged file."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest
import torch
from coreai_support import needs_coreai
from torch import nn

import edgex
from edgex.errors import RunError, TargetUnavailable
from edgex.runtime.engines.coreai.engine import CoreAiEngine
from edgex.runtime.engines.coreai.session import sentence


def test_a_missing_package_is_a_state_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    from edgex.runtime.engines import package

    monkeypatch.setattr(package, "installed_version", lambda _name: None)
    found = CoreAiEngine().availability()
    assert not found.available and found.fix == "pip install --pre 'edgex-toolchain[run-coreai]'"


def test_the_last_line_that_says_something_is_the_error() -> None:
    assert sentence(RuntimeError("in file\nx has an invalid scalar type\n")) == "x has an invalid scalar type"
    assert sentence(ValueError("")) == "ValueError"


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("engine")
    return edgex.export_model(nn.Linear(2, 2), (torch.ones(1, 2),), target="coreai", output=folder).path


@needs_coreai
def test_it_runs_where_an_event_loop_runs_already(exported: Path) -> None:
    """As in a notebook."""

    async def run() -> tuple[np.ndarray, ...]:
        with edgex.load(exported) as session:
            return session.run(torch.ones(1, 2))

    with edgex.load(exported) as session:
        np.testing.assert_array_equal(asyncio.run(run())[0], session.run(torch.ones(1, 2))[0])


@needs_coreai
def test_unknown_settings_are_refused(exported: Path) -> None:
    with pytest.raises(RunError, match="no option 'device'"):
        edgex.load(exported, options={"device": "GPU"})


@needs_coreai
def test_an_older_runtime_than_the_artifact_needs(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from edgex.runtime.engines import package

    monkeypatch.setattr(package, "installed_version", lambda _name: "0.9.0")
    with pytest.raises(TargetUnavailable, match=r"0\.9\.0 is too old"):
        edgex.load(exported)


@needs_coreai
def test_a_damaged_file_is_refused(exported: Path) -> None:
    native = next(exported.rglob("*.mlirb"))
    native.write_bytes(b"\0" * native.stat().st_size)
    with pytest.raises(RunError, match="cannot load"):
        edgex.load(exported, check="size")
