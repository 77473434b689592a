"""How far the outputs of a candidate are from the baseline's, on the golden inputs that both take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.artifact.golden import STRESS, Case, golden_of_method
from edgex.runtime.session.numerics import Tolerance, compare_output, round_significant

# By case and step, outputs by name.
Outputs = Sequence[Sequence[Mapping[str, np.ndarray]]]

# Only the measures are of interest here: outputs of two precisions are not held to a tolerance.
_ANY = Tolerance(min_sqnr_db=-float("inf"))


@dataclass(frozen=True)
class OutputDistance:
    """One output of the candidate compared with the baseline's, the worst of all cases.

    Attributes:
        name: The output.
        sqnr_db: Lowest SQNR in dB, 300 where all are equal; None for integers and where the baseline is constant.
        max_abs_error: Largest absolute difference; None where shapes or dtypes differ.
        reference_max: Largest absolute value of the baseline's output.
        problem: What differs otherwise, for example NaN at other places; None mostly.
    """

    name: str
    sqnr_db: float | None
    max_abs_error: float | None
    reference_max: float | None
    problem: str | None


@dataclass(frozen=True)
class Numerics:
    """A candidate's outputs against the baseline's.

    Attributes:
        cases: Cases that both ran.
        refused: Cases that one of them refused, with its reason.
        outputs: The distance of each output.
        typical_sqnr_db: The lowest SQNR over the cases that are no stress, in dB; None where there is none. Stress
            inputs are clipped by a quantized model on purpose: they say nothing about its accuracy.
    """

    cases: int
    refused: tuple[str, ...]
    outputs: tuple[OutputDistance, ...]
    typical_sqnr_db: float | None = None

    @property
    def min_sqnr_db(self) -> float | None:
        """The lowest of all outputs, in dB."""
        return min((out.sqnr_db for out in self.outputs if out.sqnr_db is not None), default=None)

    @property
    def max_abs_error(self) -> float | None:
        """The largest of all outputs."""
        return max((out.max_abs_error for out in self.outputs if out.max_abs_error is not None), default=None)

    def to_json(self) -> dict[str, Any]:
        """The entry `numerics`, figures rounded to two digits."""
        rounded = [
            {**asdict(out), **{key: round_significant(getattr(out, key)) for key in _FIGURES}} for out in self.outputs
        ]
        return {
            "cases": self.cases,
            "refused": list(self.refused),
            "min_sqnr_db": round_significant(self.min_sqnr_db),
            "typical_sqnr_db": round_significant(self.typical_sqnr_db),
            "max_abs_error": round_significant(self.max_abs_error),
            "outputs": rounded,
        }


_FIGURES = ("sqnr_db", "max_abs_error", "reference_max")


def choose_cases(artifact: Artifact) -> list[Case]:
    """The golden cases that are run for the outputs: each compared one, memory orders aside, which change no value.

    Sequences over several methods are not among them: what is compared has one method loaded.
    """
    compared = [case for case in golden_of_method(artifact) if case.kind == "compare" and not case.over_methods]
    return [case for case in compared if case.layout == "contiguous"]


def measure_distance(
    cases: Sequence[Case],
    baseline: Outputs,
    candidate: Outputs,
    refused: Mapping[int, str],
) -> Numerics:
    """Compare outputs.

    Args:
        cases: What was run.
        baseline: Outputs of the baseline, by case and step.
        candidate: Outputs of the candidate.
        refused: Case number -> why one of the two refused it.
    """
    worst: dict[str, OutputDistance] = {}
    typical: list[float] = []
    for number in range(len(cases)):
        if number in refused:
            continue
        for ours, theirs in zip(baseline[number], candidate[number], strict=True):
            for name, reference in ours.items():
                if name not in theirs:
                    continue
                found = compare_output(reference, theirs[name], _ANY)
                if found.sqnr_db is not None and not cases[number].name.startswith(STRESS):
                    typical.append(found.sqnr_db)
                problem = found.reason if found.verdict == "fail" else None
                now = OutputDistance(name, found.sqnr_db, found.max_abs_error, found.reference_max, problem)
                worst[name] = _worse(worst[name], now) if name in worst else now
    named = tuple(f"{cases[number].name}: {why}" for number, why in refused.items())
    return Numerics(len(cases) - len(refused), named, tuple(worst.values()), min(typical, default=None))


def _worse(one: OutputDistance, other: OutputDistance) -> OutputDistance:
    def pick(choose: Any, key: str) -> float | None:
        known = [value for value in (getattr(one, key), getattr(other, key)) if value is not None]
        return choose(known) if known else None

    return OutputDistance(
        one.name,
        pick(min, "sqnr_db"),
        pick(max, "max_abs_error"),
        pick(max, "reference_max"),
        one.problem or other.problem,
    )
