"""What a sweep does with endings, told by a simulated executor: retries, parts of the dataset, measurements, order."""

from __future__ import annotations

from collections import deque
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from sweep_support import make_row

from edgex.export.sweep.driver import run_sweep
from edgex.export.sweep.plan import Limits, PlannedModel, SweepPlan
from edgex.export.sweep.task import Ended, ExportTask, MeasureTask
from edgex.runtime.measure.results.folder import ROWS, read_rows

pytest.importorskip("pyarrow", reason="needs pyarrow")
_LIKE = make_row("like")


class Simulated:
    """Ends every task at once, exports well, and kills those that it is told to."""

    running = 0

    def __init__(self, killed=lambda _task: False) -> None:
        self.tasks: deque = deque()
        self.seen: list = []
        self._killed = killed

    def submit(self, task) -> None:
        self.tasks.append(task)

    def begin(self) -> None:
        """Nothing takes time here."""

    def next(self) -> Ended:
        task = self.tasks.popleft()
        self.seen.append(task)
        if self._killed(task):
            return Ended(task, "lost", {}, "box", "the process that exports ended: killed by SIGKILL", exit_code=1)
        if isinstance(task, MeasureTask):
            return Ended(task, "done", {"timing": asdict(_LIKE.timing)}, "box")
        made = {**asdict(_LIKE.made), "artifact": f"{task.output}/model.edgex"}
        result = {"status": "verified", "seconds": {"lower": 1.0}, "peak_rss_bytes": 1, "made": made, "failure": None}
        return Ended(task, "done", {one.target: result for one in task.candidates}, "box")

    def close(self) -> None:
        self.tasks.clear()


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
