"""Stress inputs that enlarge rounding: compared with eager's own error in float64, and nothing else is eased."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from benchmarks.operators.proof import verified_here
from edgex.delegates.base import CapturedProgram, LoweredModule
from edgex.delegates.reference.delegate import ReferenceDelegate
from edgex.export.capture.program import capture
from edgex.export.pipeline import export_to_targets
from edgex.export.proof.references.float64 import in_float64
from edgex.export.proof.references.float64_errors import (
    _moved_as_far,
    judge_by_float64,
)
from edgex.export.proof.references.movement import measure_largest_move
from edgex.export.proof.references.own_errors import measure_own_errors
from edgex.export.proof.references.ranks import describe_order
from edgex.export.result import ExportReport
from edgex.export.settings import ExportSettings
from edgex.export.source.source import wrap_model
from edgex.runtime.artifact.artifact import open_artifact
from edgex.runtime.artifact.golden import Case, Step, read_golden
from edgex.runtime.session.numerics import EXACT_SQNR_DB, Tolerance, measure_sqnr_db

TRUTH = ReferenceDelegate.lower
X = torch.rand(64, 32, generator=torch.Generator().manual_seed(0)) * 0.8 + 0.5


class Waves(nn.Module):
    """Tame around one; sixteen times that is an angle whose last bits are rounding."""

    def __init__(self, power: int = 3) -> None:
        super().__init__()
        self.power = power

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x**self.power)


class OtherOrder(nn.Module):
    """The same, rounded at other places: by a unit in the last place of a cube."""

    def __init__(self, power: int = 3) -> None:
        super().__init__()
        self.power = power

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.power == 3:
            return torch.sin(x**3 * torch.where(x.abs() > 2, 1 + 1.2e-7, 1.0))
        return torch.sin(x * ((x * x) * (x * x)))


class Further(nn.Module):
    """An error as large as fifty roundings, where inputs are large."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x**3 * torch.where(x.abs() > 2, 1 + 3e-6, 1.0))


class Clipped(nn.Module):
    """The same up to eight."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x.clamp(-8, 8) ** 3)


class Level(nn.Module):
    """A ramp where all is zero, as a normalization of a constant image gives its bias there."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cos(x) * torch.linspace(1, 2, 32)


class OffAtZero(nn.Module):
    """Off by so much, and nowhere else."""

    def __init__(self, error: float) -> None:
        super().__init__()
        self.error = error

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cos(x) * torch.linspace(1, 2, 32) + torch.where(x == 0, self.error, 0.0)


class OffEverywhere(nn.Module):
    """Wrong on the example too."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x * (x * x) + 1e-3)


def export(
    monkeypatch: pytest.MonkeyPatch,
    engine: nn.Module,
    out: Path,
    power: int = 3,
    model: nn.Module | None = None,
    **asked: Any,
) -> ExportReport:
    """Export a model, `Waves` if none is given, to a target that runs another module."""
    other = capture(engine, (X,), source_root=Path(__file__).parent).program

    def lower(self: ReferenceDelegate, program: CapturedProgram, options: Any) -> LoweredModule:
        return TRUTH(self, dataclasses.replace(program, exported=other.exported), options)

    monkeypatch.setattr(ReferenceDelegate, "lower", lower)
    settings = ExportSettings(("reference",), out, **asked)
    with verified_here():
        chosen = model or Waves(power)
        return export_to_targets(lambda: wrap_model(chosen, (X,), {}, None, "waves"), settings, name="waves")


def test_an_engine_that_rounds_elsewhere_passes_and_it_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    report = export(monkeypatch, OtherOrder(), tmp_path)
    assert not report.failures, report.failures[0].error.why
    (artifact,) = report.artifacts
    assert artifact.path is not None
    limits = {case.name: case.min_sqnr_db for case in read_golden(open_artifact(artifact.path))}
    eased = {name: limit for name, limit in limits.items() if limit is not None}
    assert set(eased) == {"stress: large", "stress: large, negative"}, limits
    assert all(limit == 60 for limit in eased.values()), limits
    told = [text for text in artifact.warnings if "held to 60 dB, not 80" in text]
    assert len(told) == len(eased), artifact.warnings


def test_where_eager_itself_is_lost_a_case_proves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    report = export(monkeypatch, OtherOrder(5), tmp_path, power=5)
    assert not report.failures, report.failures[0].error.why
    (artifact,) = report.artifacts
    assert artifact.path is not None
    (case,) = [c for c in read_golden(open_artifact(artifact.path)) if c.name == "stress: large"]
    assert case.kind == "skipped" and "from float64" in str(case.reason)
    assert any(text.startswith("stress: large: proves nothing") for text in artifact.warnings)


def test_inputs_that_are_all_zero_fail_below_the_floor_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    report = export(monkeypatch, OffAtZero(3e-4), tmp_path / "near", model=Level())
    assert not report.failures, report.failures[0].error.why
    (artifact,) = report.artifacts
    assert any("stress: zero: held to 60 dB, not 80: inputs that are all zero" in text for text in artifact.warnings)
    report = export(monkeypatch, OffAtZero(3e-3), tmp_path / "far", model=Level())
    assert not report.artifacts
    assert "stress: zero" in str(report.failures[0].error.why)


@pytest.mark.parametrize(
    ("engine", "settings", "failed"),
    [
        pytest.param(Clipped(), {}, "stress: large, output_0: SQNR", id="wrong where inputs are large"),
        pytest.param(Further(), {}, "is below 60 dB", id="further than the floor"),
        pytest.param(OffEverywhere(), {}, "example, output_0: SQNR", id="wrong on the example"),
        pytest.param(Further(), {"tolerance": Tolerance(80.0)}, "is below 80 dB", id="the user's own tolerance"),
    ],
)
def test_nothing_else_passes(
    engine: nn.Module, settings: dict[str, Any], failed: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    report = export(monkeypatch, engine, tmp_path, **settings)
    assert not report.artifacts
    assert failed in str(report.failures[0].error.why)


class Mixed(nn.Module):
    """Weights, a buffer, a constant made in forward, and a dtype that is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.add_(1)
        return (self.layer(x) + torch.tensor([0.1, 0.2, 0.3, 0.4])).to(torch.float32).softmax(-1) + self.seen


