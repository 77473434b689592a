"""What is not as it was in a former sweep: newly failing, slower, less delegated, larger; and the other way round.

Many jobs are compared, so a few differ by chance: of the latencies whose interval excludes 1, those count that pass the
procedure of Benjamini and Hochberg ("Controlling the false discovery rate", 1995) at 5 %, over all that were compared.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from edgex.runtime.measure.compare.reports import differing_hosts, judge_apart
from edgex.runtime.measure.results.row import Row, Timing
from edgex.runtime.measure.statistics import Interval, Judgement
from edgex.runtime.support.machine.host import HostInfo

Kind = Literal[
    "newly failing", "slower", "newly left out", "less exact", "larger",
    "newly working", "faster", "newly delegated", "more exact", "smaller",
]  # fmt: skip
WORSE: tuple[Kind, ...] = ("newly failing", "slower", "newly left out", "less exact", "larger")

_FALSE_SHARE = 0.05
# The normal distribution's 97.5 % quantile.
_NORMAL = 1.959964
# Less is within what another order of additions does, and what another version writes into a file's head.
_SQNR_CHANGE_DB = 6.0
_SIZE_CHANGE = 0.02


@dataclass(frozen=True)
class Change:
    """One thing that is not as it was.

    Attributes:
        kind: What.
        model: Of which model.
        artifact: For example `xnnpack int8`.
        device: Where it was measured.
        detail: A sentence.
        ratio: Of latencies, now over before; None for others.
        ratio_ci95: Its interval.
    """

    kind: Kind
    model: str
    artifact: str
    device: str
    detail: str
    ratio: float | None = None
    ratio_ci95: Interval | None = None

    def to_json(self) -> dict[str, Any]:
        """One of `changes`."""
        interval = None if self.ratio_ci95 is None else list(self.ratio_ci95)
        return {**vars(self), "ratio_ci95": interval, "worse": self.kind in WORSE}


@dataclass(frozen=True)
class Difference:
    """A sweep against a former one.

    Attributes:
        changes: Worse ones first, the surest of a kind first.
        compared: Jobs that both have.
        timed: Of these, those whose latencies were compared.
        new: Jobs that the former one has not.
        gone: Jobs that only the former one has.
        other_machine: Jobs whose latencies were not compared, since they are of different machines.
    """

    changes: tuple[Change, ...]
    compared: int
    timed: int
    new: int
    gone: int
    other_machine: int

    def failing(self, limit: float) -> list[Change]:
        """What `--fail-on` is about: newly failing, or surely slower by more than a share.

        Args:
            limit: 0.03 is 3 %.
        """
        return [
            change for change in self.changes
            if change.kind == "newly failing"
            or (change.kind == "slower" and change.ratio_ci95 is not None and change.ratio_ci95[0] > 1.0 + limit)
        ]  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """The entry `difference`."""
        worse = sum(change.kind in WORSE for change in self.changes)
        return {**vars(self), "worse": worse, "changes": [change.to_json() for change in self.changes]}


def find_difference(before: Sequence[Row], after: Sequence[Row]) -> Difference:
    """Compare sweeps, job by job.

    Args:
        before: The former one's rows.
        after: The present one's.
    """
    known = {_key(row): row for row in before if row.complete}
    present = {_key(row): row for row in after if row.complete}
    pairs = [(known[key], row) for key, row in present.items() if key in known]
    changes: list[Change] = []
    judged: list[tuple[Row, Judgement]] = []
    other_machine = 0
    for old, new in pairs:
        changes += _compare_outcomes(old, new)
        if old.timing is None or new.timing is None:
            continue
        if differing_hosts(_host(old.timing), _host(new.timing)):
            other_machine += 1
            continue
        warnings = {*old.timing.warnings, *new.timing.warnings}
        judged.append((new, judge_apart(_median(old.timing), _median(new.timing), warnings)))
    changes += _significant(judged)
    order = {kind: at for at, kind in enumerate(Kind.__args__)}  # type: ignore[attr-defined]  # a Literal's
    changes.sort(key=lambda change: (order[change.kind], -abs(math.log(change.ratio or 1.0)), change.model))
    gone = sum(key not in present for key in known)
    return Difference(tuple(changes), len(pairs), len(judged), len(present) - len(pairs), gone, other_machine)


def _key(row: Row) -> tuple[str | None, ...]:
    return row.model, row.target, row.precision, row.recipe, row.device


def _host(timing: Timing) -> HostInfo:
    return HostInfo.from_json(timing.host)


def _median(timing: Timing) -> tuple[float, Interval | None]:
    known = timing.low_seconds is not None and timing.high_seconds is not None
    return timing.median_seconds, (timing.low_seconds, timing.high_seconds) if known else None  # type: ignore[return-value]


def _compare_outcomes(old: Row, new: Row) -> list[Change]:
    def change(kind: Kind, detail: str) -> Change:
        return Change(kind, new.model, new.kind, new.device, detail)

    if old.ok != new.ok:
        if old.ok:
            assert new.failure is not None
            return [change("newly failing", f"{new.failure.stage}: {new.failure.what}")]
        assert old.failure is not None
        return [change("newly working", f"it was {old.failure.stage}: {old.failure.what}")]
    if old.made is None or new.made is None:
        return []
    found = []
    before, after = _left_out(old), _left_out(new)
    for op in sorted({*before, *after}):
        more = after.get(op, 0) - before.get(op, 0)
        if more:
            found.append(change("newly left out" if more > 0 else "newly delegated", f"{abs(more)} x {op}"))
    ours, theirs = new.made.min_sqnr_db, old.made.min_sqnr_db
    if ours is not None and theirs is not None and abs(ours - theirs) > _SQNR_CHANGE_DB:
        found.append(change("less exact" if ours < theirs else "more exact", f"{theirs:.0f} dB, now {ours:.0f} dB"))
    share = new.made.model_bytes / max(1, old.made.model_bytes) - 1.0
    if abs(share) > _SIZE_CHANGE:
        detail = f"{old.made.model_bytes:,} bytes, now {new.made.model_bytes:,}"
        found.append(change("larger" if share > 0 else "smaller", detail))
    return found


def _left_out(row: Row) -> dict[str, int]:
    counts: dict[str, int] = {}
    for entry in row.made.left_out if row.made is not None else ():
        counts[entry.op] = counts.get(entry.op, 0) + entry.count
    return counts


def _significant(judged: Sequence[tuple[Row, Judgement]]) -> list[Change]:
    """Those whose verdict is faster or slower, and that are not among the few expected by chance."""
    ranked = sorted(judged, key=lambda pair: chance(pair[1]))
    passed = [at for at, pair in enumerate(ranked, 1) if chance(pair[1]) <= _FALSE_SHARE * at / len(ranked)]
    found = []
    for row, judgement in ranked[: max(passed, default=0)]:
        if judgement.verdict not in ("faster", "slower"):
            continue
        estimate = judgement.estimate
        assert estimate.ci95 is not None
        low, high = estimate.ci95
        detail = f"{estimate.ratio:.3f} times the time ({low:.3f} … {high:.3f})"
        kind: Kind = "slower" if judgement.verdict == "slower" else "faster"
        found.append(Change(kind, row.model, row.kind, row.device, detail, estimate.ratio, estimate.ci95))
    return found


def chance(judgement: Judgement) -> float:
    """How probable a ratio so far from 1 is where nothing has changed: two-sided, beyond what runs differ by anyway."""
    estimate = judgement.estimate
    if estimate.ci95 is None:
        return 1.0
    allowance = math.log1p(judgement.floor or 0.0)
    distance = abs(math.log(estimate.ratio)) - allowance
    half = (math.log(estimate.ci95[1]) - math.log(estimate.ci95[0])) / 2.0 - allowance
    if distance <= 0.0:
        return 1.0
    return 0.0 if half <= 0.0 else math.erfc(distance / (half / _NORMAL) / math.sqrt(2.0))
