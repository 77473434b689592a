"""`--verify-data`: the user's own samples as cases, held to the fixed limits like the example.

A detector whose example shows nothing to detect proves little; samples of real data do. They are the user's: they are
proved at export, and do not travel with the artifact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from edgex.errors import UsageError
from edgex.export.quantization.calibration.samples import check_calibration
from edgex.runtime.artifact.golden import Case

FLAG = "--verify-data"
# `--verify-data calibration_data()`: what the model file defines under this name.
OF_MODEL_FILE = "calibration_data()"
MOST = 64
SAMPLE = "verify-data sample"


def check_verify_data(value: Any) -> None:
    """Check the value of `--verify-data` before anything slow.

    Raises:
        UsageError: It has none of the forms, or the file is not there.
    """
    if isinstance(value, str) and value.startswith("random:"):
        raise UsageError(f"{FLAG} {value}: random values are no held-out data", fix="give data.npz or file.py:function")
    if value != OF_MODEL_FILE:
        check_calibration(value, FLAG)


def leave_held_out(cases: Sequence[Case]) -> list[Case]:
    """The cases without the user's samples, which do not travel."""
    reason = "proved at export; the user's data are not carried along"
    return [
        replace(case, kind="skipped", steps=(), reason=reason) if case.name.startswith(SAMPLE) else case
        for case in cases
    ]


def warn_of_more(cases: Sequence[Case]) -> tuple[str, ...]:
    """A sentence where only the first samples were used."""
    used = sum(case.name.startswith(SAMPLE) for case in cases)
    return (f"{FLAG}: judged on the first {MOST} samples",) if used == MOST else ()
