"""What runs beside what on one machine, told by processes that are simulated; the order and the locks are real."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from edgex.export.pick.candidates import Candidate
from edgex.export.sweep import local
from edgex.export.sweep.local import LocalExecutor
from edgex.export.sweep.plan import Limits, PlannedModel
from edgex.export.sweep.task import Ended, ExportTask, MeasureTask, Subject
from edgex.runtime.measure.results.row import HERE

PHONE, BOARD = "adb:R5CT", "ssh:pi@board"


def export(name: str) -> ExportTask:
    return ExportTask(PlannedModel("net.py", name), (Candidate("reference"),), {}, None, "", None, Limits())


def measure(name: str, device: str) -> MeasureTask:
    return MeasureTask((Subject(name, f"/{name}"),), f"{name} on {device}", device, None, None, Limits())


class Child:
    """A process that nobody started."""

    def kill(self) -> None:
        """There is nothing to end."""


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """What was busy whenever something was: sets of devices, `here` and `exports`."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(local, "start_exporter", Child)
    monkeypatch.setattr(local, "start_measurer", Child)
    busy: list[str] = []
    seen: list[list[str]] = []
    lock = threading.Lock()

    def ask(_child, task) -> Ended:
        holds = "exports" if isinstance(task, ExportTask) else task.device
        with lock:
            busy.append(holds)
            seen.append(sorted(busy))
        threading.Event().wait(0.02)
        with lock:
            busy.remove(holds)
        return Ended(task, "done", {})

    monkeypatch.setattr(local, "ask", ask)
    return seen


def test_devices_are_exclusive_and_a_measurement_here_has_the_machine(seen: list[list[str]]) -> None:
    executor = LocalExecutor(2)
    tasks = [export(f"m{number}") for number in range(6)]
    tasks += [measure(f"m{number}", device) for number in range(6) for device in (HERE, PHONE, BOARD)]
    for task in tasks:
        executor.submit(task)
    done = [executor.next().task for _ in tasks]
    assert len(done) == len(tasks) and executor.running == 0
    assert all(at.count(one) <= 1 for at in seen for one in (HERE, PHONE, BOARD))
    assert all(at.count("exports") <= 2 for at in seen) and any(at.count("exports") == 2 for at in seen)
    assert not any(HERE in at and "exports" in at for at in seen)
    assert any(PHONE in at and BOARD in at for at in seen) and any(PHONE in at and len(at) > 1 for at in seen)


def test_two_sweeps_of_a_user_do_not_measure_each_other(seen: list[list[str]]) -> None:
    executors = LocalExecutor(1), LocalExecutor(1)
    for executor in executors:
        for number in range(3):
            executor.submit(measure(f"m{number}", HERE))
            executor.submit(measure(f"m{number}", PHONE))
        executor.submit(export("m"))
        executor.begin()
    for executor in executors:
        for _ in range(7):
            executor.next()
    assert all(at.count(one) <= 1 for at in seen for one in (HERE, PHONE))
    assert not any(HERE in at and "exports" in at for at in seen)
