"""What float32 can be held to where it rounds much: eager's own error against float64.

Inputs sixteen times the example's can drive a network into a range where it enlarges every rounding error. Engines sum
in other orders than PyTorch does. So where a stress case fails the fixed limit, eager runs it once in float64, as
PyTorch's own accuracy checks do (`torch._dynamo.utils.same`), and errors are compared: the artifact's may be
`MULTIPLE` times eager float32's, never more than what is `FLOOR_DB` below the fixed limit.

Which cases: stress first of all. The example, your own samples and the ends of dynamic dimensions keep the fixed limit,
unless eager float32 itself misses it beside float64: a pose network with weights drawn at random is 74 dB from its own
answer in float64, and every engine is 74 dB from either. They may then be `OWN_MULTIPLE` times eager's own error from
eager, output by output, never below the floor: what two answers differ by that are both as good as eager's. State keeps
the fixed limit. Inputs far larger than the example's, and inputs that are all zero, fail only below the floor; above it
a warning says how far they are. All zero is where a normalization divides what rounding left of nothing by the root of
its epsilon: eager happens to be exact there, an engine that sums in another order is 60 to 70 dB from it, and each is
right.

Where the SQNR is right and single numbers are too far (a pixel whose place in a table is rounded the other way), a case
is judged by its SQNR alone if single numbers of eager move as far, or are as far from float64's.

Below the floor a case is skipped where eager's own answer moves as far when the last bits of the inputs or of the
weights do (`movement.py`): several such normalizations in a row (optical flow, style transfer) end in noise, gates and
attention saturate far outside of their range, and nearly equal detections change places. Or the last bits of what it
sorts: a network's rounding moves scores further than that of its inputs does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from edgex.export.proof.references.movement import measure_largest_move, measure_movement_db
from edgex.export.proof.references.own_errors import FLOOR_DB, OwnError, measure_own_errors, rounded_down
from edgex.export.proof.references.ranks import measure_order_db
from edgex.runtime.artifact.golden import STRESS, Case
from edgex.runtime.session.numerics import EXACT_SQNR_DB

if TYPE_CHECKING:
    from edgex.delegates.base import CapturedProgram
    from edgex.export.source.eager import EagerModel

# An artifact within this many times eager float32's own error against float64 passes.
MULTIPLE = 4.0
# Its distance from eager, which is what is measured on every device, is then at most one time less: the triangle.
DISTANCE_DB = 20 * math.log10(MULTIPLE - 1)
# Cases that only fail below the floor, and what their inputs are.
EXTREME = {
    f"{STRESS}large": "inputs far larger than the example's",
    f"{STRESS}large, negative": "inputs far larger than the example's",
    f"{STRESS}zero": "inputs that are all zero",
}


@dataclass(frozen=True)
class Judged:
    """Cases with limits of their own, and a sentence for each."""

    cases: tuple[Case, ...]
    sentences: tuple[str, ...] = ()


def judge_by_float64(
    cases: Sequence[Case], verdict: Mapping[str, Any], eager: EagerModel, program: CapturedProgram
) -> Judged:
    """Give failed stress cases the limit that eager's own error in float64 allows; none where anything else failed.

    A case on which eager float32 itself is further from float64 than the floor can prove nothing: it is skipped, with
    that reason, if the artifact is as near to eager as the multiple allows.

    Args:
        cases: What was to be proved.
        verdict: The `edgex.verify/1` object of a float32 artifact that did not pass.
        eager: The user's model.
        program: What was lowered, before it was quantized.
    """
    limit = float(verdict["tolerance"]["min_sqnr_db"])
    floor = limit - FLOOR_DB
    by_output: dict[str, dict[str, float]] = {}
    furthest: dict[str, dict[str, float | None]] = {}
    for found in verdict["cases"]:
        if found["verdict"] == "fail":
            furthest.setdefault(str(found["name"]), {})[str(found["output"])] = found.get("max_abs_error")
            measured = -EXACT_SQNR_DB if found["sqnr_db"] is None else float(found["sqnr_db"])
            by_output.setdefault(str(found["name"]), {})[str(found["output"])] = measured
    failed = {name: min(outputs.values()) for name, outputs in by_output.items()}
    suspects = [case for case in cases if case.name in failed]
    if len(suspects) < len(failed):
        return Judged(tuple(cases))
    changed: dict[str, Case] = {}
    sentences: list[str] = []
    for case in (case for case in suspects if not _is_stress(case)):
        eased = _ease_by_own_error(case, eager, by_output[case.name], furthest[case.name], limit)
        if eased is None:
            return Judged(tuple(cases))
        changed[case.name], sentence = eased
        sentences.append(sentence)
    for case in (case for case in suspects if _is_stress(case)):
        if failed[case.name] >= limit:
            # Nothing is wrong but single numbers.
            why = None
            if _moves_as_far(measure_largest_move(case, cases, eager), furthest[case.name]):
                why = "single numbers of eager's move as far when the last bits of the inputs or of the weights do"
            elif _are_as_far(measure_own_errors(case, eager), furthest[case.name]):
                why = "single numbers of eager float32's are as far from float64's"
            elif case.name in EXTREME:
                why = EXTREME[case.name]
            if why is not None:
                changed[case.name] = replace(case, min_sqnr_db=limit)
                sentences.append(f"{case.name}: judged by SQNR alone: {why}")
            continue
        errors = measure_own_errors(case, eager)
        own = None if errors is None else min((error.sqnr_db for error in errors.values()), default=EXACT_SQNR_DB)
        if own is None:
            allowed, known = limit, "eager does not run in float64"
        else:
            allowed, known = own - DISTANCE_DB, f"eager float32 is itself {own:.0f} dB from float64"
        if own is not None and own < floor and failed[case.name] >= rounded_down(allowed):
            changed[case.name] = case.skip(f"{known} there, so that the case proves nothing")
            sentences.append(f"{case.name}: proves nothing, for {known}")
            continue
        if failed[case.name] < floor:
            moved = _describe_movement(case, cases, eager, program, by_output[case.name], floor)
            if moved is not None:
                known = moved
                changed[case.name] = case.skip(f"{known}, so that the case proves nothing")
                sentences.append(f"{case.name}: proves nothing, for {known}")
                continue
        lowest = floor if case.name in EXTREME else max(floor, rounded_down(allowed))
        within = floor <= failed[case.name] < lowest
        if within and _moves_within(measure_movement_db(case, cases, eager), by_output[case.name]):
            lowest, allowed, known = floor, floor, "eager's own answer moves as far when last bits or memory orders do"
        if lowest < limit:
            changed[case.name] = replace(case, min_sqnr_db=lowest)
            why = known if allowed < limit else f"{EXTREME[case.name]}; {known}"
            sentences.append(f"{case.name}: held to {lowest:g} dB, not {limit:g}: {why}")
    return Judged(tuple(changed.get(case.name, case) for case in cases), tuple(sentences))


def _describe_movement(
    case: Case,
    cases: Sequence[Case],
    eager: EagerModel,
    program: CapturedProgram,
    found_db: Mapping[str, float],
    floor_db: float,
) -> str | None:
    """What small change moves eager's answer as far as the artifact is from it, by output; None where none does."""
    moved_by_output = measure_movement_db(case, cases, eager)
    moved_db = _moved_as_far(moved_by_output or {}, found_db, floor_db)
    if moved_db is not None:
        return f"eager's answer moves as far ({moved_db:.0f} dB) when the last bits of the inputs or of the weights do"
    # Outputs that do not depend on an order stay strict.
    enough_db = {
        output: min(floor_db, found + DISTANCE_DB) if found < floor_db else found + DISTANCE_DB
        for output, found in found_db.items()
    }
    by_order_db = measure_order_db(case, program, enough_db)
    if by_order_db and all(by_order_db[output] <= enough for output, enough in enough_db.items()):
        least_db = min(by_order_db.values())
        how = f"({least_db:.0f} dB) " if least_db > -EXACT_SQNR_DB else ""
        return f"eager's answer moves as far {how}when the last bits of the scores that it sorts do"
    return None


