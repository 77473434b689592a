"""What a profile found, as values and as the document `edgex.profile/2` (see docs/reference/profile-json.md).

All times are seconds. Unknown is None (null), never 0. Nothing in it names a path of the machine.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from functools import cache
from statistics import median
from typing import Any, TypeVar, get_type_hints

from edgex.runtime.artifact.shapes import DELEGATION
from edgex.runtime.engines.trace.operators import (
    ArenaSpan,
    Ceilings,
    MemoryStage,
    OperatorRow,
    SourceText,
    Trace,
    WeightRow,
)
from edgex.runtime.execute.here.memory_growth import MemoryGrowth
from edgex.runtime.execute.request import FreshRun
from edgex.runtime.measure.statistics import Rounds, Summary
from edgex.runtime.support.json.dataclass_shapes import shape_of
from edgex.runtime.support.json.shapes import Both, Integer, List, Number, Object, Optional, Shape
from edgex.runtime.support.machine.activity import Activity, MeasurementWarning
from edgex.runtime.support.machine.host import HostInfo

SCHEMA = "edgex.profile/2"

_T = TypeVar("_T")

# Indices of operators are places in lists.
_MAX_OPERATORS = 1_000_000
_SAMPLES_HERE = "<samples of edgex.profile/2>"


@dataclass(frozen=True)
class ProfiledArtifact:
    """Which artifact was measured.

    Attributes:
        name: Its name.
        target: What it was exported to.
        precision: For example `fp32`.
        digest: SHA-256 over its native files: equal digests run the same thing.
        bytes: Size of the whole artifact.
        engine: Who runs it.
        versions: Of the engine's packages, as installed here.
        recipe: What it is quantized to, for example `int8`; None for float artifacts.
        folder: Name of its folder, without those above it; None in reports of before it was noted.
        made_by: The version of edgex that wrote it; None where its manifest does not say.
        method: What was run of it, where it has several methods.
    """

    name: str
    target: str
    precision: str
    digest: str
    bytes: int
    engine: str
    versions: Mapping[str, str]
    recipe: str | None = None
    folder: str | None = None
    made_by: str | None = None
    method: str | None = None

    @property
    def numbers(self) -> str:
        """What it computes with, in a word: the recipe of a quantized artifact, the precision of others."""
        return self.recipe or self.precision


@dataclass(frozen=True)
class ProfileSettings:
    """How it was measured.

    Attributes:
        inputs: `golden` for the artifact's own example, `given` for the caller's.
        shapes: Shape of each input by name.
        steps: Runs between two resets of the state; 1 for a model without state.
        threads_requested: Threads asked for; None leaves it to the engine.
        options: Engine settings other than the defaults.
        warmup_requested: Warm-up runs asked for; None leaves it to the measurement.
        warmup_runs: Warm-up runs made.
        warmup_seconds: How long they took.
        warmup_settled: Whether two windows in a row agreed within 2 %; None when the number of runs was given.
        runs_requested: Samples asked for; None leaves it to the measurement.
        rounds: Rounds of samples.
        samples_per_round: Samples in each, fewer in the last if they do not divide evenly.
        calls_per_sample: Runs that share one sample, whose time is divided by them: more than 1 for very quick models.
        fresh_processes: Processes started for load, first run and memory.
        clock: Which clock.
        threads_source: Where the number of threads comes from: `given`, `tuned` (a pick or a sweep found it quickest
            here) or `default`; None in reports of before it was noted.
        tuned_options: Those of `options` that nobody gave: a pick found them quickest here.
    """

    inputs: str
    shapes: Mapping[str, tuple[int, ...]]
    steps: int
    threads_requested: int | None
    options: Mapping[str, Any]
    warmup_requested: int | None
    warmup_runs: int
    warmup_seconds: float
    warmup_settled: bool | None
    runs_requested: int | None
    rounds: int
    samples_per_round: int
    calls_per_sample: int
    fresh_processes: int
    clock: str = "time.perf_counter_ns"
    threads_source: str | None = None
    tuned_options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class LoadTimes:
    """Medians over the fresh processes, in seconds; the parts are those of `FreshRun`."""

    check: float | None
    engine_import: float | None
    program: float | None
    method: float
    first: float

    @classmethod
    def over(cls, fresh: Sequence[FreshRun]) -> LoadTimes:
        """The medians of one or more processes."""
        return cls(
            check=_median_of_known([run.check for run in fresh]),
            engine_import=_median_of_known([run.engine_import for run in fresh]),
            program=_median_of_known([run.program for run in fresh]),
            method=median(run.method for run in fresh),
            first=median(run.first for run in fresh),
        )


def _median_of_known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


@dataclass(frozen=True)
class MemoryUse:
    """Memory in bytes.

    Attributes:
        peak_rss_bytes: Median over the fresh processes of the largest resident set after load and first run.
        planned_arena_bytes: What the native file plans for activations.
        weights_bytes: Size of the native files, which are mostly weights.
        stages: How the resident set of a fresh process grows, stage by stage; medians over the processes.
        weights: The weights one by one, in the model's order; empty where the artifact does not list them.
        arena: What lies where in the planned arena, and for how long; empty where there is no plan.
        growth: Of the process that ran the model many times; None where nobody looked.
    """

    peak_rss_bytes: int | None
    planned_arena_bytes: int | None
    weights_bytes: int
    stages: tuple[MemoryStage, ...] = ()
    weights: tuple[WeightRow, ...] = ()
    arena: tuple[ArenaSpan, ...] = ()
    growth: MemoryGrowth | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> MemoryUse:
        """The inverse of `dataclasses.asdict`; reports of earlier versions have the first three figures only."""
        return cls(
            peak_rss_bytes=data["peak_rss_bytes"],
            planned_arena_bytes=data["planned_arena_bytes"],
            weights_bytes=data["weights_bytes"],
            stages=tuple(_known(MemoryStage, stage) for stage in data.get("stages", ())),
            weights=tuple(_known(WeightRow, {**row, "shape": tuple(row["shape"])}) for row in data.get("weights", ())),
            arena=tuple(_known(ArenaSpan, span) for span in data.get("arena", ())),
            growth=_known(MemoryGrowth, data["growth"]) if data.get("growth") is not None else None,
        )


@dataclass(frozen=True)
class ProfileReport:
    """One measurement of one artifact on one machine.

    Attributes:
        edgex_version: Who measured.
        artifact: What was measured.
        host: Where.
        settings: How.
        executed_on: Who ran it, as the engine reports it.
        threads: Threads in effect; None where the engine does not say.
        load_seconds: Load and first run.
        fresh: The fresh processes one by one.
        steady: Latency of a warm session, in seconds.
        rounds: Every sample in seconds per run, `[round][sample]`.
        throughput: Runs per second, from the mean.
        memory: Memory.
        activity: What else the machine did meanwhile.
        trace: The traced runs as a whole; None where operators were not traced, for which a warning gives the reason.
        ops: The operators of one traced run, in order of execution.
        ceilings: What the host can do at best; None where it was not measured.
        energy: `joules_per_run` and `source`, from runs that were not traced; None where the host has no meter.
        counters: `instructions_per_run`, `cycles_per_run` and `cache_misses_per_run`, each None where the processor
            does not count it; None where none is counted.
        sources: Text of the model's files around the lines that operators come from.
        complete: Whether all passes ended; False for a profile that was interrupted.
        warnings: Reasons to trust the figures less.
        assignment: How many nodes each provider of the engine ran; None where it does not tell.
        delegation: What the target took and left out, as in the manifest; None where that does not say.
        source: `host` for a measurement on the machine that reports it, `device` for one elsewhere.
        run_id: What the device was given and gave back; None for a host.
        device: What the device says of itself, and what sending took; None for a host.
        measured_at: When the measurement ended, in UTC: `2026-01-31T12:30:00Z`; None in reports of before it was noted.
    """

    edgex_version: str
    artifact: ProfiledArtifact
    host: HostInfo
    settings: ProfileSettings
    executed_on: str
    threads: int | None
    load_seconds: LoadTimes
    fresh: tuple[FreshRun, ...]
    steady: Summary
    rounds: Rounds
    throughput: float
    memory: MemoryUse
    activity: Activity
    trace: Trace | None = None
    ops: tuple[OperatorRow, ...] = ()
    ceilings: Ceilings | None = None
    energy: Mapping[str, Any] | None = None
    counters: Mapping[str, Any] | None = None
    sources: tuple[SourceText, ...] = ()
    complete: bool = True
    warnings: tuple[MeasurementWarning, ...] = ()
    assignment: Mapping[str, int] | None = None
    delegation: Mapping[str, Any] | None = None
    source: str = "host"
    run_id: str | None = None
    device: Mapping[str, Any] | None = None
    measured_at: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The document `edgex.profile/2`."""
        settings = asdict(self.settings)
        settings["shapes"] = {name: list(shape) for name, shape in self.settings.shapes.items()}
        interval = self.steady.median_ci95
        steady = {**asdict(self.steady), "median_ci95": None if interval is None else list(interval)}
        steady["raw_seconds"] = [sample for samples in self.rounds for sample in samples]
        steady["round_lengths"] = [len(samples) for samples in self.rounds]
        return {
            "schema": SCHEMA,
            "edgex_version": self.edgex_version,
            "measured_at": self.measured_at,
            "artifact": {**asdict(self.artifact), "versions": dict(self.artifact.versions)},
            "host": self.host.to_json(),
            "settings": settings,
            "executed_on": self.executed_on,
            "assignment": None if self.assignment is None else dict(self.assignment),
            "threads": self.threads,
            "load_seconds": asdict(self.load_seconds),
            "fresh": [asdict(run) for run in self.fresh],
            "steady": steady,
            "throughput": self.throughput,
            "memory": _in_json(self.memory),
            "activity": self.activity.to_json(),
            "trace": None if self.trace is None else asdict(self.trace),
            "ops": [_in_json(row) for row in self.ops],
            "ceilings": None if self.ceilings is None else _in_json(self.ceilings),
            "energy": None if self.energy is None else dict(self.energy),
            "counters": None if self.counters is None else dict(self.counters),
            "delegation": None if self.delegation is None else dict(self.delegation),
            "sources": [_in_json(text) for text in self.sources],
            "complete": self.complete,
            "warnings": [asdict(warning) for warning in self.warnings],
            "source": self.source,
            "run_id": self.run_id,
            "device": None if self.device is None else dict(self.device),
        }

    def dumps(self) -> str:
        """The text of a report file: indented, the samples on one line."""
        document = self.to_json()
        samples = json.dumps(document["steady"]["raw_seconds"])
        document["steady"]["raw_seconds"] = _SAMPLES_HERE
        text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
        return text.replace(f'"{_SAMPLES_HERE}"', samples) + "\n"

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ProfileReport:
        """The inverse of `to_json`.

        Raises:
            ValueError: The data is of another schema, or damaged.
        """
        if data.get("schema") != SCHEMA:
            raise ValueError(f"schema {data.get('schema')!r} instead of {SCHEMA!r}")
        _shape().check(data, "the profile")
        return _read(data)


