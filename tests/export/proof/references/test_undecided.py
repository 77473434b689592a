"""Examples whose answer rounding decides: refused with that reason, accepted where asked for, and no wrong one."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from torch import nn

from benchmarks.operators.proof import verified_here
from edgex.delegates.base import CapturedProgram, LoweredModule
from edgex.delegates.reference.delegate import ReferenceDelegate
from edgex.export.capture.program import capture
from edgex.export.pipeline import export_to_targets
from edgex.export.result import ExportReport
from edgex.export.settings import ExportSettings
from edgex.export.source.source import wrap_model
from edgex.runtime.artifact.artifact import open_artifact
from edgex.runtime.artifact.golden import read_example, read_golden

TRUTH = ReferenceDelegate.lower
X = torch.rand(64, generator=torch.Generator().manual_seed(0)) + 0.5


class Cells(nn.Module):
    """Where a number lies between two cells, and in which; a twentieth of them lies on a border but for rounding.

    `moved` is what another engine's rounding makes of them, `off` a wrong kernel.
    """

    def __init__(self, moved: float = 0.0, off: float = 0.0) -> None:
        super().__init__()
        self.moved, self.off = moved, off
        self.register_buffer("border", (torch.arange(64) % 20 == 0).float())
        self.scale = nn.Parameter(torch.tensor(4.0))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        where = x * self.scale
        # On the border, and below or above it by what rounding of the weight makes of it.
        where = torch.where(self.border > 0, where.round() + (where - x * 4) + x * 0, where)
        where = where - self.border * self.moved
        cell = where.floor()
        return where - cell, cell.to(torch.int64), x.mean(0, keepdim=True) * (2 + self.off) + x


def export(
    monkeypatch: pytest.MonkeyPatch, engine: nn.Module, out: Path, *, allow: bool, model: nn.Module | None = None
) -> ExportReport:
    """Export `Cells`, or another model, to a target that runs another module."""
    model = Cells() if model is None else model
    other = capture(engine, (X,), source_root=Path(__file__).parent).program

    def lower(self: ReferenceDelegate, program: CapturedProgram, options: object) -> LoweredModule:
        return TRUTH(self, dataclasses.replace(program, exported=other.exported), options)

    monkeypatch.setattr(ReferenceDelegate, "lower", lower)
    settings = ExportSettings(("reference",), out, allow_inconclusive=allow, bisect_seconds=0, rewrite=False)
    with verified_here():
        return export_to_targets(lambda: wrap_model(model, (X,), {}, None, "cells"), settings, name="cells")


def test_it_is_refused_with_the_reason_and_the_way_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    report = export(monkeypatch, Cells(moved=1e-6), tmp_path, allow=False)
    assert not report.artifacts
    error = report.failures[0].error
    assert "example proves little: eager's own answer moves as far" in str(error.why)
    assert "--allow-inconclusive" in str(error.fix)


def test_it_is_accepted_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    report = export(monkeypatch, Cells(moved=1e-6), tmp_path, allow=True)
    assert not report.failures, report.failures[0].error.why
    (artifact,) = report.artifacts
    assert artifact.path is not None
    assert any(text.startswith("example proves little") for text in artifact.warnings), artifact.warnings
    opened = open_artifact(artifact.path)
    # It stays what is run and profiled, with a limit of its own.
    assert read_example(opened)["x"].shape == (64,)
    (example,) = [case for case in read_golden(opened) if case.name == "example"]
    assert example.kind == "compare" and example.min_sqnr_db is not None and example.min_sqnr_db < 60
    assert len(example.steps[0].between) == 1


@pytest.mark.parametrize("allow", [False, True])
def test_a_wrong_kernel_beside_it_is_refused_all_the_same(
    allow: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    report = export(monkeypatch, Cells(moved=1e-6, off=0.01), tmp_path, allow=allow)
    assert not report.artifacts
    error = report.failures[0].error
    assert "proves little" not in str(error.why)
    assert "--allow-inconclusive" not in str(error.fix)


class Series(nn.Module):
    """A series by its own deviation, of which a constant one has rounding only; `off` is a wrong kernel.

    `mean_off` is another engine's rounding: ONNX Runtime's means of 336 equal numbers are off by 3 to 59 last bits.
    """

    def __init__(self, off: float = 0.0, mean_off: float = 0.0) -> None:
        super().__init__()
        self.off, self.mean_off = off, mean_off
        self.level = nn.Parameter(torch.tensor(3.7))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = (x + self.level).reshape(1, -1)
        mean = y.mean(1, keepdim=True) * (1 + self.mean_off)
        centred = y - mean
        series = centred / (centred.square().mean(1, keepdim=True) + 1.6e-7).sqrt()
        return (series + torch.arange(float(y.shape[1])).sin()) * (1 + self.off)


def test_stress_that_rounding_decides_is_named_and_refuses_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    report = export(monkeypatch, Series(mean_off=7e-7), tmp_path, allow=False, model=Series())
    assert not report.failures, report.failures[0].error.why
    (artifact,) = report.artifacts
    told = [text for text in artifact.warnings if text.startswith("stress: zero")]
    assert len(told) == 1 and "proves little" in told[0] and "results of its operators" in told[0], artifact.warnings


def test_a_wrong_kernel_beside_such_stress_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    report = export(monkeypatch, Series(0.001, 7e-7), tmp_path, allow=False, model=Series())
    assert not report.artifacts
    assert "example" in str(report.failures[0].error.why)
