"""Judge an output against eager PyTorch's: error, signal-to-quantization-noise ratio, verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

Verdict = Literal["pass", "fail", "warning", "inconclusive", "skipped"]

# An exact match has no noise; this finite stand-in keeps minima and JSON simple.
EXACT_SQNR_DB = 300.0

# Below this root mean square a float output says nothing: zeros match zeros whatever the engine did.
VACUOUS_RMS = 1e-6


@dataclass(frozen=True)
class Tolerance:
    """How far a float output may be from eager float32's.

    Attributes:
        min_sqnr_db: Least signal-to-quantization-noise ratio, in dB.
        atol: Largest absolute error where outputs are small; None leaves the judgement to SQNR alone.
        rtol: Largest absolute error as a share of the reference's maximum; None likewise.
        min_equal: Least share of the elements of an integer or boolean output that must be equal. Below 1 only for
            quantized artifacts, where an `argmax` between two near values may turn.
    """

    min_sqnr_db: float
    atol: float | None = None
    rtol: float | None = None
    min_equal: float = 1.0

    def max_abs_allowed(self, reference_max: float) -> float | None:
        """The largest absolute error allowed: `max(atol, rtol * reference_max)`, or None when unbounded."""
        if self.atol is None and self.rtol is None:
            return None
        return max(self.atol or 0.0, (self.rtol or 0.0) * reference_max)

    def to_json(self) -> dict[str, float | None]:
        """A JSON object with the fields as they are named here."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Tolerance:
        """The inverse of `to_json`."""
        return cls(data["min_sqnr_db"], data["atol"], data["rtol"], data.get("min_equal", 1.0))


@dataclass(frozen=True)
class Comparison:
    """One output compared with its reference.

    Attributes:
        max_abs_error: Largest absolute difference over the finite elements; None where shapes or dtypes differ.
        sqnr_db: 10 log10(sum reference^2 / sum error^2) in dB; None for integers, booleans and vacuous references.
        reference_max: Largest absolute value of the finite reference.
        verdict: `pass`, `fail` or `inconclusive`.
        reason: Why, when it is not a pass.
    """

    max_abs_error: float | None
    sqnr_db: float | None
    reference_max: float | None
    verdict: Verdict
    reason: str | None = None


def measure_sqnr_db(reference: np.ndarray, actual: np.ndarray, floor_rms: float = 0.0) -> float:
    """Signal-to-quantization-noise ratio of `actual`, in dB, over elements finite in both.

    10 log10(sum reference^2 / sum (reference - actual)^2), the measure torchao judges quantization by;
    `EXACT_SQNR_DB` where there is no error at all, and at most that. A signal below `floor_rms` counts as that.
    """
    wide = np.complex128 if np.iscomplexobj(reference) else np.float64
    signal, noisy = reference.astype(wide), actual.astype(wide)
    finite = np.isfinite(signal) & np.isfinite(noisy)
    noise_power = float(np.sum(np.abs(signal[finite] - noisy[finite]) ** 2))
    signal_power = max(float(np.sum(np.abs(signal[finite]) ** 2)), floor_rms**2 * int(finite.sum()))
    if noise_power == 0.0:
        return EXACT_SQNR_DB
    if signal_power == 0.0:
        return -EXACT_SQNR_DB
    return min(10.0 * float(np.log10(signal_power / noise_power)), EXACT_SQNR_DB)


def compare_output(
    reference: np.ndarray, actual: np.ndarray, tolerance: Tolerance, floor_rms: float = 0.0
) -> Comparison:
    """Compare one output with its reference.

    Args:
        reference: Eager float32's output (bfloat16 as float32), or that of a quantized program.
        actual: The artifact's output, any dtype.
        tolerance: Limits for float outputs; integer and boolean outputs must be equal up to its `min_equal`.
        floor_rms: The output's ordinary root mean square. The steps of a quantized output do not shrink with its
            values, so that errors of small values are measured against it.
    """
    if reference.shape != actual.shape:
        return Comparison(None, None, None, "fail", f"shape {actual.shape} instead of {reference.shape}")
    if reference.dtype.kind != actual.dtype.kind:
        return Comparison(None, None, None, "fail", f"dtype {actual.dtype} instead of {reference.dtype}")
    if reference.dtype.kind in "biu":
        return _compare_exactly(reference, actual, tolerance.min_equal)
    reference_nan, actual_nan = np.isnan(reference), np.isnan(actual)
    reference_inf, actual_inf = np.isinf(reference), np.isinf(actual)
    finite = ~(reference_nan | reference_inf | actual_nan | actual_inf)
    wide = np.complex128 if np.iscomplexobj(reference) else np.float64
    signal, noisy = reference.astype(wide), actual.astype(wide)
    error = np.abs(signal[finite] - noisy[finite])
    max_abs_error = float(error.max(initial=0.0))
    reference_max = float(np.abs(signal[finite]).max(initial=0.0))
    sqnr_db = measure_sqnr_db(reference, actual, floor_rms)

    def judged(verdict: Verdict, reason: str | None = None, sqnr: float | None = sqnr_db) -> Comparison:
        return Comparison(max_abs_error, sqnr, reference_max, verdict, reason)

    if not np.array_equal(reference_nan, actual_nan):
        return judged("fail", f"NaN at other places: {int(actual_nan.sum())} against {int(reference_nan.sum())}")
    same_inf = np.array_equal(reference_inf, actual_inf)
    if not same_inf or not np.array_equal(signal[reference_inf], noisy[reference_inf]):
        return judged("fail", f"Inf at other places: {int(actual_inf.sum())} against {int(reference_inf.sum())}")
    rms = float(np.sqrt(np.mean(np.abs(signal[finite]) ** 2))) if finite.any() else 0.0
    limit = tolerance.max_abs_allowed(reference_max)
    too_far = limit is not None and max_abs_error > limit
    constant = int(finite.sum()) > 1 and bool(np.all(signal[finite] == signal[finite].flat[0]))
    if rms < VACUOUS_RMS or constant:
        # The error is still real where it is large: a vacuous reference never excuses a wrong output.
        allowed = floor_rms * 10 ** (-tolerance.min_sqnr_db / 20) if floor_rms else 1e-3 * max(1.0, reference_max)
        if max_abs_error > max(limit or 0.0, allowed):
            return judged("fail", f"max error {max_abs_error:.2g} where eager is constant", None)
        return judged("inconclusive", f"eager's output is constant or near zero (RMS {rms:.1g})", None)
    if sqnr_db < tolerance.min_sqnr_db:
        return judged("fail", f"SQNR {sqnr_db:.1f} dB is below {tolerance.min_sqnr_db:g} dB")
    if too_far:
        return judged("fail", f"max error {max_abs_error:.2g} is above {limit:.2g}")
    return judged("pass")


