"""The same cases once more: what an engine gives again in one session, in two sessions at once and with other threads.

A kernel that reads what nobody wrote, or whose threads race, is right most of the time: one run proves little about it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from edgex.runtime.session.numerics import round_significant

if TYPE_CHECKING:
    from edgex.errors import EdgexError

# `again`: in the session of the first run. `together`: in two sessions of one process at the same time. `threads`: in a
# session with another number of threads.
How = Literal["again", "together", "threads"]

# How often a sequence runs in one session, the first run included; and at once.
RUNS, SESSIONS = 3, 2

# What each of the ways may take in a proof. Small models need milliseconds.
LIMIT_SECONDS = 1.5

WORDS: Mapping[How, str] = {
    "again": "run again in the same session",
    "together": "run in two sessions at once",
    "threads": "run with {threads} thread{s}",
}


@dataclass(frozen=True)
class Repeat:
    """Sequences that were run once more in one of the ways.

    Attributes:
        how: Which.
        runs: Runs of each sequence.
        sequences: How many were run, the first ones.
        threads: Threads in effect; None where the engine does not say.
        reason: Why not all were run; None where they were.
        outputs: What came out otherwise than at first, by number: of several runs the one that is farthest away.
        refused: Sequences that the engine refused then, by number.
    """

    how: How
    runs: int
    sequences: int
    threads: int | None = None
    reason: str | None = None
    outputs: Mapping[int, tuple[Mapping[str, np.ndarray], ...]] = field(default_factory=dict)
    refused: Mapping[int, EdgexError] = field(default_factory=dict)

    @property
    def words(self) -> str:
        """`run with 1 thread`."""
        if self.how == "threads" and self.threads is None:
            return "run with another number of threads"
        return WORDS[self.how].format(threads=self.threads, s="" if self.threads == 1 else "s")


@dataclass(frozen=True)
class Difference:
    """An output that came out otherwise.

    Attributes:
        case: The case, with its step where it has several.
        output: The output; None where the case gave none.
        max_abs_difference: Between the two runs, over elements that are finite in both; None where they have not the
            same shape.
        verdict: The tolerance's on the later run.
        reason: Why, where it is no pass.
    """

    case: str
    output: str | None
    max_abs_difference: float | None
    verdict: str
    reason: str | None = None


@dataclass(frozen=True)
class RepeatVerdict:
    """A `Repeat`, judged."""

    repeat: Repeat
    differences: tuple[Difference, ...] = ()

    @property
    def failure(self) -> str | None:
        """The first difference that the tolerance does not allow, as a sentence."""
        for found in self.differences:
            if found.verdict == "fail":
                shown = f"{found.case}{', ' + found.output if found.output else ''}"
                return f"{shown}, {self.repeat.words}: {found.reason}"
        return None

    def to_json(self) -> dict[str, Any]:
        """One entry of `repeats`."""
        return {
            "how": self.repeat.how,
            "runs": self.repeat.runs,
            "threads": self.repeat.threads,
            "sequences": self.repeat.sequences,
            "reason": self.repeat.reason,
            "differences": [
                {
                    "case": found.case,
                    "output": found.output,
                    "max_abs_difference": round_significant(found.max_abs_difference),
                    "verdict": found.verdict,
                }
                for found in self.differences
            ],
        }


def merge_repeats(groups: Sequence[tuple[RepeatVerdict, ...] | None]) -> tuple[RepeatVerdict, ...] | None:
    """What several methods of one artifact gave again, each way once; None where they were not run again."""
    merged: dict[How, RepeatVerdict] = {}
    for verdict in (verdict for group in groups for verdict in group or ()):
        how = verdict.repeat.how
        known = merged.get(how)
        if known is None:
            merged[how] = verdict
            continue
        repeat = replace(
            known.repeat,
            sequences=known.repeat.sequences + verdict.repeat.sequences,
            reason=known.repeat.reason or verdict.repeat.reason,
        )
        merged[how] = RepeatVerdict(repeat, known.differences + verdict.differences)
    return tuple(merged.values()) if merged else None


def describe_repeats(entries: Sequence[Mapping[str, Any]] | None) -> list[str]:
    """A sentence for each way in which the same inputs gave something else, or were not tried."""
    told = []
    for entry in entries or ():
        words = Repeat(entry["how"], entry["runs"], entry["sequences"], entry["threads"]).words
        if entry["differences"]:
            most = max((found["max_abs_difference"] or 0.0 for found in entry["differences"]), default=0.0)
            cases = len({found["case"] for found in entry["differences"]})
            told.append(f"not the same bits in {cases} case{'' if cases == 1 else 's'} {words}: up to {most:.2g} apart")
        if entry["reason"]:
            told.append(f"not all cases were {words}: {entry['reason']}")
    return told


def same_bits(one: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> bool:
    """Whether two sets of outputs are equal to the last bit; a NaN is a NaN, whichever."""
    return one.keys() == other.keys() and all(_equal(array, other[name]) for name, array in one.items())


def farthest(one: np.ndarray, other: np.ndarray) -> float | None:
    """The largest absolute difference where both are finite; None for other shapes or dtypes."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return None
    wide = np.complex128 if np.iscomplexobj(one) else np.float64
    first, second = one.astype(wide), other.astype(wide)
    both = np.isfinite(first) & np.isfinite(second)
    return float(np.abs(first[both] - second[both]).max(initial=0.0))


def _equal(one: np.ndarray, other: np.ndarray) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.tobytes() == other.tobytes():
        return True
    if one.dtype.kind not in "fc":
        return False
    missing = np.isnan(one)
    return np.array_equal(missing, np.isnan(other)) and one[~missing].tobytes() == other[~missing].tobytes()