def _moved_as_far(moved_db: Mapping[str, float], found_db: Mapping[str, float], floor_db: float) -> float | None:
    """The least that eager's numbers moved to, where the artifact's are not further off, and its integers moved too.

    Integers are equal or not: where an artifact has others, eager must have had others of the same output.
    """
    numbers = {output: moved for output, moved in moved_db.items() if abs(moved) < EXACT_SQNR_DB}
    least_db = min(numbers.values(), default=EXACT_SQNR_DB)
    for output, found in found_db.items():
        if abs(found) >= EXACT_SQNR_DB:
            if moved_db.get(output, EXACT_SQNR_DB) > -EXACT_SQNR_DB:
                return None
        elif least_db >= floor_db or found < rounded_down(least_db - DISTANCE_DB):
            return None
    return least_db if found_db and moved_db else None


def _moves_within(moved_db: Mapping[str, float] | None, found_db: Mapping[str, float]) -> bool:
    """Whether eager's outputs move as far as the artifact's are from them, by the triangle."""
    return moved_db is not None and all(
        found >= rounded_down(moved_db.get(output, EXACT_SQNR_DB) - DISTANCE_DB) for output, found in found_db.items()
    )


def _moves_as_far(moved: Mapping[str, float] | None, errors: Mapping[str, float | None]) -> bool:
    """Whether eager's numbers move as far as the artifact's are from them, by the triangle."""
    return moved is not None and all(
        error is not None and error <= (MULTIPLE - 1) * moved.get(output, 0.0) for output, error in errors.items()
    )


def _ease_by_own_error(
    case: Case,
    eager: EagerModel,
    found_db: Mapping[str, float],
    furthest: Mapping[str, float | None],
    limit_db: float,
) -> tuple[Case, str] | None:
    """A case that is not stress, held to what eager float32 itself keeps of float64; None where that is no excuse."""
    if (case.kind, case.reference) != ("compare", "eager") or len(case.steps) != 1:
        return None
    errors = measure_own_errors(case, eager)
    if errors is None or not found_db.keys() <= errors.keys():
        return None
    if not all(errors[output].excuses(found, furthest[output], limit_db) for output, found in found_db.items()):
        return None
    eased = [errors[output] for output, found in found_db.items() if found < limit_db]
    if not eased:
        known = "single numbers of eager float32's are as far from float64's"
        return replace(case, min_sqnr_db=limit_db), f"{case.name}: judged by SQNR alone: {known}"
    least, lowest = min(own.sqnr_db for own in eased), min(own.least_db(limit_db) for own in eased)
    known = f"eager float32 is itself {least:.0f} dB from float64"
    return replace(case, min_sqnr_db=lowest), f"{case.name}: held to {lowest:g} dB, not {limit_db:g}: {known}"


def _are_as_far(own: Mapping[str, OwnError] | None, errors: Mapping[str, float | None]) -> bool:
    """Whether eager float32's single numbers are as far from float64 as the artifact's are from them."""
    return own is not None and all(
        error is not None and output in own and error <= (MULTIPLE - 1) * own[output].largest
        for output, error in errors.items()
    )


def _is_stress(case: Case) -> bool:
    return case.kind == "compare" and case.reference == "eager" and case.name.startswith(STRESS)
