"""What a sweep does with endings, told by a simulated executor: retries, parts of the dataset, measurements, order."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from sweep_support import Simulated, make_row

from edgex.export.sweep.driver import run_sweep
from edgex.export.sweep.plan import Limits, PlannedModel, SweepPlan
from edgex.export.sweep.task import Ended, ExportTask, MeasureTask
from edgex.runtime.measure.results.folder import ROWS, read_rows

pytest.importorskip("pyarrow", reason="needs pyarrow")
_LIKE = make_row("like")


def make_plan(folder: Path, count: int, **changes) -> SweepPlan:
    (folder / "net.py").write_text("")
    models = tuple(PlannedModel("net.py", f"m{number}") for number in range(count))
    return replace(SweepPlan(models, ("reference",), folder=folder, measure=False), **changes)


def test_three_hundred_jobs_are_two_parts_of_a_dataset(tmp_path: Path) -> None:
    told = []
    plan = make_plan(tmp_path, 300)
    found = run_sweep(plan, tmp_path / "out", lambda _plan: Simulated(), progress=told.append)
    assert (found.jobs, found.done, found.failed) == (300, 300, 0)
    assert [standing.done for standing in told] == list(range(301))
    assert len(list((tmp_path / "out" / ROWS).iterdir())) == 2 and len(read_rows(tmp_path / "out")) == 300


def test_a_group_whose_process_dies_is_tried_target_by_target_and_retries_are_bounded(tmp_path: Path) -> None:
    def killed(task) -> bool:
        return isinstance(task, ExportTask) and any(one.target == "onnx-cpu" for one in task.candidates)

    executor = Simulated(killed)
    plan = make_plan(tmp_path, 1, targets=("reference", "onnx-cpu"), limits=Limits(retries=2))
    found = run_sweep(plan, tmp_path / "out", lambda _plan: executor)
    assert [[one.target for one in task.candidates] for task in executor.seen] == [
        ["reference", "onnx-cpu"], ["reference"], ["onnx-cpu"], ["onnx-cpu"], ["onnx-cpu"],
    ]  # fmt: skip
    rows = {row.target: row for row in found.rows}
    assert rows["reference"].ok and rows["onnx-cpu"].status == "crashed" and rows["onnx-cpu"].attempts == 3
    assert found.again == 2 and "SIGKILL" in rows["onnx-cpu"].failure.what


def test_every_device_gets_a_measurement_of_one_export(tmp_path: Path) -> None:
    executor = Simulated()
    plan = make_plan(tmp_path, 2, measure=True, devices=("here", "ssh:pi@box"))
    found = run_sweep(plan, tmp_path / "out", lambda _plan: executor)
    assert sum(isinstance(task, ExportTask) for task in executor.seen) == 2
    measured = [(task.label, task.device) for task in executor.seen if isinstance(task, MeasureTask)]
    assert ("m1: reference on ssh:pi@box", "ssh:pi@box") in measured and len(measured) == 4
    assert found.done == 4 and all(row.timing == _LIKE.timing for row in found.rows)


def test_an_artifact_that_was_to_be_measured_is_not_exported_again(tmp_path: Path) -> None:
    def interrupt(standing) -> None:
        if standing.latest.endswith("verified"):
            raise KeyboardInterrupt

    plan = make_plan(tmp_path, 1, measure=True)
    found = run_sweep(plan, tmp_path / "out", lambda _plan: Simulated(), progress=interrupt)
    assert found.interrupted and found.done == 0 and not found.rows[0].complete
    (tmp_path / "out" / found.rows[0].made.artifact).mkdir(parents=True)
    executor = Simulated()
    rest = run_sweep(plan, tmp_path / "out", lambda _plan: executor)
    assert (
        [type(task) for task in executor.seen] == [MeasureTask] and rest.done == 1 and rest.rows[0].timing is not None
    )
    again = Simulated()
    assert run_sweep(plan, tmp_path / "out", lambda _plan: again, failed_again=True).done == 1 and not again.seen


def test_the_artifacts_of_a_model_take_turns_when_the_last_of_its_exports_has_ended(tmp_path: Path) -> None:
    targets, devices = ("reference", "onnx-cpu"), ("here", "ssh:pi@box")
    plan = make_plan(tmp_path, 2, measure=True, turns=True, targets=targets, recipes=("none", "int8"), devices=devices)
    executor = Simulated(lambda task: isinstance(task, ExportTask) and task.attempt == 1)
    found = run_sweep(plan, tmp_path / "out", lambda _plan: executor)
    assert found.done == found.jobs and all(row.timing == _LIKE.timing for row in found.rows if row.status != "refused")
    kinds = [(type(task), getattr(task, "device", None), task.label) for task in executor.seen]
    measured = [entry for entry in kinds if entry[0] is MeasureTask]
    label = "{}: reference, onnx-cpu, reference int8, onnx-cpu int8 in turns"
    assert [entry[1:] for entry in measured] == [
        (device, label.format(model)) for model in ("m0", "m1") for device in devices
    ]
    # Exports were begun again, alone; the turns began after the last of them.
    last = max(at for at, entry in enumerate(kinds) if entry[0] is ExportTask and entry[2].startswith("m0"))
    assert kinds.index(measured[0]) > last


def test_one_that_is_missing_has_its_turns_with_all_others(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, 2, measure=True, turns=True)
    first = run_sweep(plan, tmp_path / "out", lambda _plan: Simulated())
    for row in first.rows:
        (tmp_path / "out" / row.made.artifact).mkdir(parents=True, exist_ok=True)
    # Another target for both models, and one artifact that somebody removed.
    (tmp_path / "out" / first.rows[1].made.artifact).rmdir()
    executor = Simulated()
    more = replace(plan, targets=("reference", "onnx-cpu"))
    found = run_sweep(more, tmp_path / "out", lambda _plan: executor, extend=True)
    exported = {task.label for task in executor.seen if isinstance(task, ExportTask)}
    assert exported == {"m0: onnx-cpu", "m1: reference, onnx-cpu"} and found.done == 4
    measured = [task for task in executor.seen if isinstance(task, MeasureTask)]
    assert [{one.job for one in task.subjects} for task in measured] == [
        {row.job for row in found.rows if row.model == model} for model in ("m0", "m1")
    ]


def test_one_that_cannot_be_measured_fails_alone(tmp_path: Path) -> None:
    class Failing(Simulated):
        def next(self) -> Ended:
            ended = super().next()
            if not isinstance(ended.task, MeasureTask):
                return ended
            error = {"class": "RunError", "what": "it stopped", "where": None, "why": "so", "fix": None}
            first = ended.task.subjects[0].job
            return replace(ended, answer={**ended.answer, first: {"error": error, "exit_code": 6}})

    plan = make_plan(tmp_path, 1, measure=True, turns=True, targets=("reference", "onnx-cpu"))
    found = run_sweep(plan, tmp_path / "out", lambda _plan: Failing())
    rows = {row.target: row for row in found.rows}
    assert rows["onnx-cpu"].ok and rows["onnx-cpu"].timing is not None and found.failed == 1
    failure = rows["reference"].failure
    assert (failure.stage, failure.exit_code, failure.what) == ("measure", 6, "it stopped")
    assert rows["reference"].timing is None
    # Again, what failed: it is there, and is measured alone, as its turns need with the other one.
    for row in found.rows:
        (tmp_path / "out" / row.made.artifact).mkdir(parents=True, exist_ok=True)
    executor = Simulated()
    again = run_sweep(plan, tmp_path / "out", lambda _plan: executor, failed_again=True)
    assert [len(task.subjects) for task in executor.seen] == [2] and (again.done, again.failed) == (2, 0)


def test_a_relative_place_for_artifacts_is_where_the_sweep_was_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # not where the models lie
    (tmp_path / "models").mkdir()
    executor = Simulated()
    plan = make_plan(tmp_path / "models", 1, measure=True, artifacts="kept")
    found = run_sweep(plan, tmp_path / "out", lambda _plan: executor)
    place = str(tmp_path / "kept" / "m0" / "fp32")
    exported, measured = executor.seen
    assert exported.output == place and measured.subjects[0].artifact == f"{place}/model.edgex" and found.failed == 0
