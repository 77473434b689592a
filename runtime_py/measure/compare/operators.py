"""Where the time went: the operators of two profiles matched, and what each costs more or less.

```
matched by   when
operators    same module path, same ATen operators
module       same module path; fused in one, apart in the other
category     layout transforms, casts and overhead, which belong to no module: same category
none         in one of the two only
```
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from edgex.runtime.engines.trace.operators import OperatorRow
from edgex.runtime.measure.profile.report import ProfileReport

Match = Literal["operators", "module", "category", "none"]


@dataclass(frozen=True)
class OperatorDelta:
    """The same work in two profiles.

    Attributes:
        module_path: Module that it belongs to; None for what belongs to none.
        operators: ATen operators, main one first; where matched by module, all of the module's.
        category: `compute`, `layout`, `cast` or `overhead`.
        match: How the two sides were found to be the same.
        baseline_seconds: Seconds in one run of the baseline, all its rows together; None where it has none, or where
            they are below the clock's resolution.
        candidate_seconds: The same of the candidate.
        baseline_rows: Names of the rows there.
        candidate_rows: The same of the candidate.
    """

    module_path: str | None
    operators: tuple[str, ...]
    category: str
    match: Match
    baseline_seconds: float | None
    candidate_seconds: float | None
    baseline_rows: tuple[str, ...]
    candidate_rows: tuple[str, ...]

    @property
    def delta_seconds(self) -> float:
        """Candidate minus baseline; what one of them lacks counts as 0 there."""
        return (self.candidate_seconds or 0.0) - (self.baseline_seconds or 0.0)

    def to_json(self) -> dict[str, Any]:
        """One entry of `operators`."""
        return {**asdict(self), "delta_seconds": self.delta_seconds}


def compare_traced(baseline: ProfileReport, candidate: ProfileReport) -> tuple[OperatorDelta, ...] | None:
    """The differences by operator; None unless both were traced."""
    return compare_operators(baseline.ops, candidate.ops) if baseline.ops and candidate.ops else None


def compare_operators(baseline: Sequence[OperatorRow], candidate: Sequence[OperatorRow]) -> tuple[OperatorDelta, ...]:
    """Match the rows of two profiles, the largest change first."""
    found: list[OperatorDelta] = []
    left, right = list(baseline), list(candidate)
    keys: tuple[tuple[Match, Callable[[OperatorRow], Hashable]], ...] = (
        ("operators", _by_operators),
        ("module", lambda row: row.module_path if row.category == "compute" else None),
        ("category", lambda row: None if row.category == "compute" else row.category),
    )
    for match, key in keys:
        groups_left, groups_right = _group(left, key), _group(right, key)
        both = [name for name in groups_left if name in groups_right]
        found += [_delta(match, groups_left[name], groups_right[name]) for name in both]
        left = [row for row in left if key(row) not in both]
        right = [row for row in right if key(row) not in both]
    found += [_delta("none", rows, []) for rows in _group(left, _by_anything).values()]
    found += [_delta("none", [], rows) for rows in _group(right, _by_anything).values()]
    return tuple(sorted(found, key=lambda delta: -abs(delta.delta_seconds)))


def _by_operators(row: OperatorRow) -> Hashable:
    if row.category != "compute" or row.module_path is None or not row.operators:
        return None
    return row.module_path, tuple(sorted(row.operators))


def _by_anything(row: OperatorRow) -> Hashable:
    return row.module_path, row.category, row.op_type


def _group(rows: Sequence[OperatorRow], key: Callable[[OperatorRow], Hashable]) -> dict[Hashable, list[OperatorRow]]:
    groups: dict[Hashable, list[OperatorRow]] = {}
    for row in rows:
        if key(row) is not None:
            groups.setdefault(key(row), []).append(row)
    return groups


def _delta(match: Match, baseline: Sequence[OperatorRow], candidate: Sequence[OperatorRow]) -> OperatorDelta:
    first = (*baseline, *candidate)[0]
    operators = dict.fromkeys(name for row in (*baseline, *candidate) for name in row.operators)
    return OperatorDelta(
        module_path=first.module_path if match != "category" else None,
        operators=tuple(operators),
        category=first.category,
        match=match,
        baseline_seconds=_sum(baseline),
        candidate_seconds=_sum(candidate),
        baseline_rows=tuple(row.name for row in baseline),
        candidate_rows=tuple(row.name for row in candidate),
    )


def _sum(rows: Sequence[OperatorRow]) -> float | None:
    known = [row.median_seconds for row in rows if row.median_seconds is not None]
    return sum(known) if known else None
