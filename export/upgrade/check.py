"""The same models in two environments: newly refused, newly delegated, slower, different."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from edgex.export.upgrade.environment import Environment
from edgex.export.upgrade.outcome import Outcome, export_model, measure, run_outputs
from edgex.runtime.artifact.artifact import Artifact, open_artifact
from edgex.runtime.artifact.golden import read_example
from edgex.runtime.execute.verification import read_tolerances
from edgex.runtime.session.numerics import compare_output, round_significant
from edgex.runtime.support.disk.scratch import scratch_folder

# One process after the other on a machine that does other things too: less says nothing.
SLOWER_RATIO = 1.1

# What speaks against the other environment. `newly accepted`, `newly delegated` and `faster` speak for it.
WORSE = ("newly refused", "newly left out", "different", "slower")


@dataclass(frozen=True)
class Row:
    """One model on one target.

    Attributes:
        model: As it was given.
        target: Its name.
        here: What this environment makes of it.
        there: What the other one does.
        changes: What is not the same, of `WORSE` or better.
        details: A sentence for each change.
        max_abs_difference: Between the outputs for this environment's example; None where they were not compared.
    """

    model: str
    target: str
    here: Outcome
    there: Outcome
    changes: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    max_abs_difference: float | None = None

    def to_json(self) -> dict[str, Any]:
        """One of `rows`."""
        return {
            "model": self.model,
            "target": self.target,
            "changes": list(self.changes),
            "details": list(self.details),
            "max_abs_difference": round_significant(self.max_abs_difference),
            "here": self.here.to_json(),
            "there": self.there.to_json(),
        }


def check_upgrade(
    models: Sequence[str],
    targets: Sequence[str],
    here: Environment,
    there: Environment,
    *,
    runs: int,
    progress: Callable[[str, str], None] = lambda _stage, _detail: None,
) -> list[Row]:
    """Export every model in both environments, compare and time what comes out.

    Args:
        models: As `edgex export` takes them. What is random in them must have a fixed seed.
        targets: Their names.
        here: What is known to work.
        there: What it is compared with.
        runs: Samples of each of two measurements; 0 does not time.
        progress: Called with a stage and a detail.
    """
    rows: list[Row] = []
    with scratch_folder("upgrade") as folder:
        for number, model in enumerate(models):
            places = [folder / f"{number}-here", folder / f"{number}-there"]
            made = []
            for environment, place, words in zip((here, there), places, ("here", "there"), strict=True):
                progress("export", f"{model}, {words}")
                made.append(export_model(environment, model, targets, place))
            for target in targets:
                outcomes = (made[0][target], made[1][target])
                if runs and None not in (outcomes[0].path, outcomes[1].path):
                    progress("time", f"{model}, {target}")
                    outcomes = _time((here, there), outcomes, runs)
                rows.append(_compare(model, target, here, there, outcomes, folder))
    return rows


def _time(
    environments: tuple[Environment, Environment], outcomes: tuple[Outcome, Outcome], runs: int
) -> tuple[Outcome, Outcome]:
    """Each twice, in the order here, there, there, here: what the machine does meanwhile meets both."""
    best: list[tuple[float, tuple[float, float] | None] | None] = [None, None]
    for at in (0, 1, 1, 0):
        path = outcomes[at].path
        assert path is not None
        found, known = measure(environments[at], path, runs), best[at]
        if found is not None and (known is None or found[0] < known[0]):
            best[at] = found
    first, second = (
        outcome if found is None else replace(outcome, median_seconds=found[0], interval_seconds=found[1])
        for outcome, found in zip(outcomes, best, strict=True)
    )
    return first, second


def _compare(
    model: str, target: str, here: Environment, there: Environment, outcomes: tuple[Outcome, Outcome], folder: Path
) -> Row:
    one, other = outcomes
    if one.path is None or other.path is None:
        changes = {(True, False): ("newly accepted",), (False, True): ("newly refused",)}
        change = changes.get((one.path is None, other.path is None), ())
        details = (str(other.what if other.path is None else one.what),) if change else ()
        return Row(model, target, one, other, change, details)
    found: list[tuple[str, str]] = [*_compare_delegation(one, other), *_compare_speed(one, other)]
    difference, reason = _compare_outputs(here, there, one.path, other.path, folder)
    if reason is not None:
        found.append(("different", reason))
    # The same change is said once, its details all.
    names = tuple(dict.fromkeys(name for name, _ in found))
    return Row(model, target, one, other, names, tuple(detail for _, detail in found), difference)


def _compare_delegation(one: Outcome, other: Outcome) -> list[tuple[str, str]]:
    before, after = one.fallbacks or {}, other.fallbacks or {}
    found = []
    for name in sorted({*before, *after}):
        old, new = before.get(name, 0), after.get(name, 0)
        if new > old:
            found.append(("newly left out", f"{new - old} x {name}"))
        elif new < old:
            found.append(("newly delegated", f"{old - new} x {name}"))
    return found


def _compare_speed(one: Outcome, other: Outcome) -> list[tuple[str, str]]:
    """Faster or slower where the ratio is more than noise, and the intervals do not meet."""
    if one.median_seconds is None or other.median_seconds is None:
        return []
    ratio = other.median_seconds / one.median_seconds
    meet = False
    if one.interval_seconds is not None and other.interval_seconds is not None:
        (low, high), (other_low, other_high) = one.interval_seconds, other.interval_seconds
        meet = low <= other_high and other_low <= high
    if meet or 1 / SLOWER_RATIO <= ratio <= SLOWER_RATIO:
        return []
    detail = f"{other.median_seconds * 1e3:.3g} ms instead of {one.median_seconds * 1e3:.3g} ms"
    return [("slower" if ratio > 1 else "faster", detail)]


def _compare_outputs(
    here: Environment, there: Environment, one: Path, other: Path, folder: Path
) -> tuple[float | None, str | None]:
    """The largest difference of the outputs for the first one's example, and why it is too large; None where not."""
    artifact = open_artifact(one)
    inputs, output = folder / "in.npz", folder / "out.npz"
    example: dict[str, Any] = read_example(artifact)
    np.savez(inputs, **example)
    first = run_outputs(here, one, inputs, output)
    second = run_outputs(there, other, inputs, output)
    if isinstance(first, str) or isinstance(second, str):
        return None, f"it does not run: {first if isinstance(first, str) else second}"
    return _judge(artifact, first, second)


def _judge(
    artifact: Artifact, first: dict[str, np.ndarray], second: dict[str, np.ndarray]
) -> tuple[float | None, str | None]:
    if first.keys() != second.keys():
        return None, f"its outputs are {', '.join(second)} instead of {', '.join(first)}"
    tolerance, quantized = read_tolerances(artifact)
    worst: float | None = None
    for name, array in first.items():
        found = compare_output(array, second[name], quantized or tolerance)
        worst = max((error for error in (worst, found.max_abs_error) if error is not None), default=None)
        if found.verdict == "fail":
            return worst, f"{name}: {found.reason}"
    return worst, None
