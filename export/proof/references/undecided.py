"""Cases that can prove nothing, since rounding decides eager's own answer: a way on that says so, and no silent pass.

The example has to be eager's. Where a network rounds coordinates to cells, or takes the best of scores that lie close
together, its answer may be another one altogether when its weights differ by a few last bits: of a lift-splat network
with weights drawn at random the segmentation is 20 dB from itself in float64. No engine passes then, and none is wrong.
Such an artifact is refused, and the error says why. `--allow-inconclusive` accepts it: floats of the case are then held
to a third of what eager moves by, and integers of the outputs that differed to nothing. Of zeros and of tiny inputs,
which are not the user's, it is enough that the export says so.

An output counts as decided by rounding where eager's own answer moves as far as the artifact's is from it: with inputs
and weights that differ by `SHARE` and results of operators by `ROUNDING`, or with scores that are moved before they are
sorted (`ranks.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from edgex.export.proof.references.decisions import SHARE
from edgex.export.proof.references.float64_errors import DISTANCE_DB, MULTIPLE, Judged
from edgex.export.proof.references.movement import iterate_nearby
from edgex.export.proof.references.own_errors import rounded_down
from edgex.export.proof.references.ranks import describe_order
from edgex.runtime.artifact.golden import STRESS, Between, Case
from edgex.runtime.session.numerics import EXACT_SQNR_DB, measure_sqnr_db

if TYPE_CHECKING:
    from edgex.delegates.base import CapturedProgram
    from edgex.export.source.eager import EagerModel

# How far another engine's sums are off, as a share: eight last bits and more. ONNX Runtime's means of 336 equal numbers
# are off by 3 to 59, eager's by 5 at most.
ROUNDING = 1e-6
# What is constant is divided by its own deviation there. Where inputs are large, engines differ by more than rounding:
# a sine without range reduction.
_NEAR_ZERO = (f"{STRESS}zero", f"{STRESS}tiny")
# Eager's runs, at most: a decision that goes either way half of the time is seen in all but one of 64.
_RUNS = 6

# What to do about it.
FIX = (
    "prove it with example inputs and weights of which rounding decides less, as those of a trained model, "
    "or accept with --allow-inconclusive that it proves little"
)


class Distance:
    """How far an output is from eager's.

    Attributes:
        sqnr_db: In dB; far below 0 for integers that differ.
        largest: Of single numbers, absolute.
        passes_db: Whether single numbers alone are too far.
    """

    def __init__(self, sqnr_db: float | None, largest: float | None, limit_db: float) -> None:
        """Take what a comparison found; None where it could not say."""
        self.sqnr_db = -EXACT_SQNR_DB if sqnr_db is None else float(sqnr_db)
        self.largest = math.inf if largest is None else float(largest)
        self.passes_db = self.sqnr_db >= limit_db


def find_undecided(
    cases: Sequence[Case], verdict: Mapping[str, Any], eager: EagerModel, program: CapturedProgram
) -> Judged:
    """Lower the limits of failed cases, if rounding decides each; none where one of them is decided by more.

    Stress is looked at where nothing else fails: it may have limits of its own yet.

    Args:
        cases: What was to be proved.
        verdict: The `edgex.verify/1` object of a float32 artifact that did not pass.
        eager: The user's model.
        program: What was lowered, before it was quantized.
    """
    limit_db = float(verdict["tolerance"]["min_sqnr_db"])
    failed: dict[str, dict[str, Distance]] = {}
    entries = [one for one in verdict["cases"] if one["verdict"] == "fail"]
    for one in [one for one in entries if not str(one["name"]).startswith(STRESS)] or entries:
        if one["output"] is not None:
            found = Distance(one["sqnr_db"], one.get("max_abs_error"), limit_db)
            failed.setdefault(str(one["name"]), {})[str(one["output"])] = found
    if not failed or any(one["output"] is None for one in entries):
        return Judged(tuple(cases))
    by_name = {case.name: case for case in cases}
    changed: dict[str, Case] = {}
    sentences = []
    for name, outputs in failed.items():
        case = by_name.get(name)
        if case is None or (case.kind, case.reference) != ("compare", "eager") or len(case.steps) != 1:
            return Judged(tuple(cases))
        moved = find_movement(case, cases, eager, outputs, limit_db, rounding=ROUNDING)
        if moved is None:
            found_db = {output: found.sqnr_db for output, found in outputs.items()}
            moved = describe_order(case, found_db, limit_db, program)
        if moved is None:
            return Judged(tuple(cases))
        least_db, why = moved
        changed[name] = _with_limits(case, outputs, rounded_down(min(least_db - DISTANCE_DB, limit_db)))
        sentences.append(f"{name} proves little: {why}")
    return Judged(tuple(changed.get(case.name, case) for case in cases), tuple(sentences))


def fails_near_zero_only(verdict: Mapping[str, Any]) -> bool:
    """Whether each failed case has inputs of zeros or of tiny numbers, which edgex made."""
    return all(one["name"] in _NEAR_ZERO for one in verdict["cases"] if one["verdict"] == "fail")


def _with_limits(case: Case, outputs: Mapping[str, Distance], limit_db: float) -> Case:
    """The case, with a limit for its floats and none for the integers that were not eager's."""
    (step,) = case.steps
    free = {}
    for name in outputs:
        array = step.outputs[name]
        if array.dtype.kind in "iub":
            least, most = (0, 1) if array.dtype.kind == "b" else (np.iinfo(array.dtype).min, np.iinfo(array.dtype).max)
            kind = np.uint8 if array.dtype.kind == "b" else array.dtype
            free[name] = Between(np.full(array.shape, least, kind), np.full(array.shape, most, kind))
    return replace(case, steps=(replace(step, between={**step.between, **free}, ranked={}),), min_sqnr_db=limit_db)


