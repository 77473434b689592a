"""bf16 that rounds as PyTorch's own does passes where the fixed limit is missed; what is further off does not."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from benchmarks.operators.proof import verified_here
from edgex.delegates.base import CapturedProgram, LoweredModule
from edgex.delegates.reference.delegate import ReferenceDelegate
from edgex.export.pipeline import export_to_targets
from edgex.export.result import ExportReport
from edgex.export.settings import ExportSettings
from edgex.export.source.source import wrap_model
from edgex.runtime.artifact.artifact import open_artifact
from edgex.runtime.artifact.golden import read_golden
from edgex.runtime.session.numerics import Tolerance

TRUTH = ReferenceDelegate.lower
X = torch.rand(64, 32, generator=torch.Generator().manual_seed(0)) * 0.8 + 0.1


class Difference(nn.Module):
    """Two layers that nearly cancel: of eight bits two or three remain."""

    def __init__(self, shift: float = 0.0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        self.one, self.two, self.shift = nn.Linear(32, 32), nn.Linear(32, 32), shift
        with torch.no_grad():
            for layer in (self.one, self.two):
                layer.bias.copy_(torch.linspace(1, 2, 32))
            self.one.weight.copy_(torch.randn(32, 32, generator=generator))
            self.two.weight.copy_(self.one.weight + 0.06 * torch.randn(32, 32, generator=generator))
            self.two.bias.add_(0.1 * torch.randn(32, generator=generator))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.one(x) - self.two(x) * (1 + self.shift)


def export(
    out: Path, monkeypatch: pytest.MonkeyPatch | None = None, engine: nn.Module | None = None, **asked: Any
) -> ExportReport:
    settings = ExportSettings(("reference",), out, precision="bf16", **asked)
    if monkeypatch is not None and engine is not None:

        def lower(self: ReferenceDelegate, program: CapturedProgram, options: Any) -> LoweredModule:
            from edgex.export.capture.program import capture
            from edgex.export.rewrites.precision import convert_precision

            other = convert_precision(capture(engine, (X,), source_root=Path(__file__).parent).program, "bf16")
            return TRUTH(self, dataclasses.replace(program, exported=other.exported), options)

        monkeypatch.setattr(ReferenceDelegate, "lower", lower)
    with verified_here():
        return export_to_targets(
            lambda: wrap_model(Difference(), (X,), {}, None, "difference"), settings, name="difference"
        )


def test_what_rounds_as_pytorch_does_passes_and_it_is_said(tmp_path: Path) -> None:
    report = export(tmp_path)
    assert not report.failures, report.failures[0].error.why
    (artifact,) = report.artifacts
    assert artifact.path is not None
    limits = {case.name: case.min_sqnr_db for case in read_golden(open_artifact(artifact.path))}
    assert limits["example"] is not None and 20 <= limits["example"] < 30, limits
    told = [text for text in artifact.warnings if text.startswith("example: held to")]
    assert len(told) == 1 and "PyTorch's own bf16 is" in told[0], artifact.warnings


@pytest.mark.parametrize(
    ("shift", "asked", "failed"),
    [
        pytest.param(0.05, {}, "example, output_0: SQNR", id="further off"),
        pytest.param(0.0, {"tolerance": Tolerance(30.0)}, "is below 30 dB", id="the user's own tolerance"),
    ],
)
def test_nothing_else_passes(
    shift: float, asked: dict[str, Any], failed: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    report = export(tmp_path, monkeypatch, Difference(shift), **asked)
    assert not report.artifacts
    assert failed in str(report.failures[0].error.why)