@cache
def _shape() -> Shape:
    """What `to_json` writes; fields that earlier versions did not write may be missing."""
    steady = shape_of(Summary)
    known = {f.name: f.type for f in fields(ProfileReport)}
    hints = get_type_hints(ProfileReport)
    later = (
        "ceilings",
        "energy",
        "counters",
        "sources",
        "assignment",
        "delegation",
        "complete",
        "source",
        "run_id",
        "measured_at",
    )
    shapes = {name: shape_of(hints[name]) for name in known if name not in ("steady", "rounds", "fresh")}
    shapes["fresh"] = List(shape_of(FreshRun), least=1)
    shapes["delegation"] = Optional(DELEGATION)
    samples = Object({"raw_seconds": List(Number(0), least=1), "round_lengths": List(Integer(1), least=1)})
    positive = Object({name: Number(1e-12, 1e12) for name in ("min", "median", "mean")})
    interval = Object({"median_ci95": Optional(List(Number(1e-12, 1e12), least=2, most=2))})
    shapes["steady"] = Both((steady, samples, positive, interval))
    place = Object({"first_op": Integer(0, _MAX_OPERATORS), "last_op": Integer(0, _MAX_OPERATORS)})
    shapes["memory"] = Both((shapes["memory"], Object({}, {"arena": List(place)})))
    optional = {name: shapes.pop(name) for name in (*later, "device")}
    return Object(shapes, optional)