def test_in_float64_everything_is_wide_and_nothing_is_changed() -> None:
    model = Mixed().eval()
    weight, before = model.layer.weight, model.layer.weight.detach().clone()
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        narrow = model(x)
        model.seen.zero_()
        with in_float64(model):
            wide = model(x)
    assert wide.dtype == torch.float64 and narrow.dtype == torch.float32
    assert 0 < (wide - narrow).abs().max() < 1e-6
    assert model.layer.weight is weight and weight.dtype == torch.float32 and torch.equal(weight, before)
    assert model.seen.dtype == torch.float32


def judge_example(distance_db: float, *, largest: float = 0.0, name: str = "example", steps: int = 1) -> Case:
    """`Waves` eighteen times too far out, where eager is far from float64; an artifact so far beyond eager's own."""
    x = X * 18
    found = capture(Waves(), (x,), source_root=Path(__file__).parent)
    (output,) = (spec.name for spec in found.program.outputs)
    (answer,) = found.eager.run([x])
    case = Case(name, "compare", (Step({"x": x.numpy()}, {output: answer.numpy()}),) * steps)
    errors = measure_own_errors(case, found.eager)
    assert errors is not None
    own = errors[output]
    assert 66 < own.sqnr_db < 80, own
    measured, error = (95.0, largest * own.largest) if largest else (own.sqnr_db + distance_db, own.largest)
    entry = {"name": name, "output": output, "verdict": "fail", "sqnr_db": measured, "max_abs_error": error}
    verdict = {"tolerance": {"min_sqnr_db": 80.0}, "cases": [entry]}
    judged = judge_by_float64([case], verdict, found.eager, found.program)
    assert len(judged.sentences) == int(judged.cases[0].min_sqnr_db is not None), judged.sentences
    assert not judged.sentences or "eager float32" in judged.sentences[0], judged.sentences
    return judged.cases[0]


def test_an_example_on_which_eager_is_far_from_float64_may_be_as_far_from_eager() -> None:
    limit = judge_example(-5.5).min_sqnr_db
    assert limit is not None and 60 < limit < 74, limit
    assert judge_example(-6.5).min_sqnr_db is None
    assert judge_example(0, largest=1.9).min_sqnr_db == 80.0
    assert judge_example(0, largest=2.1).min_sqnr_db is None
    assert judge_example(-5.5, name="batch=8 (max)").min_sqnr_db == limit
    # State keeps the fixed limit.
    assert judge_example(-5.5, steps=2).min_sqnr_db is None


def test_eagers_own_error_is_measured() -> None:
    eager = capture(Waves(), (X,), source_root=Path(__file__).parent).eager
    found = {}
    for factor in (1, 16):
        inputs = {"x": X.numpy() * np.float32(factor)}
        (answer,) = eager.run([torch.from_numpy(inputs["x"])])
        case = Case("stress: large", "compare", (Step(inputs, {eager.outputs[0].name: answer.numpy()}),))
        errors = measure_own_errors(case, eager)
        assert errors is not None
        (found[factor],) = (error.sqnr_db for error in errors.values())
    assert found[1] > 130 and 40 < found[16] < 90, found


def test_integers_that_differ_must_have_moved_in_eager_too() -> None:
    exact = EXACT_SQNR_DB
    found = {"scores": 21.0, "matches": -exact}
    assert _moved_as_far({"scores": 25.0, "matches": -exact}, found, 60.0) == 25.0
    assert _moved_as_far({"scores": 25.0, "matches": exact}, found, 60.0) is None
    assert _moved_as_far({"scores": 70.0, "matches": -exact}, found, 60.0) is None
    assert _moved_as_far({"scores": 45.0, "matches": -exact}, found, 60.0) is None
    assert _moved_as_far({"scores": 70.0, "matches": -exact}, {"matches": -exact}, 60.0) == 70.0
    assert _moved_as_far({}, found, 60.0) is None


