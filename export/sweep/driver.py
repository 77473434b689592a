"""The whole of a sweep on one screen.

```
plan -> jobs -> those without a row that counts -> exports -> measurements -> a row each
```

A row is written down the moment it is known; a sweep that is ended in any way goes on from there.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from edgex._version import __version__
from edgex.export.pick.candidates import Candidate, Loser
from edgex.export.sweep.placing import NOWHERE, check_place, is_there, is_url
from edgex.export.sweep.plan import Job, Jobs, SweepPlan, list_jobs, locate
from edgex.export.sweep.task import Ended, Ending, ExportTask, MeasureTask, Subject, Task, TaskExecutor
from edgex.runtime.measure.results.folder import ARTIFACTS, ResultsFolder
from edgex.runtime.measure.results.row import Failure, Origin, Row, Status, read_made, read_timing
from edgex.runtime.support.disk.scratch import scratch_folder

# What decides an artifact and its speed, of these the versions that are installed.
_PACKAGES = ("torch", "executorch", "torchao", "onnx", "onnxscript", "onnxruntime", "openvino", "numpy")

# Of a task that did not come to an answer; any other one crashed.
_STATUS: Mapping[Ending, Status] = {"timeout": "timeout", "memory": "memory"}


@dataclass(frozen=True)
class Standing:
    """How far a sweep is.

    Attributes:
        jobs: All of them.
        done: With a row that counts, failed ones among them.
        failed: Without an artifact, or without the measurement that was asked for.
        running: Tasks at this moment.
        latest: What happened last, for people.
    """

    jobs: int
    done: int
    failed: int
    running: int = 0
    latest: str = ""


@dataclass(frozen=True)
class Sweep:
    """How a sweep ended.

    Attributes:
        jobs: How many there are.
        rows: Those that are known, in the order of the plan.
        again: How many tasks were begun again after their process had died.
        interrupted: Whether it was ended before its time.
    """

    jobs: int
    rows: tuple[Row, ...]
    again: int = 0
    interrupted: bool = False

    @property
    def done(self) -> int:
        """Rows that are complete."""
        return sum(row.complete for row in self.rows)

    @property
    def failed(self) -> int:
        """Complete rows without an artifact, or without the measurement that was asked for."""
        return sum(row.complete and not row.ok for row in self.rows)

    def to_json(self) -> dict[str, Any]:
        """The `edgex.sweep/2` document."""
        return {
            "schema": "edgex.sweep/2",
            "jobs": self.jobs,
            "done": self.done,
            "failed": self.failed,
            "again": self.again,
            "interrupted": self.interrupted,
            "rows": [row.to_json() for row in self.rows],
        }


def run_sweep(
    plan: SweepPlan,
    folder: Path,
    start: Callable[[SweepPlan], TaskExecutor],
    *,
    force: bool = False,
    extend: bool = False,
    failed_again: bool = False,
    progress: Callable[[Standing], object] = lambda _standing: None,
) -> Sweep:
    """Run what has no row yet.

    Args:
        plan: What is asked.
        folder: Receives the results.
        start: Makes the executor, when there is something to do.
        force: Begin anew where the folder has results already.
        extend: Add to the results of another plan, of which only lists differ.
        failed_again: Run jobs again whose rows say that they failed.
        progress: Told whenever something has ended.

    Raises:
        UsageError: Something is wrong with the plan or the folder.
        TargetUnavailable: A package is missing.
        RunError: The disk refuses; what was known stays.
    """
    jobs = list_jobs(plan)
    if plan.artifacts not in (None, NOWHERE):
        check_place(str(plan.artifacts))
    with ResultsFolder(folder, plan.asked(), force=force, extend=extend) as results:
        return _Driver(plan, jobs, results).run(start, failed_again, progress)


class _Driver:
    """A sweep on its way."""

    def __init__(self, plan: SweepPlan, jobs: Jobs, results: ResultsFolder) -> None:
        self._plan = plan
        self._jobs = jobs
        self._results = results
        self._all = (*jobs.possible, *(job for job, _ in jobs.refused))
        self._by_id = {job.id: job for job in self._all}
        self._by_export: dict[tuple[str, Candidate], list[Job]] = {}
        for job in self._all:
            self._by_export.setdefault((job.model.name, job.candidate), []).append(job)
        self._versions = _read_versions()
        self._hashes = {model.name: _hash_model(model.spec, plan.folder) for model in plan.models}
        self._fingerprints = {model: self._fingerprint(model) for model in self._hashes}
        self._done: dict[str, bool] = {}  # whether a complete row of this plan succeeded, by job
        self._failed = 0
        self._open = 0
        self._again = 0
        self._place = ""
        self._exporting: Counter[str] = Counter()  # exports that have not ended, by model
        self._waiting: dict[tuple[str, str], list[Row]] = {}  # for their turns, by model and device

    def run(
        self,
        start: Callable[[SweepPlan], TaskExecutor],
        failed_again: bool,
        progress: Callable[[Standing], object],
    ) -> Sweep:
        known = [row for job in self._all if (row := self._counts(job, failed_again)) is not None and row.complete]
        self._done, self._failed = {row.job: row.ok for row in known}, sum(not row.ok for row in known)
        for job, loser in self._jobs.refused:
            if not self._counts(job, failed_again):
                self._append(self._refused(job, loser))
        exports, measurements = self._list_todo(failed_again)
        for job_id in (*(job.id for jobs in exports for job in jobs), *(row.job for row in measurements)):
            self._done.pop(job_id, None)  # to be measured again
        if not exports and not measurements:
            return self._sweep()
        progress(self._standing(0, ""))
        interrupted = False
        with scratch_folder("artifacts") as scratch:
            # Artifacts that are not kept have to lie somewhere until they are measured.
            kept = self._plan.artifacts or str(self._results.path / ARTIFACTS)
            if kept != NOWHERE and not is_url(kept):
                kept = str(Path(kept).resolve())  # whoever exports has another folder for its own
            measured_only = kept == NOWHERE and self._plan.measure
            self._place = str(scratch) if measured_only else kept
            executor = start(self._plan)
            try:
                for jobs in exports:
                    self._submit(executor, self._export(jobs))
                for row in measurements:
                    self._to_measure(executor, row)
                self._begin_turns(executor)
                while self._open:
                    ended = executor.next()
                    self._open -= 1
                    latest = self._take(executor, ended)
                    executor.begin()
                    progress(self._standing(executor.running, latest))
            except KeyboardInterrupt:
                interrupted = True
                self._results.leave()
            finally:
                executor.close()
        return replace(self._sweep(), interrupted=interrupted)

    def _counts(self, job: Job, failed_again: bool) -> Row | None:
        """The row of a job where nothing has to be done for it, or its export need not be done again."""
        row = self._results.rows.get(job.id)
        if row is None or row.origin.fingerprint != self._fingerprints[job.model.name]:
            return None
        if not (failed_again and row.complete and not row.ok):
            return row
        # Where the measurement failed, the artifact is as good as it was.
        return replace(row, complete=False) if row.failure is not None and row.failure.stage == "measure" else None

    def _list_todo(self, failed_again: bool) -> tuple[list[list[Job]], list[Row]]:
        """Jobs by export, one of each model in turn; and rows whose artifacts are only to be measured."""
        exports: dict[tuple[str, str], list[Job]] = {}
        measurements = []
        rows = {job.id: self._counts(job, failed_again) for job in self._jobs.possible}
        # Figures of one model are of the same turns: where one is missing, the others are measured again beside it.
        anew = {
            (job.model.name, job.device)
            for job in self._jobs.possible
            if self._plan.turns and ((row := rows[job.id]) is None or not row.complete)
        }
        for job in self._jobs.possible:
            row = rows[job.id]
            to_measure = row is not None and (not row.complete or (row.ok and (job.model.name, job.device) in anew))
            if row is None or (to_measure and not self._is_there(row)):
                exports.setdefault((job.candidate.kind, job.model.name), []).append(job)
            elif to_measure:
                measurements.append(row)
        # What waits for its turns lies on the disk: a model's exports follow each other.
        order = {model.name: at for at, model in enumerate(self._plan.models)} if self._plan.turns else {}
        return sorted(exports.values(), key=lambda jobs: order.get(jobs[0].model.name, 0)), measurements

    def _is_there(self, row: Row) -> bool:
        place = self._absolute(row)
        return place is not None and is_there(place)

    def _export(self, jobs: Sequence[Job]) -> ExportTask:
        model = jobs[0].model
        candidates = tuple(dict.fromkeys(job.candidate for job in jobs))
        output = None if self._place == NOWHERE else f"{self._place}/{model.file_name}/{candidates[0].kind}"
        plan = self._plan
        folder = str(plan.folder.resolve())
        return ExportTask(model, candidates, plan.options, plan.calibration, folder, output, plan.limits, plan.preload)

    def _measure(self, rows: Sequence[Row]) -> MeasureTask:
        subjects = []
        for row in rows:
            place = self._absolute(row)
            assert place is not None
            subjects.append(Subject(row.job, place))
        first = self._by_id[rows[0].job]
        label = first.label if len(rows) == 1 else f"{first.model.name}: {', '.join(row.kind for row in rows)} in turns"
        plan = self._plan
        return MeasureTask(tuple(subjects), label, first.device, plan.runs, plan.threads, plan.limits)

    def _to_measure(self, executor: TaskExecutor, row: Row) -> None:
        """Measure an artifact now, or in turns with the others of its model."""
        if self._plan.turns:
            self._waiting.setdefault((row.model, row.device), []).append(row)
        else:
            self._submit(executor, self._measure([row]))

    def _begin_turns(self, executor: TaskExecutor) -> None:
        """Measure the artifacts of models of which no export is left."""
        for key in [key for key in self._waiting if not self._exporting[key[0]]]:
            self._submit(executor, self._measure(self._waiting.pop(key)))

    def _submit(self, executor: TaskExecutor, task: Task) -> None:
        executor.submit(task)
        self._open += 1
        if isinstance(task, ExportTask):
            self._exporting[task.model.name] += 1

    def _take(self, executor: TaskExecutor, ended: Ended) -> str:
        """Write down what a task found, and begin what follows from it."""
        if isinstance(ended.task, MeasureTask):
            return self._follow(executor, ended)
        try:
            return self._follow(executor, ended)
        finally:
            self._exporting[ended.task.model.name] -= 1
            self._begin_turns(executor)

    def _follow(self, executor: TaskExecutor, ended: Ended) -> str:
        task = ended.task
        dead = ended.ending in ("crashed", "lost")
        if dead and isinstance(task, ExportTask) and len(task.candidates) > 1:
            # One of them took the others with it: each alone.
            for candidate in task.candidates:
                self._submit(executor, replace(task, candidates=(candidate,)))
            return f"{task.label}: {ended.reason}; each target alone"
        if dead and task.attempt <= task.limits.retries:
            self._again += 1
            self._submit(executor, replace(task, attempt=task.attempt + 1))
            return f"{task.label}: {ended.reason}; attempt {task.attempt + 1} of {task.limits.retries + 1}"
        if isinstance(task, MeasureTask):
            return self._take_measurement(task, ended)
        return self._take_export(executor, task, ended)

    def _take_export(self, executor: TaskExecutor, task: ExportTask, ended: Ended) -> str:
        told = []
        for candidate in task.candidates:
            result = ended.answer.get(candidate.target)
            for job in self._by_export[task.model.name, candidate]:
                row = self._row(job, task.attempt, ended, result)
                self._append(row)
                if not row.complete:
                    self._to_measure(executor, row)
            told.append(f"{candidate.label} {row.status}")
        return f"{task.model.name}: {', '.join(told)}"

    def _row(self, job: Job, attempts: int, ended: Ended, result: Mapping[str, Any] | None) -> Row:
        row = self._begin_row(job, "crashed", attempts, ended.machine)
        if result is None:
            status = _STATUS.get(ended.ending, "crashed")
            failure = Failure(
                ended.stage or "start", ended.exit_code or 1, ended.reason or "it said nothing", why=ended.log or None
            )
            return replace(row, status=status, failure=failure)
        made = None if result["made"] is None else read_made(result["made"])
        if made is not None and made.artifact is not None:
            made = replace(made, artifact=self._relative(made.artifact))
        # What is made for other hardware cannot be measured here.
        to_measure = self._plan.measure and result["status"] == "verified" and made is not None
        if self._plan.artifacts == NOWHERE and made is not None and not to_measure:
            made = replace(made, artifact=None)
        return replace(
            row,
            status=result["status"],
            seconds=result["seconds"],
            peak_rss_bytes=result["peak_rss_bytes"],
            made=made,
            failure=None if result["failure"] is None else Failure(**result["failure"]),
            complete=not to_measure,
        )

    def _take_measurement(self, task: MeasureTask, ended: Ended) -> str:
        told = []
        for subject in task.subjects:
            row = self._results.rows[subject.job]
            found = ended.answer.get(subject.job, {})
            timing = read_timing(found["timing"]) if "timing" in found else None
            failure = None if timing is not None else _read_failure(found, ended)
            if self._plan.artifacts == NOWHERE and row.made is not None:
                row = replace(row, made=replace(row.made, artifact=None))
                if len(self._plan.devices) == 1:
                    shutil.rmtree(subject.artifact, ignore_errors=True)
            attempts = max(row.attempts, task.attempt)
            self._append(replace(row, timing=timing, failure=failure, complete=True, attempts=attempts))
            if failure is not None:
                told.append(f"{self._by_id[row.job].candidate.label} not measured: {failure.what}")
        return f"{task.label}: {', '.join(told) or 'measured'}"

    def _refused(self, job: Job, loser: Loser) -> Row:
        failure = Failure("check", 5, loser.reason, fix=loser.fix)
        return replace(self._begin_row(job, "refused", 0, ""), failure=failure)

    def _begin_row(self, job: Job, status: Status, attempts: int, machine: str) -> Row:
        """What a row says of its job, before anything is known of its end."""
        return Row(
            job=job.id,
            model=job.model.name,
            spec=job.model.spec,
            target=job.candidate.target,
            precision=job.candidate.precision,
            recipe=job.candidate.recipe,
            device=job.device,
            status=status,
            attempts=attempts,
            seconds={},
            peak_rss_bytes=None,
            origin=self._origin(job, machine),
        )

    def _origin(self, job: Job, machine: str) -> Origin:
        name = job.model.name
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return Origin(
            self._fingerprints[name], self._hashes[name], __version__, self._versions, self._plan.stamp, machine, now
        )

    def _fingerprint(self, name: str) -> str:
        plan = self._plan
        options = {key: str(value) for key, value in sorted(plan.options.items())}
        parts = [self._hashes[name], __version__, self._versions, plan.stamp, options, plan.calibration]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]

    def _relative(self, place: str) -> str:
        """A path below the results' folder as from there, so that the folder may be moved."""
        root = self._results.path.resolve()
        if is_url(place) or not Path(place).is_relative_to(root):
            return place
        return Path(place).relative_to(root).as_posix()

    def _absolute(self, row: Row) -> str | None:
        place = None if row.made is None else row.made.artifact
        return place if place is None or is_url(place) else str((self._results.path / place).resolve())

    def _append(self, row: Row) -> None:
        self._results.append(row)
        if row.complete:
            self._failed += (not row.ok) - (not self._done.get(row.job, True))
            self._done[row.job] = row.ok

    def _standing(self, running: int, latest: str) -> Standing:
        return Standing(len(self._all), len(self._done), self._failed, running, latest)

    def _sweep(self) -> Sweep:
        rows = tuple(self._results.rows[job.id] for job in self._all if job.id in self._results.rows)
        return Sweep(len(self._all), rows, self._again)


def _read_failure(found: Mapping[str, Any], ended: Ended) -> Failure:
    """Why there is no measurement: what the artifact or the device raised, or how the process ended."""
    if "error" in found:
        return Failure(
            "measure", found["exit_code"], **{key: found["error"][key] for key in ("what", "where", "why", "fix")}
        )
    return Failure("measure", ended.exit_code or 1, ended.reason or "it said nothing", why=ended.log or None)


def _read_versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _hash_model(spec: str, folder: Path) -> str:
    """Of the model's file; empty for a module, whose files are not known."""
    located = Path(locate(spec, folder).rpartition(":")[0] if ":" in spec else locate(spec, folder))
    return hashlib.sha256(located.read_bytes()).hexdigest() if located.is_file() else ""
