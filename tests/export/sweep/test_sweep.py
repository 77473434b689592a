"""Real sweeps of tiny models: crashes, limits and models that do not import are rows; what is known stays."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sweep_support import GOOD, write_models

from edgex.export.pick.candidates import Candidate
from edgex.export.sweep.driver import Standing, Sweep, run_sweep
from edgex.export.sweep.local import LocalExecutor
from edgex.export.sweep.plan import GIB, Limits, SweepPlan, name_models
from edgex.export.sweep.task import ExportTask
from edgex.runtime.artifact.artifact import open_artifact
from edgex.runtime.measure.results.folder import read_rows

pytestmark = [pytest.mark.long_file]
pytest.importorskip("pyarrow", reason="needs pyarrow")

LIMITS = Limits(seconds=300.0, memory_bytes=16 * GIB, retries=1)


class Shared(LocalExecutor):
    """One exporter for all tests: it imports torch once."""

    def close(self) -> None:
        """Kept for the next test, without what an interrupted sweep had not finished; `end` ends it."""
        self._exports.clear()
        while self.running:
            self.next()

    def end(self) -> None:
        super().close()


@pytest.fixture(scope="module")
def executor() -> Iterator[Shared]:
    shared = Shared(1)
    yield shared
    shared.end()


@pytest.fixture
def models(tmp_path: Path) -> Path:
    write_models(tmp_path)
    return tmp_path


def export_one(executor: Shared, folder: Path, name: str, limits: Limits):
    """The ending of one export."""
    (model,) = name_models([f"{name}.py"])
    task = ExportTask(model, (Candidate("reference"),), {}, None, str(folder), str(folder / "out"), limits)
    executor.submit(task)
    return executor.next()


def test_limits_end_an_export_and_the_next_one_works(executor: Shared, models: Path) -> None:
    ended = export_one(executor, models, "hangs", replace(LIMITS, seconds=2.0))
    assert (ended.ending, ended.exit_code) == ("timeout", 124) and "stopped after 2 s" in ended.reason
    assert "about to hang" in ended.log
    ended = export_one(executor, models, "eats", replace(LIMITS, memory_bytes=2 * GIB))
    assert (ended.ending, ended.exit_code) == ("memory", 137) and "stopped at 2 GiB" in ended.reason
    ended = export_one(executor, models, "dies", LIMITS)
    assert (ended.ending, ended.exit_code) == ("crashed", 128 + signal.SIGSEGV) and "SIGSEGV" in ended.reason
    assert executor.running == 0


def test_failures_are_rows_and_what_is_known_is_not_run_again(executor: Shared, models: Path) -> None:
    plan = SweepPlan(
        name_models(["good.py", "broken.py", "dies.py"]), ("onnx-cpu",), ("fp32", "bf16"),
        measure=False, folder=models, limits=LIMITS,
    )  # fmt: skip
    told: list[Standing] = []
    found = run_sweep(plan, models / "results", lambda _plan: executor, progress=told.append)
    rows = {(row.model, row.precision): row for row in found.rows}
    good, broken, dies = (rows[name, "fp32"] for name in ("good", "broken", "dies"))
    assert good.ok and good.status == "verified" and good.made is not None and good.attempts == 1
    assert open_artifact(str(models / "results" / good.made.artifact)).digest == good.made.digest
    assert good.origin.versions["torch"] and len(good.origin.model_sha256) == 64 and good.seconds["capture"] > 0
    assert broken.status == "failed" and broken.failure is not None and broken.failure.exit_code in (2, 7)
    assert "no_such_package_anywhere" in f"{broken.failure.what} {broken.failure.why}"
    assert dies.status == "crashed" and dies.attempts == 2 and dies.failure is not None
    assert "SIGSEGV" in dies.failure.what and dies.failure.exit_code == 139
    # `onnx-cpu` takes no bf16: said before anything begins.
    assert all(rows[name, "bf16"].status == "refused" for name in ("good", "broken", "dies"))
    assert (found.jobs, found.done, found.failed, found.again) == (6, 6, 5, 1)
    assert told[-1].done == 6 and told[-1].failed == 5
    document = found.to_json()
    assert document["schema"] == "edgex.sweep/2" and len(document["rows"]) == 6

    def must_not_start(_plan: SweepPlan):
        raise AssertionError("everything is known")

    again = run_sweep(plan, models / "results", must_not_start)
    assert again.rows == found.rows == tuple(sorted(read_rows(models / "results"), key=found.rows.index))
    # Another model file makes its row stale; the others stay.
    (models / "broken.py").write_text("import another_missing_package\n")
    third = run_sweep(plan, models / "results", lambda _plan: executor)
    changed = [row.model for row, other in zip(third.rows, found.rows, strict=True) if row != other]
    assert "broken" in changed and "good" not in changed and "dies" not in changed


def test_an_interrupt_keeps_what_is_known(executor: Shared, models: Path) -> None:
    def interrupt(standing: Standing) -> None:
        if standing.done == 1:
            raise KeyboardInterrupt

    plan = SweepPlan(name_models(["broken.py", "dies.py"]), ("reference",), measure=False, folder=models, limits=LIMITS)
    found = run_sweep(plan, models / "results", lambda _plan: executor, progress=interrupt)
    assert found.interrupted and found.done == 1 and len(read_rows(models / "results")) == 1
    rest = run_sweep(plan, models / "results", lambda _plan: executor)
    assert rest.done == 2 and not rest.interrupted and rest.rows[0] == found.rows[0]


@pytest.mark.slow
def test_ctrl_c_ends_at_once_with_130_and_the_journal_has_what_was_known(models: Path) -> None:
    command = [sys.executable, "-m", "edgex", "sweep", "broken.py", "hangs.py", "-t", "reference", "-o", "out"]
    process = subprocess.Popen([*command, "--workers", "1", "--json", "-q"], cwd=models, stdout=subprocess.PIPE)
    journal = models / "out" / "journal.jsonl"
    while not (journal.exists() and journal.read_text().strip()):
        assert process.poll() is None
        time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    stdout, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    document = json.loads(stdout)
    assert document["interrupted"] and [row["model"] for row in document["rows"]] == ["broken"]
    assert [row.model for row in read_rows(models / "out")] == ["broken"]


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_two_hundred_jobs_with_workers_killed_in_the_middle(tmp_path: Path) -> None:
    count = int(os.environ.get("EDGEX_SWEEP_MODELS", "100"))
    names = [f"net{number:03}.py" for number in range(count)]
    for number, name in enumerate(names):
        (tmp_path / name).write_text(GOOD.format(seed=number, width=8 + number))
    plan = SweepPlan(name_models(names), ("reference", "onnx-cpu"), measure=False, folder=tmp_path, limits=LIMITS)
    whole = run_sweep(plan, tmp_path / "whole", lambda _plan: LocalExecutor(2))
    assert (whole.jobs, whole.done, whole.failed, whole.again) == (2 * count, 2 * count, 0, 0)
    killing = Killing((count // 5, 3 * count // 5))
    killed = run_sweep(plan, tmp_path / "killed", lambda _plan: killing)
    assert killing.killed == 2 and killed.done == 2 * count and killed.failed == 0
    assert facts(killed) == facts(whole)


class Killing(LocalExecutor):
    """An exporter is killed after so many tasks have ended, with what it has under way."""

    def __init__(self, after: tuple[int, ...]) -> None:
        super().__init__(2)
        self.ends = self.killed = 0
        self._after = after

    def next(self):
        ended = super().next()
        self.ends += 1
        if self.ends in self._after:
            victim = next(child for child in self._children if child not in self._idle)
            os.kill(victim._process.pid, signal.SIGKILL)
            self.killed += 1
        return ended


def facts(sweep: Sweep):
    """What two runs of a plan must have in common."""
    return [
        (row.job, row.status, row.made.delegated_ops, row.made.total_ops, row.made.max_abs_error)
        for row in sweep.rows
        if row.made is not None
    ]
