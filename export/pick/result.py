"""What was picked, from what, and why the others were not. JSON schema `edgex.pick/1`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from edgex.export.pick.candidates import Candidate, Loser
from edgex.export.pick.contenders import Contender, Dropped
from edgex.export.pick.judging import Judged

SCHEMA = "edgex.pick/1"

Objective = Literal["latency", "size", "memory", "energy"]
OBJECTIVES: tuple[Objective, ...] = ("latency", "size", "memory", "energy")


@dataclass(frozen=True)
class Row:
    """One combination in the table.

    Attributes:
        candidate: Which.
        verdict: `picked`, `draw`, or a `Loser`'s stage.
        reason: A sentence; empty for the one that was picked.
        fix: The next command, where one is known.
        judged: Its error and size; None where it was not made.
        timed: With its quickest threads and settings; None where it was not timed.
        pareto: Whether no other is at least as good in latency, error and size, and better in one.
        joules: Of one run, where that is the objective.
        others: Its other threads and settings that were timed, the quickest first.
        dropped: Its settings that were not.
    """

    candidate: Candidate
    verdict: str
    reason: str = ""
    fix: str | None = None
    judged: Judged | None = None
    timed: Contender | None = None
    pareto: bool = False
    joules: float | None = None
    others: tuple[Contender, ...] = ()
    dropped: tuple[Dropped, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """One entry of `candidates`."""
        ratio = None if self.timed is None else self.timed.ratio
        interval = None if ratio is None or ratio.ci95 is None else list(ratio.ci95)
        return {
            **self.candidate.to_json(),
            "verdict": self.verdict,
            "reason": self.reason,
            "fix": self.fix,
            "threads": None if self.timed is None else self.timed.threads,
            "engine_options": {} if self.timed is None else dict(self.timed.options),
            "median_seconds": None if self.timed is None else self.timed.seconds,
            "ratio": None if ratio is None else ratio.ratio,
            "ratio_ci95": interval,
            "error_db": None if self.judged is None else round(self.judged.error_db, 2),
            "drop": None if self.judged is None else self.judged.drop,
            "figure": None if self.judged is None else self.judged.figure,
            "bytes": None if self.judged is None else self.judged.made.bytes,
            "peak_rss_bytes": None if self.timed is None else self.timed.peak_rss_bytes,
            "joules_per_run": self.joules,
            "pareto": self.pareto,
            "others": [
                *(_other(one.threads, one.options, one.seconds) for one in self.others),
                *(_other(one.threads, one.options, reason=one.reason) for one in self.dropped),
            ],
        }


def _other(
    threads: int, options: Mapping[str, Any], seconds: float | None = None, reason: str | None = None
) -> dict[str, Any]:
    """An entry of `others`: what else was tried of a combination."""
    return {"threads": threads, "engine_options": dict(options), "median_seconds": seconds, "reason": reason}


@dataclass(frozen=True)
class Pick:
    """How a pick ended.

    Attributes:
        model: Where the model was found.
        objective: What the best is best in.
        judge: What errors were measured on.
        path: The artifact that is kept; None where the pick was interrupted.
        rows: Every combination, the picked one first.
        notices: What the user should know, a sentence each.
        interrupted: Whether it was ended before its time; the rows are what was known.
        device: Where they were timed; None for this machine.
    """

    model: str
    objective: Objective
    judge: str
    path: Path | None
    rows: tuple[Row, ...]
    notices: tuple[str, ...] = ()
    interrupted: bool = False
    device: str | None = None

    @property
    def winner(self) -> Row | None:
        """The row that was picked."""
        return next((row for row in self.rows if row.verdict == "picked"), None)

    @property
    def threads(self) -> int | None:
        """The winner's number of threads."""
        return None if self.winner is None or self.winner.timed is None else self.winner.timed.threads

    @property
    def options(self) -> dict[str, Any]:
        """The winner's engine settings other than the defaults."""
        return {} if self.winner is None or self.winner.timed is None else dict(self.winner.timed.options)

    def to_json(self) -> dict[str, Any]:
        """The `edgex.pick/1` document."""
        winner = self.winner
        return {
            "schema": SCHEMA,
            "model": self.model,
            "objective": self.objective,
            "judge": self.judge,
            "device": self.device,
            "winner": None
            if winner is None
            else {
                **winner.candidate.to_json(),
                "threads": self.threads,
                "engine_options": self.options,
                "path": None if self.path is None else str(self.path),
            },
            "draw": [row.candidate.to_json() for row in self.rows if row.verdict == "draw"],
            "candidates": [row.to_json() for row in self.rows],
            "notices": list(self.notices),
            "interrupted": self.interrupted,
        }


def find_pareto(timed: Mapping[Candidate, Contender]) -> set[Candidate]:
    """Those that no other beats: at least as good in latency, error and size, and better in one."""

    def figures(one: Contender) -> tuple[float, float, float]:
        return one.seconds, -one.judged.error_db, one.judged.made.bytes

    found = set()
    for candidate, one in timed.items():
        mine = figures(one)
        rivals = [figures(other) for key, other in timed.items() if key != candidate]
        if not any(all(a <= b for a, b in zip(rival, mine, strict=True)) and rival != mine for rival in rivals):
            found.add(candidate)
    return found


def lost(loser: Loser, judged: Judged | None = None) -> Row:
    """The row of a candidate that went before it was timed."""
    return Row(loser.candidate, loser.stage, loser.reason, loser.fix, judged)