def _read(data: Mapping[str, Any]) -> ProfileReport:
    settings = dict(data["settings"])
    settings["shapes"] = {name: tuple(shape) for name, shape in settings["shapes"].items()}
    steady = dict(data["steady"])
    raw, lengths = steady.pop("raw_seconds"), steady.pop("round_lengths")
    if sum(lengths) != len(raw) or len(raw) != steady["n"]:
        raise ValueError(f"{len(raw)} samples, {sum(lengths)} in rounds, {steady['n']} counted")
    rounds, at = [], 0
    for length in lengths:
        rounds.append(tuple(raw[at : at + length]))
        at += length
    interval = steady["median_ci95"]
    steady["median_ci95"] = None if interval is None else tuple(interval)
    return ProfileReport(
        edgex_version=data["edgex_version"],
        artifact=_known(ProfiledArtifact, data["artifact"]),
        host=HostInfo.from_json(data["host"]),
        settings=_known(ProfileSettings, settings),
        executed_on=data["executed_on"],
        threads=data["threads"],
        load_seconds=_known(LoadTimes, data["load_seconds"]),
        fresh=tuple(_known(FreshRun, run) for run in data["fresh"]),
        steady=_known(Summary, steady),
        rounds=tuple(rounds),
        throughput=data["throughput"],
        memory=MemoryUse.from_json(data["memory"]),
        activity=Activity.from_json(data["activity"]),
        trace=None if data["trace"] is None else _known(Trace, data["trace"]),
        ops=tuple(OperatorRow.from_json(row) for row in data["ops"]),
        ceilings=None if data.get("ceilings") is None else _known(Ceilings, data["ceilings"]),
        energy=data.get("energy"),
        counters=data.get("counters"),
        sources=tuple(
            SourceText(text["file"], text["first_line"], tuple(text["lines"])) for text in data.get("sources", ())
        ),
        assignment=data.get("assignment"),
        delegation=data.get("delegation"),
        complete=data.get("complete", True),
        warnings=tuple(_known(MeasurementWarning, warning) for warning in data["warnings"]),
        source=data.get("source", "host"),
        run_id=data.get("run_id"),
        device=data.get("device"),
        measured_at=data.get("measured_at"),
    )


def _in_json(value: Any) -> Any:
    """A value of dataclasses, mappings and tuples as JSON has it: what is written reads back equal."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _in_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {name: _in_json(item) for name, item in value.items()}
    return [_in_json(item) for item in value] if isinstance(value, tuple) else value


def _known(kind: type[_T], data: Mapping[str, Any]) -> _T:
    """A dataclass of the fields that it knows."""
    return kind(**{field.name: data[field.name] for field in fields(kind) if field.name in data})  # type: ignore[arg-type]
