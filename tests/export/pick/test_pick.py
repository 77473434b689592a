"""A real pick of a small model: what is made, what the budget drops, who is kept, and what an interrupt leaves."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from device_support import needs_compiler
from torch import nn

import edgex
from edgex.errors import VerificationError
from edgex.export.pick import contenders, racing
from edgex.export.pick.api import run_pick
from edgex.export.pick.candidates import Candidate
from edgex.export.pick.heat import run_heat
from edgex.export.pick.judging import Judged
from edgex.export.pick.making import Made
from edgex.export.pick.plan import PickPlan, PickSettings
from edgex.export.pick.result import Pick
from edgex.export.pick.state import PickState
from edgex.export.settings import ExportSettings
from edgex.export.source.source import wrap_model
from edgex.runtime.artifact.artifact import open_artifact
from edgex.runtime.engines.onnxruntime.engine import OnnxRuntimeEngine
from edgex.runtime.execute.address import open_executor
from edgex.runtime.measure.statistics import RatioEstimate
from edgex.runtime.support.tuning import read_tuning

X = torch.randn(4, 32, generator=torch.Generator().manual_seed(0))


SETTINGS = [("memory_arena", False), ("no_such_option", 1)]


def network() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8)).eval()


@pytest.fixture(scope="module")
def picked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Pick, Path]:
    folder = tmp_path_factory.mktemp("pick")
    with pytest.MonkeyPatch.context() as monkey:
        monkey.setattr(contenders, "HEAT_MARGIN", 1e9)  # whoever is slower on this machine, settings are tried
        monkey.setattr(OnnxRuntimeEngine, "settings_worth_timing", lambda _self, _threads: SETTINGS)
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
    # Of the settings that the engine names, one is timed and one refused; the other engine names none.
    rows = {row["target"]: row for row in document["candidates"] if row["recipe"] is None}
    assert rows["xnnpack"]["others"] == [] and rows["xnnpack"]["engine_options"] == {}
    onnx = rows["onnx-cpu"]
    timed_with = [one["engine_options"] for one in (onnx, *onnx["others"]) if one["median_seconds"]]
    assert sorted(timed_with, key=len) == [{}, {"memory_arena": False}]
    (refused,) = (one for one in onnx["others"] if one["median_seconds"] is None)
    assert refused["engine_options"] == {"no_such_option": 1} and "no option 'no_such_option'" in refused["reason"]
    # A quantized candidate judged on the example alone is said.
    assert any("says little about accuracy" in notice for notice in found.notices)


def test_a_setting_that_changes_a_bit_of_the_outputs_is_not_timed(
    exported: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Convolutions in another layout: the sums are rounded in another order.
    settings = [("graph_optimization", "basic"), ("allow_spinning", False)]
    monkeypatch.setattr(OnnxRuntimeEngine, "settings_worth_timing", lambda _self, _threads: settings)
    artifact = open_artifact(exported("convnet", "onnx-cpu"), "size")
    judged = Judged(Made(Candidate("onnx-cpu"), artifact, 1), 120.0, None, 0.0)
    heat = run_heat([judged], (2,), lambda _stage, _detail: None, settings=True)
    assert [one.options for one in sorted(heat.timed, key=lambda one: len(one.options))] == [
        {},
        {"allow_spinning": False},
    ]
    assert {one.label for one in heat.timed} == {"onnx-cpu, 2 threads", "onnx-cpu, 2 threads, allow_spinning=false"}
    (dropped,) = heat.dropped
    assert dropped.options == {"graph_optimization": "basic"} and "other outputs" in dropped.reason


@pytest.mark.parametrize("drawn", [False, True])
def test_the_winners_settings_are_kept_where_they_are_surely_quicker(drawn: bool, tmp_path: Path) -> None:
    candidate = Candidate("onnx-cpu")
    judged = Judged(Made(candidate, None, 10), 120.0, None, 0.0)  # type: ignore[arg-type]  # no file is read
    plain, tuned = (
        contenders.Contender(judged, 2, seconds, options=options)
        for seconds, options in ((1.01e-3, {}), (1e-3, {"allow_spinning": False}))
    )
    race = PickState(PickPlan((candidate,), (), (2,), {}, 1, 1.0), PickSettings(ExportSettings(())))
    race._take([tuned, plain], drawn=[tuned, plain] if drawn else [tuned])
    # A draw with the defaults is no reason to leave them.
    assert race.winner is (plain if drawn else tuned)
    found = race.result(tmp_path)
    assert found.options == ({} if drawn else {"allow_spinning": False}) == found.to_json()["winner"]["engine_options"]


def contender(target: str, seconds: float, **options: object) -> contenders.Contender:
    judged = Judged(Made(Candidate(target), None, 1), 120.0, None, 0.0)  # type: ignore[arg-type]  # no file is read
    return contenders.Contender(judged, 1, seconds, options=options)


def test_settings_race_beside_the_defaults_and_are_shown_where_they_gain() -> None:
    # A heat's default was unlucky: the setting runs against it all the same.
    heat = [contender("a", 1.0, calm=True), contender("b", 1.5), contender("a", 1.9)]
    assert [(one.candidate.target, one.options) for one in contenders.choose_close(heat)] == [
        *(("a", {}), ("a", {"calm": True}), ("b", {})),
    ]
    assert contenders.first_of_each(heat)[Candidate("a")].options == {"calm": True}
    near = [contender("a", 1.0, calm=True), contender("a", 1.02)]
    assert contenders.first_of_each(near)[Candidate("a")].options == {}


def test_eight_that_are_close_leave_no_combination_out() -> None:
    heat = [contender("a", 1.0 + n / 100) for n in range(9)] + [contender("b", 1.5), contender("c", 1.7)]
    close = contenders.choose_close(heat)
    assert len(close) == contenders.MOST_AT_ONCE and [one.candidate.target for one in close[:2]] == ["a", "b"]
    assert all(one.candidate.target != "c" for one in close)


def test_who_was_timed_on_a_quicker_machine_than_the_winner_is_called_back() -> None:
    # The heat put b and c out of reach of a; since then the machine has become five times slower.
    beaten = (contender("b", 3.0), contender("c", 7.0), contender("a", 4.0, calm=True), contender("b", 2.9, calm=True))
    back = racing._find_recalled(contenders.Standing((contender("a", 5.0),), beaten))
    assert [(one.candidate.target, one.seconds, one.options) for one in back] == [("b", 2.9, {"calm": True})]
    assert racing._find_recalled(contenders.Standing((contender("a", 1.0),), beaten)) == []
    ran = RatioEstimate(1.6, (1.5, 1.7))
    assert racing._find_recalled(contenders.Standing((contender("a", 5.0),), (replace(beaten[0], ratio=ran),))) == []


def test_a_busy_machine_puts_fewer_out_of_reach() -> None:
    timed = (contender("a", 1.0), contender("b", 2.5), contender("c", 3.5))
    quiet, busy = contenders.Heat(timed), contenders.Heat(timed, busy=True)
    assert [one.candidate.target for one in contenders.choose_close(timed, quiet.margin)] == ["a"]
    assert [one.candidate.target for one in contenders.choose_close(timed, busy.margin)] == ["a", "b"]


@needs_compiler
def test_the_best_for_a_device_is_timed_there_and_tunes_nothing_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = PickSettings(
        ExportSettings((), output=tmp_path / "best"),
        ("xnnpack", "reference"),
        recipes=("none", "int8-dynamic"),
        threads=(1,),
    )
    source = wrap_model(network(), (X,), {}, None, "net")
    monkeypatch.setattr(contenders, "HEAT_MARGIN", 1e9)  # whoever is slower on this machine, both run in turns
    with open_executor("local-native") as device:
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
    assert read_tuning(open_artifact(found.path).digest) is None


def test_a_budget_that_nothing_meets_is_an_error_that_names_all(tmp_path: Path) -> None:
    with pytest.raises(VerificationError, match="nothing is left to pick from") as caught:
        edgex.pick(
            network(), (X,), output=tmp_path / "best", targets=("onnx-cpu",), threads=(1,),
            evaluate=lambda run: float(-np.abs(run(X.numpy())[0]).sum()), max_drop=0.0, min_sqnr_db=400.0,
        )  # fmt: skip
    assert caught.value.why is not None and "onnx-cpu, over budget" in caught.value.why
    assert not list(tmp_path.iterdir())


def test_an_interrupt_keeps_what_is_known_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = wrap_model(network(), (X,), {}, None, "net")

    def interrupt(stage: str, _detail: str) -> None:
        if stage == "semifinal":
            raise KeyboardInterrupt

    settings = PickSettings(
        ExportSettings((), output=tmp_path / "best"), ("xnnpack", "onnx-cpu"), threads=(1,), max_seconds=1.0
    )
    monkeypatch.setattr(contenders, "HEAT_MARGIN", 1e9)  # whoever is slower on this machine, both go on
    monkeypatch.setattr(OnnxRuntimeEngine, "settings_worth_timing", lambda _self, _threads: ())
    found = run_pick(lambda: source, settings, name="net", progress=interrupt)
    assert found.interrupted and found.path is None and found.winner is None
    assert {row.verdict for row in found.rows} == {"not timed"} and all(row.timed is not None for row in found.rows)
    assert not list(tmp_path.iterdir())
