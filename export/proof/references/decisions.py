"""What eager decides otherwise when its numbers differ by little: integers and truths that may be either.

Floats may be 80 dB from eager's, a ten-thousandth. What such numbers decide is then not settled where they lie close
together: of the 153,600 pixels of a segmentation nine have two classes whose scores are equal but for rounding, and
another engine takes the other one. Where indices leave the program as they are, or rounded numbers do, they are judged
by the values behind them (`ranks.py`, `discretized.py`). Behind more than that (a class that is ignored, the colour of
a class, how many pixels a class has) eager says what may be: it runs a few times with inputs and weights that differ
by `SHARE`, and each element may be between the least and the largest that it was.

That is little enough that no wrong kernel hides in it: it holds where few elements move at all, or all by little. Such
an output of ten detections whose order is not settled stays refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from edgex.export.proof.references.float64_errors import Judged
from edgex.export.proof.references.movement import answers_nearby
from edgex.runtime.artifact.golden import Between, Case

if TYPE_CHECKING:
    from edgex.export.source.eager import EagerModel

# How far inputs and weights are moved: 25 last bits of float32, an estimate of what an engine's rounding adds up to.
SHARE = 3e-6
# Eager's runs. One that goes either way half of the time stays the same in all of them once in 4,096 times.
_RUNS = 12
# Which share of the elements may move, or how far all may as a share of the largest.
_FEW = 0.01


def judge_by_decisions(cases: Sequence[Case], verdict: Mapping[str, Any], eager: EagerModel) -> Judged:
    """The cases, with what integers and truths may be where they were not eager's; as they are where that is much.

    Args:
        cases: What was to be proved.
        verdict: The `edgex.verify/1` object of a float32 artifact that did not pass.
        eager: The user's model.
    """
    failed: dict[str, set[str]] = {}
    for found in verdict["cases"]:
        if found["verdict"] == "fail":
            failed.setdefault(str(found["name"]), set()).add(str(found["output"]))
    changed: dict[str, Case] = {}
    moving: dict[str, tuple[int, int]] = {}
    for case in cases:
        names = [name for name in _discrete_outputs(case) if name in failed.get(case.name, ())]
        answers = answers_nearby(case, cases, eager, SHARE, _RUNS) if names else None
        if not names or answers is None:
            continue
        (step,) = case.steps
        between = {name: _range_of([step.outputs[name], *(answer[name] for answer in answers)]) for name in names}
        if not all(_is_little(limits) for limits in between.values()):
            continue
        wider = {name: _with_known(limits, step.between.get(name)) for name, limits in between.items()}
        changed[case.name] = replace(case, steps=(replace(step, between={**step.between, **wider}),))
        for name, limits in between.items():
            moved = int((limits.least != limits.most).sum())
            moving[name] = max(moving.get(name, (0, 0)), (moved, limits.least.size))
    sentences = tuple(
        f"{name}: {moved} of {size} values are decided by rounding: eager has others itself when its inputs and "
        f"weights differ by {SHARE:g} of their size, and each may be what it has then"
        for name, (moved, size) in moving.items()
    )
    return Judged(tuple(changed.get(case.name, case) for case in cases), sentences)


def _discrete_outputs(case: Case) -> list[str]:
    if (case.kind, case.reference) != ("compare", "eager") or len(case.steps) != 1:
        return []
    (step,) = case.steps
    return [name for name, array in step.outputs.items() if array.dtype.kind in "iub" and name not in step.ranked]


def _range_of(arrays: Sequence[np.ndarray]) -> Between:
    """Between what each element was."""
    every = [np.asarray(array).astype(np.int64) for array in arrays]
    least, most = np.minimum.reduce(every), np.maximum.reduce(every)
    # They are part of the artifact: the smallest type will do.
    kind = np.result_type(*(np.min_scalar_type(int(end)) for end in (least.min(initial=0), most.max(initial=0))))
    return Between(least.astype(kind), most.astype(kind))


def _with_known(limits: Between, known: Between | None) -> Between:
    """What an output may be that is also rounded from numbers."""
    if known is None:
        return limits
    return _range_of([limits.least, limits.most, np.floor(known.least), np.ceil(known.most)])


def _is_little(limits: Between) -> bool:
    least, most = limits.least.astype(np.int64), limits.most.astype(np.int64)
    spread, largest = most - least, float(np.abs(most).max(initial=0))
    return int((spread > 0).sum()) <= _FEW * spread.size or float(spread.max(initial=0.0)) <= _FEW * largest
