"""What a sweep is asked, checked before any slow step, and the jobs that it comes to."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from edgex.errors import UsageError, nearest_name
from edgex.export.pick.candidates import FLOAT, Candidate, Loser, check_candidates, list_candidates, settings_for
from edgex.export.settings import ExportSettings
from edgex.export.source.naming import parse_model_name
from edgex.runtime.execute.address import parse_address
from edgex.runtime.measure.results.row import HERE
from edgex.runtime.support.arguments import MOST_THREADS

ExecutorName = Literal["local", "ray"]
EXECUTORS: tuple[ExecutorName, ...] = ("local", "ray")

GIB = 1024**3


@dataclass(frozen=True)
class PlannedModel:
    """One model of a plan.

    Attributes:
        spec: As `edgex export` takes it.
        name: Unique in the plan; names its rows and the folder of its artifacts.
        input_shapes: As `--input-shape` has them.
    """

    spec: str
    name: str
    input_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def file_name(self) -> str:
        """The name as that of a file: the artifacts' NAME."""
        return re.sub(r"[^\w.+-]+", "-", self.name).lstrip("-.") or "model"


@dataclass(frozen=True)
class Limits:
    """What one export may take, and how often it is begun again.

    Attributes:
        seconds: Of one export, of one measurement likewise.
        memory_bytes: Of one export with the processes that it starts.
        retries: Further attempts where a process died that was not ended for its time or memory.
    """

    seconds: float = 1800.0
    memory_bytes: int = 4 * GIB
    retries: int = 1


@dataclass(frozen=True)
class SweepPlan:
    """What is asked of a sweep.

    Attributes:
        models: Which.
        targets: Names of delegates; `all` is every registered one.
        precisions: Of the float artifacts.
        recipes: Names of recipes; `none` stands for the float artifacts.
        devices: Where artifacts are measured: `here`, or addresses as `--device` takes them.
        measure: Whether they are measured at all.
        turns: Whether all artifacts of one model are timed against each other on a device, in turns.
        runs: Samples of a measurement; None takes about three seconds' worth. Not with turns, which choose themselves.
        threads: Of every measured run; None is each engine's default.
        options: Of the delegates, as `--option` has them.
        calibration: As `--calibration` has it.
        preload: Modules that most models import: once, before the processes that export are forked.
        stamp: Text that is part of where a row comes from: where it changes, jobs run again.
        folder: The folder that models are relative to.
        artifacts: Where artifacts go: a folder, an fsspec URL, `none` to keep none; None is the results' folder.
        executor: Who runs the jobs.
        address: Of the Ray cluster; None is the one that Ray finds, or one on this machine.
        workers: Exports at a time; None is as many as cores and memory allow.
        limits: Of each.
    """

    models: tuple[PlannedModel, ...]
    targets: tuple[str, ...] = ("all",)
    precisions: tuple[str, ...] = ("fp32",)
    recipes: tuple[str, ...] = (FLOAT,)
    devices: tuple[str, ...] = (HERE,)
    measure: bool = True
    turns: bool = False
    runs: int | None = None
    threads: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    calibration: str | None = None
    preload: tuple[str, ...] = ()
    stamp: str = ""
    folder: Path = Path()
    artifacts: str | None = None
    executor: ExecutorName = "local"
    address: str | None = None
    workers: int | None = None
    limits: Limits = Limits()

    def asked(self) -> dict[str, Any]:
        """What decides the results, as JSON; how they are come by is not in it."""
        return {
            "models": [
                {
                    "spec": model.spec,
                    "name": model.name,
                    "input_shapes": {k: list(v) for k, v in model.input_shapes.items()},
                }
                for model in self.models
            ],
            "targets": list(self.targets),
            "precisions": list(self.precisions),
            "recipes": list(self.recipes),
            "devices": list(self.devices) if self.measure else [],
            "measure": self.measure,
            "runs": self.runs,
            "options": {key: str(value) for key, value in self.options.items()},
            "calibration": self.calibration,
            # Left out where nothing is asked: results of earlier versions know neither.
            **({"turns": True} if self.turns else {}),
            **({} if self.threads is None else {"threads": self.threads}),
        }


@dataclass(frozen=True)
class Job:
    """One row to be: a model in one combination.

    Attributes:
        model: Which model.
        candidate: Target, precision and recipe.
        device: Where it is measured; `here` where nothing is measured.
    """

    model: PlannedModel
    candidate: Candidate
    device: str

    @property
    def id(self) -> str:
        """Twelve digits; the same in every run of the plan."""
        key = [self.model.spec, self.model.name, self.candidate.to_json(), self.device]
        return hashlib.sha256(json.dumps(key).encode()).hexdigest()[:12]

    @property
    def label(self) -> str:
        """`net: xnnpack int8`, for people."""
        there = "" if self.device == HERE else f" on {self.device}"
        return f"{self.model.name}: {self.candidate.label}{there}"


