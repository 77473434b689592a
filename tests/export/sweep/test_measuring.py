"""What a measuring process answers: one artifact alone, several in turns, and one that cannot run beside others."""

from __future__ import annotations

import pytest

from edgex.export.sweep import measuring
from edgex.export.sweep.plan import Limits
from edgex.export.sweep.task import MeasureTask, Subject
from edgex.runtime.artifact.artifact import open_artifact
from edgex.runtime.measure.results.row import read_timing


@pytest.fixture(autouse=True)
def briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "_SECONDS_EACH", 0.2)  # real times are never asserted
    monkeypatch.setattr(measuring, "_PROCESSES", 1)


def test_artifacts_in_turns_and_one_that_fails_in_its_turn(exported, own_copy) -> None:
    broken = own_copy("convnet", "xnnpack")
    open_artifact(broken)
    (broken / "model.pte").write_bytes(b"\0" * (broken / "model.pte").stat().st_size)
    places = {
        "good": str(exported("convnet", "onnx-cpu")),
        "broken": str(broken),
        "other": str(exported("convnet", "xnnpack")),
        "gone": "/nowhere/net.onnx-cpu.edgex",
    }
    task = MeasureTask(tuple(Subject(job, place) for job, place in places.items()), "net", "here", None, 1, Limits())
    found = measuring.answer(task.to_json(), lambda *_, **__: None)
    assert {job: sorted(entry) for job, entry in found.items()} == {
        "gone": ["error", "exit_code"], "broken": ["error", "exit_code"], "good": ["timing"], "other": ["timing"],
    }  # fmt: skip
    assert "no artifact" in found["gone"]["error"]["what"] and found["broken"]["exit_code"] in (6, 7, 10)
    good, other = (read_timing(found[job]["timing"]) for job in ("good", "other"))
    # In turns: as many sessions of one as of the other.
    assert len(good.round_medians_seconds) == len(other.round_medians_seconds) >= 12
    assert good.threads == other.threads == 1 and good.low_seconds is not None and good.first_seconds
    assert good.host == other.host