class Ramp(nn.Module):
    """Numbers as they are, or the step of a stair that they stand on."""

    def __init__(self, *, stairs: bool) -> None:
        super().__init__()
        self.stairs = stairs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.floor(x * 4) / 4 if self.stairs else x * 1.5


@pytest.mark.parametrize("stairs", [True, False])
@pytest.mark.parametrize("name", ["stress: tiny", "example"])
def test_single_numbers_may_be_as_far_as_eagers_own_move_in_stress(stairs: bool, name: str) -> None:
    x = torch.arange(64.0) / 4
    found = capture(Ramp(stairs=stairs), (x,), source_root=Path(__file__).parent)
    (output,) = (spec.name for spec in found.program.outputs)
    (answer,) = found.eager.run([x])
    case = Case(name, "compare", (Step({"x": x.numpy()}, {output: answer.numpy()}),))
    entry = {"name": name, "output": output, "verdict": "fail", "sqnr_db": 95.0, "max_abs_error": 0.25}
    judged = judge_by_float64(
        [case], {"tolerance": {"min_sqnr_db": 80.0}, "cases": [entry]}, found.eager, found.program
    )
    eased = stairs and name == "stress: tiny"
    assert (judged.cases[0].min_sqnr_db == 80.0) is eased, judged
    assert any("judged by SQNR alone" in sentence for sentence in judged.sentences) is eased


class Ordered(nn.Module):
    """As good as eager in either memory order, whose answers differ in what rounding decides."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + (0.001 if x.is_contiguous() else 0.0)


def test_eagers_answers_in_two_memory_orders_are_both_right() -> None:
    x = torch.randn(8, 16, generator=torch.Generator().manual_seed(0))
    module = Ordered()
    found = capture(module, (x,), source_root=Path(__file__).parent)
    (output,) = (spec.name for spec in found.program.outputs)
    case = Case(
        "stress: transposed memory", "compare", (Step({"x": x.numpy()}, {output: x.numpy()}),), layout="transposed"
    )
    entry = {"name": case.name, "output": output, "verdict": "fail", "sqnr_db": 61.0, "max_abs_error": 0.001}
    verdict = {"tolerance": {"min_sqnr_db": 80.0}, "cases": [entry]}
    (after,) = judge_by_float64([case], verdict, found.eager, found.program).cases
    assert after.min_sqnr_db == 60.0, after
    moved = measure_largest_move(case, [case], found.eager)
    assert moved is not None and moved[output] == pytest.approx(0.001, rel=0.01)


class Detector(nn.Module):
    """Boxes of the best scores; what an artifact computes is `moved` away from these, or gathers something else."""

    def __init__(self, moved: float = 0.0, off: int = 0) -> None:
        super().__init__()
        self.moved, self.off = moved, off
        self.register_buffer("noise", torch.rand(40, generator=torch.Generator().manual_seed(1)) * 2 - 1)

    def forward(self, scores: torch.Tensor, boxes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        _, best = (scores * (1 + self.moved * self.noise)).topk(10)
        return boxes[(best + self.off) % 40], boxes.mean(0) * (1 + self.off)


@pytest.mark.parametrize(
    ("engine", "passes"),
    [
        pytest.param(Detector(moved=2e-7), True, id="nearly equal scores change places"),
        pytest.param(Detector(off=1), False, id="a wrong gather"),
    ],
)
def test_where_nearly_equal_scores_decide_a_case_proves_nothing(engine: Detector, passes: bool) -> None:
    scores = torch.linspace(0, 1, 20).repeat_interleave(2)
    scores[1::2] *= 1 + 1e-7
    inputs = (scores, torch.randn(40, 4, generator=torch.Generator().manual_seed(0)))
    found = capture(Detector(), inputs, source_root=Path(__file__).parent)
    names = [spec.name for spec in found.program.outputs]
    arrays = dict(zip(("scores", "boxes"), (tensor.numpy() for tensor in inputs), strict=True))
    answers = dict(zip(names, (tensor.numpy() for tensor in Detector()(*inputs)), strict=True))
    given = dict(zip(names, (tensor.numpy() for tensor in engine(*inputs)), strict=True))
    case = Case("stress: transposed memory", "compare", (Step(arrays, answers),))
    judged = [
        {"name": case.name, "output": name, "verdict": "fail", "sqnr_db": measure_sqnr_db(answers[name], given[name])}
        for name in names
        if not np.array_equal(answers[name], given[name])
    ]
    assert judged and all(entry["sqnr_db"] < 60 for entry in judged), judged
    verdict = {"tolerance": {"min_sqnr_db": 80.0}, "cases": judged}
    (after,) = judge_by_float64([case], verdict, found.eager, found.program).cases
    assert (after.kind == "skipped") is passes, after
    assert not passes or "the scores that it sorts" in str(after.reason)
    # The example stays strict; its error says what decides it.
    found_db = {str(entry["output"]): float(entry["sqnr_db"]) for entry in judged}
    said = describe_order(case, found_db, 80.0, found.program)
    assert (said is not None) is passes, said
    assert said is None or ("what topk" in said[1] and f"{Path(__file__).name}:" in said[1]), said
