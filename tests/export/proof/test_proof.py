"""An artifact exists only once it has proved itself: delegates that lie are caught, each by the case meant for it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import edgex
from edgex.delegates.base import CapturedProgram, LoweredModule
from edgex.delegates.reference.delegate import ReferenceDelegate
from edgex.errors import ArtifactError, VerificationError
from edgex.export.capture.program import capture
from edgex.export.proof import verification
from edgex.export.proof.verification import carried_cases
from edgex.runtime.artifact.golden import Case, Step
from edgex.runtime.session.numerics import Tolerance

pytestmark = pytest.mark.long_file

TRUTH = ReferenceDelegate.lower


def lie(monkeypatch: pytest.MonkeyPatch, module: nn.Module, args: tuple, shapes: Any = None) -> None:
    """Make the reference delegate write another program than it was given."""
    other = capture(module.eval(), args, dynamic_shapes=shapes, source_root=Path(__file__).parent).program

    def lower(self: ReferenceDelegate, program: CapturedProgram, options: Any) -> LoweredModule:
        written = TRUTH(self, dataclasses.replace(program, exported=other.exported), options)
        return dataclasses.replace(written, methods=(program.method,))

    monkeypatch.setattr(ReferenceDelegate, "lower", lower)


def export(module: nn.Module, args: tuple, out: Path, **options: Any) -> edgex.runtime.artifact.artifact.Artifact:
    # The operators at fault are looked for in tests of their own.
    return edgex.export_model(module.eval(), args, target="reference", output=out, name="net", bisect=False, **options)


class Twice(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


def example(*shape: int) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(0)) + 0.1


def test_the_truth_passes_and_is_recorded(tmp_path: Path) -> None:
    artifact = export(Twice(), (example(2, 5),), tmp_path)
    manifest = artifact.manifest
    assert manifest.status == "verified"
    assert manifest.verification is not None and manifest.verification["passed"]
    names = [case["name"] for case in manifest.verification["cases"]]
    assert names[0] == "example"
    for word in ("large", "tiny", "negative", "zero", "transposed"):
        assert any(word in name for name in names)


def test_the_largest_cases_do_not_travel_once_they_outgrow_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "CARRIED_BYTES", 100)

    def case(name: str, size: int) -> Case:
        return Case(name, "compare", (Step({"x": np.zeros(size, np.uint8)}, {}),))

    cases = [case("example", 90), case("large", 60), case("small", 8), case("medium", 30), Case("told", "skipped")]
    few = {case.name: case.kind for case in carried_cases(cases, model_bytes=0)}
    assert few == {"example": "compare", "large": "skipped", "small": "compare", "medium": "skipped", "told": "skipped"}
    more = {case.name: case.kind for case in carried_cases(cases, model_bytes=140)}
    assert more["medium"] == "compare" and more["large"] == "skipped"
    assert "not carried along" in str(carried_cases(cases, 0)[1].reason)


class Scaled(nn.Module):
    def forward(self, x: torch.Tensor, scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x * scale, scale + 1


def test_scalars_stay_scalars(tmp_path: Path) -> None:
    export(Scaled(), (example(2, 5), torch.tensor(1.5)), tmp_path)


def test_numbers_slightly_off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Off(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2.002

    lie(monkeypatch, Off(), (example(2, 5),))
    with pytest.raises(VerificationError, match="not eager's") as caught:
        export(Twice(), (example(2, 5),), tmp_path / "out")
    assert "example, output_0: SQNR 60.0 dB is below 80 dB" in str(caught.value.why)
    assert "--min-sqnr 59" in str(caught.value.fix)
    assert list(tmp_path.iterdir()) == []
    artifact = export(Twice(), (example(2, 5),), tmp_path, tolerance=Tolerance(59.0))
    assert artifact.manifest.verification is not None
    assert artifact.manifest.verification["min_sqnr_db"] == 60


def test_right_on_the_example_but_wrong_on_negative_numbers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Positive(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.abs() * 2

    lie(monkeypatch, Positive(), (example(2, 5),))
    with pytest.raises(VerificationError) as caught:
        export(Twice(), (example(2, 5),), tmp_path)
    assert "stress: negative" in str(caught.value.why) and "example" not in str(caught.value.why)


def test_right_on_small_numbers_but_clipping_large_ones(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Clipped(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x * 2).clamp(-3, 3)

    lie(monkeypatch, Clipped(), (example(2, 5),))
    with pytest.raises(VerificationError) as caught:
        export(Twice(), (example(2, 5),), tmp_path)
    assert "stress: large" in str(caught.value.why) and "stress: tiny" not in str(caught.value.why)


class Sum(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.full((3,), 0.5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x)
        return self.total * 2


def test_state_that_was_dropped_is_wrong_from_the_second_step(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Forgetful(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.full((3,), 0.5))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (self.total + x) * 2

    lie(monkeypatch, Forgetful(), (example(3),))
    with pytest.raises(VerificationError) as caught:
        export(Sum(), (example(3),), tmp_path)
    why = str(caught.value.why)
    assert "state: 4 steps in a row, step 2" in why and "step 1" not in why and "example" not in why


def test_initial_state_that_was_dropped_is_wrong_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from_zero = Sum()
    from_zero.total.zero_()
    lie(monkeypatch, from_zero, (example(3),))
    with pytest.raises(VerificationError) as caught:
        export(Sum(), (example(3),), tmp_path)
    assert "example, output_0" in str(caught.value.why)


def test_a_batch_that_is_right_only_at_the_example_size(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class FirstThree(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * torch.where(torch.arange(x.shape[0]) < 3, 2.0, 0.0)[:, None]

    shapes = {"x": {0: torch.export.Dim("batch", min=1, max=8)}}
    lie(monkeypatch, FirstThree(), (example(3, 5),), shapes)
    with pytest.raises(VerificationError) as caught:
        export(Twice(), (example(3, 5),), tmp_path, dynamic_shapes=shapes)
    why = str(caught.value.why)
    assert "batch=8 (max)" in why and "batch=1 (min)" not in why and "example" not in why


def test_bounds_are_proved_to_be_refused(tmp_path: Path) -> None:
    shapes = {"x": {0: torch.export.Dim("batch", min=2, max=8)}}
    artifact = export(Twice(), (example(3, 5),), tmp_path, dynamic_shapes=shapes)
    assert artifact.manifest.verification is not None
    cases = {case["name"]: case for case in artifact.manifest.verification["cases"]}
    for name in ("batch=1 (below min)", "batch=9 (above max)"):
        assert cases[name]["verdict"] == "pass" and "outside batch=2..8" in cases[name]["reason"]


def test_a_case_on_which_eager_raises_is_listed_as_skipped(tmp_path: Path) -> None:
    class Table(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(10, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.table((x * 9).long())

    torch.manual_seed(0)
    artifact = export(Table(), (torch.tensor([0.1, 0.5, 1.0]),), tmp_path)
    assert artifact.manifest.verification is not None
    cases = {case["name"]: case for case in artifact.manifest.verification["cases"]}
    assert cases["stress: large"]["verdict"] == "skipped" and "eager itself raises IndexError" in str(
        cases["stress: large"]["reason"]
    )
    assert cases["stress: tiny"]["verdict"] == "pass"


def test_a_file_that_does_not_load_is_no_artifact(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(self: ReferenceDelegate, program: CapturedProgram, options: Any) -> LoweredModule:
        return dataclasses.replace(
            TRUTH(self, program, options), write=lambda folder: (folder / "model.pt2").write_text("x") and None
        )

    monkeypatch.setattr(ReferenceDelegate, "lower", broken)
    with pytest.raises(edgex.errors.LoweringError, match="torch cannot load") as caught:
        export(Twice(), (example(2, 5),), tmp_path / "out")
    assert caught.value.stage == "verify" and list(tmp_path.iterdir()) == []


def test_an_error_inside_the_file_system_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def full(self: ReferenceDelegate, program: CapturedProgram, options: Any) -> LoweredModule:
        def write(folder: Path) -> None:
            (folder / "half").write_text("x")
            raise OSError(28, "No space left on device")

        return dataclasses.replace(TRUTH(self, program, options), write=write)

    monkeypatch.setattr(ReferenceDelegate, "lower", full)
    with pytest.raises(ArtifactError, match="cannot write") as caught:
        export(Twice(), (example(2, 5),), tmp_path / "a" / "b")
    assert "No space left" in str(caught.value.why) and list(tmp_path.iterdir()) == []


def test_same_model_same_bytes(tmp_path: Path) -> None:
    """Two exports in two folders, by two processes with other hash seeds, are the same byte for byte."""
    import os
    import subprocess
    import sys

    from model_support import MODELS

    # One process a folder: importing takes longer than exporting.
    script = (
        "from edgex.cli.main import main\n"
        "for name in ('convnet.py', 'counter.py'):\n"
        "    try: main(['export', name, '-t', 'xnnpack,onnx-cpu', '-q'])\n"
        "    except SystemExit as ending: assert not ending.code, ending.code\n"
    )
    contents = []
    for number in (1, 77):
        folder = tmp_path / f"folder{number}"
        folder.mkdir()
        for name in ("convnet", "counter"):
            (folder / f"{name}.py").write_text(MODELS[name])
        environment = {**os.environ, "PYTHONHASHSEED": str(number), "EDGEX_SUPERVISED": "1"}
        subprocess.run([sys.executable, "-c", script], cwd=folder, env=environment, check=True, capture_output=True)
        files = [p for p in sorted(folder.rglob("*")) if p.is_file() and ".edgex" in str(p)]
        contents.append({str(p.relative_to(folder)): p.read_bytes() for p in files})
        for name, content in contents[-1].items():
            assert str(tmp_path).encode() not in content, name
    assert contents[0].keys() == contents[1].keys()
    for name, content in contents[0].items():
        assert content == contents[1][name], name
