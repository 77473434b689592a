"""A real pick of a small model: what is made, what the budget drops, who is kept, and what an interrupt leaves."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from device_support import needs_compiler
from torch import nn

import edgex
from edgex.errors import VerificationError
from edgex.export.pick import racing, racing_on
from edgex.export.pick.api import PickSettings, run_pick
from edgex.export.pick.result import Pick
from edgex.export.settings import ExportSettings
from edgex.export.source.source import wrap_model
from edgex.runtime.artifact.artifact import open_artifact
from edgex.runtime.execute.address import open_executor
from edgex.runtime.support.tuning import read_tuned_threads

X = torch.randn(4, 32, generator=torch.Generator().manual_seed(0))


def network() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8)).eval()


@pytest.fixture(scope="module")
def picked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Pick, Path]:
    folder = tmp_path_factory.mktemp("pick")
    found = edgex.pick(
        network(),
        (X,),
        output=folder / "best",
        targets=("xnnpack", "onnx-cpu"),
        recipes=("none", "int8-dynamic"),
        min_sqnr_db=60.0,
        threads=(1,),
        max_seconds=1.0,
        name="net",
    )
    return found, folder


def test_the_best_within_the_budget_is_kept_and_remembers_its_threads(picked: tuple[Pick, Path]) -> None:
    found, folder = picked
    winner = found.winner
    assert winner is not None and found.path is not None and found.threads == 1
    assert winner.candidate.recipe is None and winner.judged is not None and winner.judged.error_db > 60.0
    # The winner alone is left on disk, and it is a whole artifact.
    assert [path.name for path in (folder / "best").iterdir()] == [f"net.{winner.candidate.target}.edgex"]
    assert [path.name for path in folder.iterdir()] == ["best"]
    with edgex.load(found.path) as session:
        assert session.threads == 1
        np.testing.assert_allclose(session.run(X)[0], network()(X).detach().numpy(), atol=1e-5)


def test_every_combination_is_accounted_for(picked: tuple[Pick, Path]) -> None:
    found, _ = picked
    assert len(found.rows) == 4 and {row.verdict for row in found.rows} <= {"picked", "draw", "slower", "over budget"}
    over = [row for row in found.rows if row.verdict == "over budget"]
    assert {row.candidate.recipe for row in over} == {"int8-dynamic"} and len(over) == 2
    for row in over:
        assert "less than --min-sqnr 60 asks" in row.reason and row.judged is not None and row.timed is None
    timed = [row for row in found.rows if row.timed is not None]
    assert any(row.pareto for row in timed) and all(row.timed.seconds > 0 for row in timed if row.timed)
    assert all(row.reason for row in found.rows if row.verdict not in ("picked",))
    document = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert document["schema"] == "edgex.pick/1" and document["winner"]["threads"] == 1
    assert len(document["candidates"]) == 4 and document["judge"] == "the example inputs"
    # A quantized candidate judged on the example alone is said.
    assert any("says little about accuracy" in notice for notice in found.notices)


@needs_compiler
def test_the_best_for_a_device_is_timed_there_and_tunes_nothing_here(tmp_path: Path) -> None:
    settings = PickSettings(
        ExportSettings((), output=tmp_path / "best"),
        ("xnnpack", "reference"),
        recipes=("none", "int8-dynamic"),
        threads=(1,),
    )
    source = wrap_model(network(), (X,), {}, None, "net")
    monkey = pytest.MonkeyPatch()
    monkey.setattr(racing, "HEAT_MARGIN", 1e9)  # whoever is slower on this machine, both run in turns
    monkey.setattr(racing_on, "HEAT_MARGIN", 1e9)
    with monkey.context(), open_executor("local-native") as device:
        found = run_pick(lambda: source, settings, name="net", executor=device)
    verdicts = {row.candidate.label: row for row in found.rows}
    for label in ("reference", "reference int8-dynamic"):
        assert (
            verdicts[label].verdict == "refused" and "runs no artifacts of the engine torch" in verdicts[label].reason
        )
    timed = [row.timed for row in found.rows if row.timed is not None]
    assert {one.candidate.label for one in timed} == {"xnnpack", "xnnpack int8-dynamic"}
    # The native runner alone, without Python and torch.
    assert all(one.seconds > 0 and one.peak_rss_bytes is not None and one.peak_rss_bytes < 1e8 for one in timed)
    assert sum(one.ratio is not None for one in timed) == 1
    assert found.path is not None and found.to_json()["device"] == "local-native"
    assert read_tuned_threads(open_artifact(found.path).digest) is None


def test_a_budget_that_nothing_meets_is_an_error_that_names_all(tmp_path: Path) -> None:
    with pytest.raises(VerificationError, match="nothing is left to pick from") as caught:
        edgex.pick(
            network(), (X,), output=tmp_path / "best", targets=("onnx-cpu",), threads=(1,),
            evaluate=lambda run: float(-np.abs(run(X.numpy())[0]).sum()), max_drop=0.0, min_sqnr_db=400.0,
        )  # fmt: skip
    assert caught.value.why is not None and "onnx-cpu, over budget" in caught.value.why
    assert not list(tmp_path.iterdir())


def test_an_interrupt_keeps_what_is_known_and_leaves_nothing(tmp_path: Path) -> None:
    source = wrap_model(network(), (X,), {}, None, "net")

    def interrupt(stage: str, _detail: str) -> None:
        if stage == "semifinal":
            raise KeyboardInterrupt

    settings = PickSettings(
        ExportSettings((), output=tmp_path / "best"), ("xnnpack", "onnx-cpu"), threads=(1,), max_seconds=1.0
    )
    monkey = pytest.MonkeyPatch()
    monkey.setattr(racing, "HEAT_MARGIN", 1e9)  # whoever is slower on this machine, both go on
    with monkey.context():
        found = run_pick(lambda: source, settings, name="net", progress=interrupt)
    assert found.interrupted and found.path is None and found.winner is None
    assert {row.verdict for row in found.rows} == {"not timed"} and all(row.timed is not None for row in found.rows)
    assert not list(tmp_path.iterdir())