@dataclass(frozen=True)
class Jobs:
    """The jobs of a plan.

    Attributes:
        possible: Those that are begun.
        refused: Those that are not, with the reason.
    """

    possible: tuple[Job, ...]
    refused: tuple[tuple[Job, Loser], ...]


def list_jobs(plan: SweepPlan) -> Jobs:
    """Check everything that needs no model, and list the jobs, one of each model in turn.

    Raises:
        UsageError: A name or a file is wrong, or nothing is left to do.
    """
    _check_plan(plan)
    candidates = list_candidates(plan.targets, plan.precisions, plan.recipes)
    # An artifact of that name in the current folder is none of the sweep's.
    common = ExportSettings((), force=True, options=plan.options, calibration=plan.calibration)
    possible, refused = check_candidates(candidates, common, "model")
    devices = plan.devices if plan.measure else (HERE,)

    def jobs_of(candidate: Candidate) -> list[Job]:
        return [Job(model, candidate, device) for model in plan.models for device in devices]

    return Jobs(
        tuple(job for candidate in possible for job in jobs_of(candidate)),
        tuple((job, loser) for loser in refused for job in jobs_of(loser.candidate)),
    )


def _check_plan(plan: SweepPlan) -> None:
    if not plan.models:
        raise UsageError("there is no model to sweep over", fix="edgex sweep models/*.py -t xnnpack -o results")
    for model in plan.models:
        parse_model_name(locate(model.spec, plan.folder))
    ((twice, count),) = Counter(model.name for model in plan.models).most_common(1)
    if count > 1:
        raise UsageError(
            f"two models are called {twice!r}", fix='give each a name: models = [{ model = "…", name = "…" }]'
        )
    if plan.executor not in EXECUTORS:
        raise UsageError(f"unknown executor {plan.executor!r}", why=nearest_name(plan.executor, EXECUTORS))
    for device in plan.devices:
        if device != HERE:
            parse_address(device)
    if len(set(plan.devices)) < len(plan.devices):
        raise UsageError(f"a device is given twice: {', '.join(plan.devices)}")
    for flag, least in (("workers", plan.workers), ("runs", plan.runs), ("threads", plan.threads)):
        if least is not None and least < 1:
            raise UsageError(f"--{flag} is 1 or more, not {least}")
    if plan.threads is not None and plan.threads > MOST_THREADS:
        raise UsageError(f"--threads is {MOST_THREADS} at most, not {plan.threads}")
    if plan.turns and plan.runs is not None:
        raise UsageError(
            "--runs and --turns exclude each other",
            why="what is timed in turns goes on until its intervals are narrow",
            fix="leave one of them out",
        )
    if not 0 < plan.limits.seconds < math.inf or plan.limits.memory_bytes <= 0 or plan.limits.retries < 0:
        raise UsageError("limits are more than 0, and retries 0 or more")


def locate(spec: str, folder: Path) -> str:
    """A model with its file's path from here; a module stays as it is."""
    head = spec.partition(":")[0]
    is_file = head.endswith((".py", ".pt2")) or (folder / head).exists()
    return str(folder / spec) if is_file else spec


def name_models(specs: Sequence[str]) -> tuple[PlannedModel, ...]:
    """Models by their NAME where that is unique, else by all that was given.

    Args:
        specs: As `edgex export` takes them.

    Raises:
        UsageError: One is given twice.
    """
    for spec, count in Counter(specs).items():
        if count > 1:
            raise UsageError(f"a model is given twice: {spec}")
    names = [_short_name(spec) for spec in specs]
    counts = Counter(names)
    return tuple(
        PlannedModel(spec, name if counts[name] == 1 else spec) for spec, name in zip(specs, names, strict=True)
    )


def _short_name(spec: str) -> str:
    head, separator, attribute = spec.rpartition(":")
    return attribute if separator else Path(head or attribute).stem


def settings_of_kind(
    candidates: Sequence[Candidate], options: Mapping[str, Any], calibration: str | None, folder: Path
) -> ExportSettings:
    """The settings of an export to candidates of one kind, into a folder."""
    common = ExportSettings((), output=folder, force=True, calibration=calibration, options=options)
    return settings_for(common, candidates)


def parse_bytes(text: str) -> int:
    """`4 GiB`, `500MB` or a number of bytes.

    Raises:
        UsageError: It has another form.
    """
    units = {"": 1, "b": 1, **{f"{p}b": 1000**n for n, p in enumerate("kmgt", 1)}}
    units |= {f"{p}ib": 1024**n for n, p in enumerate("kmgt", 1)}
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", text.strip())
    if found is None or found[2].lower() not in units:
        raise UsageError(f"{text!r} is no amount of memory", fix="for example 4 GiB")
    return int(float(found[1]) * units[found[2].lower()])
