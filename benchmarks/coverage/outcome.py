"""What happened to one model on one target: verified, or the stage, the exit code and the sentence of the failure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from edgex.runtime.measure.results.row import Failure, Row

VERIFIED = "verified"
FAILED = "failed"
# Not EdgexError: a defect of edgex, or of an engine.
DEFECT_CODE = 1


@dataclass(frozen=True)
class Outcome:
    """One model on one target.

    Attributes:
        model: `group/architecture`.
        target: The delegate's name.
        status: `verified` or `failed`.
        stage: Where it failed: `capture`, `lower`, `load`, `run`, `numerics` and so on; None when verified.
        exit_code: Of `edgex export`; 0 when verified, 128 + N when signal N ended the process.
        what: The failure's sentence.
        why: Its cause.
        fix: The workaround that the error states.
        fraction: Share of the operators delegated.
        work_fraction: Share of the work delegated, where it is known.
        calls: Number of delegate calls.
        min_sqnr_db: Least of all cases and outputs.
        max_abs_error: Largest of all cases and outputs.
        seconds: Of the whole export, without imports; what targets share is counted for each.
        peak_rss_bytes: Of the process, after the target.
        sources: Digest of the sources that made it; see `edgex_digest`.
    """

    model: str
    target: str
    status: str
    stage: str | None = None
    exit_code: int = 0
    what: str | None = None
    why: str | None = None
    fix: str | None = None
    fraction: float | None = None
    work_fraction: float | None = None
    calls: int | None = None
    min_sqnr_db: float | None = None
    max_abs_error: float | None = None
    seconds: float | None = None
    peak_rss_bytes: int | None = None
    sources: str = ""

    @property
    def verified(self) -> bool:
        """Whether an artifact was written and proved."""
        return self.status == VERIFIED

    @property
    def defect(self) -> bool:
        """A failure without an error of edgex: a traceback, or a process that died."""
        return self.exit_code == DEFECT_CODE or self.exit_code > 128

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Outcome:
        """The opposite of `to_json`."""
        return cls(**document)


def outcome_of_row(row: Row) -> Outcome:
    """The outcome that a row of a sweep tells."""
    seconds = sum(value for stage, value in row.seconds.items() if stage != "import")
    made, failure = row.made, row.failure
    if made is not None:
        return Outcome(
            row.model,
            row.target,
            row.status,
            fraction=_two_digits(made.delegated_ops / made.total_ops if made.total_ops else 1.0),
            work_fraction=_two_digits(made.work_fraction),
            calls=made.delegate_calls,
            min_sqnr_db=_two_digits(made.min_sqnr_db),
            max_abs_error=_two_digits(made.max_abs_error),
            seconds=_two_digits(seconds),
            peak_rss_bytes=_two_digits(row.peak_rss_bytes),
            sources=row.origin.stamp,
        )
    assert failure is not None
    return Outcome(
        row.model,
        row.target,
        FAILED,
        stage=_stage_of(failure),
        exit_code=failure.exit_code,
        what=without_paths(failure.what),
        why=without_paths(failure.why),
        fix=without_paths(failure.fix),
        sources=row.origin.stamp,
    )


def _stage_of(failure: Failure) -> str:
    """The pipeline's stage; what the verifying process met is told apart: `load`, `run` or `numerics`."""
    if failure.stage != "verify":
        return failure.stage
    if failure.exit_code == 4:
        return "numerics"
    return "load" if "load" in failure.what else "run"


def without_paths(text: str | None) -> str | None:
    """A text without folders of the machine that made it, and without addresses in memory."""
    if text is None:
        return None
    text = re.sub(r"(?:/[\w.+-]+)*/site-packages/", "", text)
    text = re.sub(r"(?<![\w.])(?:/[\w.+-]+)+/(?=[\w.+-]+)", "", text)
    return re.sub(r"0x[0-9a-f]{6,}", "0x…", text)


def _two_digits(value: float | None) -> Any:
    """Figures of a run differ from one to the next: two digits are what they mean."""
    if value is None or (isinstance(value, int) and value < 100):
        return value
    return type(value)(float(f"{value:.2g}"))
