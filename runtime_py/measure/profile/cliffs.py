"""Operators that fall off a cliff: a tenth of the time and more at less than a twentieth of what the machine can do."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edgex.runtime.engines.onednn.kernel_log import ReferenceKernel
from edgex.runtime.engines.trace.operators import OperatorRow
from edgex.runtime.support.machine.activity import MeasurementWarning

CODE = "cliff"
_LOWEST_FRACTION, _SHARE = 0.05, 0.1
# Below this a call's fixed cost is what is seen.
_LEAST_SECONDS = 20e-6
_MOST_NAMED = 3


def find_cliffs(
    rows: Sequence[OperatorRow], reference_kernels: Callable[[], Sequence[ReferenceKernel]]
) -> tuple[MeasurementWarning, ...]:
    """One warning for each of the worst, with the cause where it is known and the way on.

    Args:
        rows: Of the traced runs, with their roofline fractions.
        reference_kernels: Those of oneDNN in this artifact; only asked for where a region of it is slow.
    """
    fallen = [row for row in rows if _has_fallen(row)]
    fallen.sort(key=lambda row: -(row.share or 0.0))
    return tuple(MeasurementWarning(CODE, _describe(row, reference_kernels)) for row in fallen[:_MOST_NAMED])


def _has_fallen(row: OperatorRow) -> bool:
    if row.roofline_fraction is None or row.share is None or row.median_seconds is None:
        return False
    return row.roofline_fraction < _LOWEST_FRACTION and row.share > _SHARE and row.median_seconds >= _LEAST_SECONDS


def _describe(row: OperatorRow, reference_kernels: Callable[[], Sequence[ReferenceKernel]]) -> str:
    assert row.roofline_fraction is not None and row.share is not None
    place = f" ({row.source})" if row.source else ""
    figures = f"{100 * row.share:.0f} % of the time at {100 * row.roofline_fraction:.1f} % of what this machine can do"
    return f"{row.name}{place} takes {figures}: {_explain(row, reference_kernels)}"


def _explain(row: OperatorRow, reference_kernels: Callable[[], Sequence[ReferenceKernel]]) -> str:
    if row.delegate is None and row.op_type.startswith("aten."):
        return (
            "ExecuTorch's portable kernel, a plain loop; `edgex why` names a workaround, and another target may take it"
        )
    slow = reference_kernels() if row.delegate == "OneDnnGraphBackend" else ()
    if slow:
        what = f"{slow[0].primitive} {slow[0].sizes}"
        return f"oneDNN ran {what} with its reference kernel; try another target, and report it"
    return "no cause is known; `edgex compare` with another target's artifact tells whether it can be faster here"