def compare_choices(
    reference: np.ndarray, actual: np.ndarray, values: np.ndarray, axis: int, tolerance: Tolerance
) -> Comparison:
    """Compare indices by what they choose: among equals every order is right.

    Args:
        reference: Eager's indices.
        actual: The artifact's.
        values: What both choose from.
        axis: The axis of `values` that they count along; one that both lack was reduced to a single index.
        tolerance: Limits for what is chosen.
    """
    if reference.shape != actual.shape or reference.dtype.kind != actual.dtype.kind:
        return compare_output(reference, actual, tolerance)
    single = reference.ndim < values.ndim
    wanted, found = (np.expand_dims(array, axis) if single else array for array in (reference, actual))
    size = values.shape[axis]
    if found.ndim != values.ndim or (found.size and (found.min() < 0 or found.max() >= size)):
        return Comparison(None, None, None, "fail", f"indices outside of 0 to {size - 1}")
    ordered = np.sort(found, axis)
    if np.any(np.diff(ordered, axis=axis) == 0):
        return Comparison(None, None, None, "fail", "an index is there twice")
    try:
        chosen = [np.take_along_axis(values, array.astype(np.int64), axis) for array in (wanted, found)]
    except (ValueError, IndexError):
        return compare_output(reference, actual, tolerance)
    return compare_output(chosen[0], chosen[1], tolerance)


def compare_limits(reference: np.ndarray, actual: np.ndarray, least: np.ndarray, most: np.ndarray) -> Comparison:
    """Compare an output that was rounded from numbers with what it may be.

    Args:
        reference: Eager's output.
        actual: The artifact's.
        least: The least that each element may be; 0 and 1 for booleans.
        most: The largest.
    """
    if actual.shape != least.shape or reference.dtype != actual.dtype:
        return _compare_exactly(reference, actual, 1.0)
    wide = actual.astype(np.float64)
    error = np.abs(reference.astype(np.float64) - wide)
    outside = int((~((wide >= least) & (wide <= most))).sum())
    reason = f"{outside} of {actual.size} values are further off than rounding takes them" if outside else None
    largest = float(np.abs(reference.astype(np.float64)).max(initial=0.0))
    return Comparison(float(error.max(initial=0.0)), None, largest, "fail" if outside else "pass", reason)


def _compare_exactly(reference: np.ndarray, actual: np.ndarray, min_equal: float) -> Comparison:
    """Integers and booleans: enough of them equal or not; a constant reference proves nothing by being equal."""
    error = np.abs(reference.astype(np.float64) - actual.astype(np.float64))
    max_abs_error = float(error.max(initial=0.0))
    reference_max = float(np.abs(reference.astype(np.float64)).max(initial=0.0))
    wrong = int((error > 0).sum())
    if wrong > (1.0 - min_equal) * reference.size or reference.dtype != actual.dtype:
        reason = f"{wrong} of {reference.size} values differ"
        if reference.dtype != actual.dtype:
            reason = f"dtype {actual.dtype} instead of {reference.dtype}"
        return Comparison(max_abs_error, None, reference_max, "fail", reason)
    if reference.size > 1 and np.all(reference == reference.flat[0]):
        return Comparison(max_abs_error, None, reference_max, "inconclusive", "eager's output is constant")
    return Comparison(max_abs_error, None, reference_max, "pass")


def round_significant(value: float | None, digits: int = 2) -> float | None:
    """Round to `digits` significant digits, so that figures in a manifest do not differ between two exports."""
    if value is None or not np.isfinite(value):
        return None
    return float(f"{value:.{digits}g}") if abs(value) < 10**digits else float(round(value))
