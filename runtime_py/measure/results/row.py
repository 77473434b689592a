"""One row of a sweep's results: which job, how it ended, what it measured, and where all of it comes from."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from edgex.runtime.support.json.dataclass_shapes import shape_of

# `refused` before any work; `failed` with an error of edgex, `defect` with any other; the rest is how a process ended.
Status = Literal["verified", "simulated", "assembled", "refused", "failed", "defect", "crashed", "timeout", "memory"]
WITH_ARTIFACT: tuple[Status, ...] = ("verified", "simulated", "assembled")

HERE = "here"


@dataclass(frozen=True)
class LeftOut:
    """Operators that a target left to other kernels: which, how many, and why."""

    op: str
    count: int
    code: str
    reason: str
    source: str | None = None


@dataclass(frozen=True)
class Failure:
    """How a job failed; see `edgex.errors` for the parts.

    Attributes:
        stage: Of the export, or `time`.
        exit_code: Of `edgex export`; 128 and the signal's number for a process that was killed.
        what: The first sentence.
        where: The user's line.
        why: The cause.
        fix: What to do.
    """

    stage: str
    exit_code: int
    what: str
    where: str | None = None
    why: str | None = None
    fix: str | None = None


@dataclass(frozen=True)
class Timing:
    """The latency of an artifact on a machine that did nothing else for edgex; seconds of one run.

    Attributes:
        median_seconds: The headline.
        low_seconds: Lower end of its 95 % interval; None where there were too few rounds.
        high_seconds: Upper end.
        min_seconds: The fastest.
        p90_seconds: None for too few samples.
        mad_seconds: Median absolute deviation.
        samples: How many.
        round_medians_seconds: What the interval rests on, in the order in which they were measured.
        threads: In effect; None where the engine does not say.
        load_seconds: Of the file, in a fresh process.
        first_seconds: The first run there.
        peak_rss_bytes: Of that process.
        executed_on: Who ran it.
        warnings: Codes of what disturbed the measurement.
        host: Of the machine: its name is not in it.
    """

    median_seconds: float
    low_seconds: float | None
    high_seconds: float | None
    min_seconds: float
    p90_seconds: float | None
    mad_seconds: float
    samples: int
    round_medians_seconds: tuple[float, ...]
    threads: int | None
    load_seconds: float | None
    first_seconds: float | None
    peak_rss_bytes: int | None
    executed_on: str
    warnings: tuple[str, ...] = ()
    host: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Made:
    """An export that succeeded.

    Attributes:
        artifact: Its place, as a path from the results' folder or as a URL; None where it was not kept.
        digest: SHA-256 over its native files.
        bytes: All of it.
        model_bytes: What a device loads.
        parameters: Of the model.
        delegated_ops: Operators that the target took.
        total_ops: Operators that there are.
        work_fraction: Share of the multiply-adds that the target took; None where unknown.
        delegate_calls: Partitions.
        left_out: What the target did not take.
        min_sqnr_db: Least of the proof's cases; None where all were exact.
        max_abs_error: Largest of the proof's cases.
        warnings: Of the export.
    """

    artifact: str | None
    digest: str
    bytes: int
    model_bytes: int
    parameters: int | None
    delegated_ops: int
    total_ops: int
    work_fraction: float | None
    delegate_calls: int | None
    left_out: tuple[LeftOut, ...] = ()
    min_sqnr_db: float | None = None
    max_abs_error: float | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Origin:
    """Where a row comes from.

    Attributes:
        fingerprint: Of all that decides the result; a row with another one is made again.
        model_sha256: Of the model's file; empty for a module.
        edgex: Its version.
        versions: Of the packages that take part.
        stamp: What the plan gives as `stamp`.
        machine: Name of the machine that exported.
        started: When, in UTC: `2026-01-31T12:00:00Z`.
    """

    fingerprint: str
    model_sha256: str
    edgex: str
    versions: Mapping[str, str]
    stamp: str
    machine: str
    started: str


@dataclass(frozen=True)
class Row:
    """One job, which is one model in one combination of target, precision, recipe and device.

    Attributes:
        job: Twelve digits that name it; the same in every run of the plan.
        model: The model's name in the plan, unique there.
        spec: As `edgex export` takes the model.
        target: A delegate's name.
        precision: What floating-point numbers are.
        recipe: A quantization recipe, or None.
        device: `here`, or an address as `--device` takes it.
        status: How it ended.
        attempts: How often it was begun.
        seconds: Of the export by stage; what targets share is counted for each.
        peak_rss_bytes: Of the export's process.
        origin: Where the row comes from.
        made: The artifact; None where there is none.
        timing: The measurement; None where it was not measured.
        failure: Of the export, or of the measurement; None where both succeeded.
        complete: False for an artifact that is still to be measured.
    """

    job: str
    model: str
    spec: str
    target: str
    precision: str
    recipe: str | None
    device: str
    status: Status
    attempts: int
    seconds: Mapping[str, float]
    peak_rss_bytes: int | None
    origin: Origin
    made: Made | None = None
    timing: Timing | None = None
    failure: Failure | None = None
    complete: bool = True

    @property
    def ok(self) -> bool:
        """Whether there is an artifact, and its measurement where one was asked for did not fail."""
        return self.status in WITH_ARTIFACT and self.failure is None

    @property
    def kind(self) -> str:
        """`xnnpack`, `xnnpack int8`, `onednn bf16`: what is float32 has no word for it."""
        word = self.recipe or ("" if self.precision == "fp32" else self.precision)
        return f"{self.target} {word}".strip()

    def to_json(self) -> dict[str, Any]:
        """The row as JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, document: Any) -> Row:
        """The inverse of `to_json`.

        Raises:
            ValueError: It has another form.
        """
        shape_of(Row).check(document, "the row")
        made, timing, failure = document["made"], document["timing"], document["failure"]
        return cls(
            **{
                **document,
                "origin": Origin(**document["origin"]),
                "made": None if made is None else read_made(made),
                "timing": None if timing is None else read_timing(timing),
                "failure": None if failure is None else Failure(**failure),
            }
        )


def read_made(document: Mapping[str, Any]) -> Made:
    """A made artifact from what `dataclasses.asdict` made of it."""
    left_out = tuple(LeftOut(**entry) for entry in document["left_out"])
    return Made(**{**document, "left_out": left_out, "warnings": tuple(document["warnings"])})


def read_timing(document: Mapping[str, Any]) -> Timing:
    """A timing from what `dataclasses.asdict` made of it."""
    tuples = {name: tuple(document[name]) for name in ("round_medians_seconds", "warnings")}
    return Timing(**{**document, **tuples})
