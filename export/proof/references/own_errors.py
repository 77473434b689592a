"""How far eager float32's own answer is from float64's: no engine can be expected to be nearer to eager."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from edgex.export.proof.references.float64 import in_float64
from edgex.export.proof.references.movement import tensors_of
from edgex.runtime.artifact.golden import Case
from edgex.runtime.session.numerics import measure_sqnr_db

if TYPE_CHECKING:
    from edgex.export.source.eager import EagerModel


# Another answer may be this many times eager float32's own error from eager: two independent errors of its size are 1.4
# times as large together.
OWN_MULTIPLE = 2.0
# How far below the fixed limit nothing passes.
FLOOR_DB = 20.0


@dataclass(frozen=True)
class OwnError:
    """How far eager float32's output is from float64's.

    Attributes:
        sqnr_db: In dB.
        largest: Of single numbers, absolute.
    """

    sqnr_db: float
    largest: float

    def excuses(self, found_db: float, largest: float | None, limit_db: float, multiple: float = OWN_MULTIPLE) -> bool:
        """Whether an answer that misses the fixed limit is as near to eager as eager is to float64.

        Args:
            found_db: SQNR of the answer beside eager's; the limit and more where single numbers alone are too far.
            largest: How far these are.
            limit_db: The fixed limit.
            multiple: How many times eager's own error is near.
        """
        if found_db >= limit_db:
            return largest is not None and largest <= multiple * self.largest
        return found_db >= self.least_db(limit_db, multiple)

    def least_db(self, limit_db: float, multiple: float = OWN_MULTIPLE) -> float:
        """The SQNR that an answer needs beside eager's, to a tenth of a dB."""
        return max(limit_db - FLOOR_DB, rounded_down(self.sqnr_db - 20 * math.log10(multiple)))


def measure_own_errors(case: Case, eager: EagerModel) -> dict[str, OwnError] | None:
    """Eager float32's own errors by output, where that is floating point; None where it does not run in float64."""
    step = case.steps[0]
    inputs = tensors_of(step.inputs, eager)
    eager.reset()
    try:
        with warnings.catch_warnings(), in_float64(eager.module):
            warnings.simplefilter("ignore")
            exact = eager.run(inputs)
    except Exception:  # the user's own code, which may insist on float32
        return None
    finally:
        eager.reset()
    found = {}
    for spec, tensor in zip(eager.outputs, exact, strict=True):
        reference, answer = tensor.numpy(), step.outputs[spec.name]
        if reference.dtype.kind == "f" and reference.shape == answer.shape:
            distance = np.nan_to_num(np.abs(reference - answer), posinf=0.0)
            found[spec.name] = OwnError(measure_sqnr_db(reference, answer), float(distance.max(initial=0.0)))
    return found


def rounded_down(limit_db: float) -> float:
    """A limit as it is shown: to a tenth of a dB."""
    return math.floor(10 * limit_db) / 10
