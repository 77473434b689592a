"""Stress inputs that enlarge rounding: held to a margin below what PyTorch's own kernels agree on, and no lower."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from edgex.delegates.base import CapturedProgram, LoweredModule
from edgex.delegates.reference.delegate import ReferenceDelegate
from edgex.export.capture.program import capture
from edgex.export.pipeline import export_to_targets
from edgex.export.proof.float_limits import LEAST_SQNR_DB
from edgex.export.result import ExportReport
from edgex.export.settings import ExportSettings
from edgex.export.source.source import wrap_model
from edgex.runtime.artifact.artifact import open_artifact
from edgex.runtime.artifact.golden import read_golden
from edgex.runtime.session.numerics import Tolerance

TRUTH = ReferenceDelegate.lower
X = torch.rand(64, 32, generator=torch.Generator().manual_seed(0)) * 0.8 + 0.5


class Waves(nn.Module):
    """Tame around one; sixteen times that is an angle of a million, whose last bit is a tenth."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x**5)


class OtherOrder(nn.Module):
    """The same, rounded at other places."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x * ((x * x) * (x * x)))


class Clipped(nn.Module):
    """The same up to eight."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x.clamp(-8, 8) ** 5)


class OffEverywhere(nn.Module):
    """Wrong on the example too."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x * ((x * x) * (x * x)) + 1e-3)


def export(monkeypatch: pytest.MonkeyPatch, engine: nn.Module, out: Path, **settings: Any) -> ExportReport:
    """Export `Waves` to a target that runs another module."""
    other = capture(engine, (X,), source_root=Path(__file__).parent).program

    def lower(self: ReferenceDelegate, program: CapturedProgram, options: Any) -> LoweredModule:
        return TRUTH(self, dataclasses.replace(program, exported=other.exported), options)

    monkeypatch.setattr(ReferenceDelegate, "lower", lower)
    asked = ExportSettings(("reference",), out, **settings)
    return export_to_targets(lambda: wrap_model(Waves(), (X,), {}, None, "waves"), asked, name="waves")


def test_an_engine_that_rounds_elsewhere_passes_and_it_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    report = export(monkeypatch, OtherOrder(), tmp_path)
    assert not report.failures, report.failures[0].error.why
    (artifact,) = report.artifacts
    warnings = [text for text in artifact.warnings if text.startswith("stress: large: PyTorch's own kernels differ by")]
    assert len(warnings) == 1, artifact.warnings
    assert artifact.path is not None
    limits = {case.name: case.min_sqnr_db for case in read_golden(open_artifact(artifact.path))}
    assert [name for name, limit in limits.items() if limit is not None] == ["stress: large"], limits
    assert LEAST_SQNR_DB <= (limits["stress: large"] or 0) < 40, limits


@pytest.mark.parametrize(
    ("engine", "settings", "failed"),
    [
        pytest.param(Clipped(), {}, "stress: large, output_0: SQNR", id="wrong where rounding is large"),
        pytest.param(OffEverywhere(), {}, "example, output_0: SQNR", id="wrong on the example"),
        pytest.param(OtherOrder(), {"tolerance": Tolerance(80.0)}, "is below 80 dB", id="the user's own tolerance"),
    ],
)
def test_nothing_else_passes(
    engine: nn.Module, settings: dict[str, Any], failed: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    report = export(monkeypatch, engine, tmp_path, **settings)
    assert not report.artifacts
    assert failed in str(report.failures[0].error.why)