def find_movement(
    case: Case,
    cases: Sequence[Case],
    eager: EagerModel,
    outputs: Mapping[str, Distance],
    limit_db: float,
    *,
    rounding: float = 0.0,
) -> tuple[float, str] | None:
    """How far in dB eager's floats move, in words too; None where an output moves less than another answer is off.

    Args:
        case: Whose inputs are moved.
        cases: Those of the artifact, the example's among them.
        eager: The user's model; its weights are as they were afterwards.
        outputs: How far the other answer is, for those that are not eager's.
        limit_db: The fixed limit.
        rounding: How far results of operators may be off too, as a share of themselves.
    """
    left = dict(outputs)
    least_db = limit_db
    for answer in iterate_nearby(case, cases, eager, SHARE, _RUNS, rounding=rounding):
        if answer is None:
            return None
        for output in [*left]:
            expected, moved = case.steps[0].outputs[output], answer[output]
            least_db = min(least_db, measure_sqnr_db(expected, moved) if moved.dtype.kind == "f" else limit_db)
            if _moves_as_far(expected, moved, left[output], limit_db):
                del left[output]
        if not left:
            how = f"({least_db:.0f} dB) " if least_db < limit_db else ""
            results = f", or results of its operators by {rounding:g}" if rounding else ""
            by = f"when its inputs and weights differ by {SHARE:g} of their size{results}"
            return least_db, f"eager's own answer moves as far {how}{by}"
    return None


def _moves_as_far(expected: np.ndarray, moved: np.ndarray, found: Distance, limit_db: float) -> bool:
    """Whether eager's answer is as far from itself as the artifact's is, by the triangle."""
    if moved.shape != expected.shape:
        return True
    if moved.dtype.kind != "f":
        return not np.array_equal(expected, moved)
    if found.passes_db:
        return float(np.nan_to_num(np.abs(moved - expected)).max(initial=0.0)) * (MULTIPLE - 1) >= found.largest
    moved_db = measure_sqnr_db(expected, moved)
    return moved_db < limit_db and found.sqnr_db >= moved_db - DISTANCE_DB
