"""Verdicts on outputs: error, SQNR, NaN and Inf, and references that prove nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgex.delegates.recipes.tolerances import DEFAULT_TOLERANCES
from edgex.runtime.session.numerics import (
    EXACT_SQNR_DB,
    Tolerance,
    compare_output,
    measure_sqnr_db,
    round_significant,
)

FP32 = DEFAULT_TOLERANCES["fp32"]


def signal(size: int = 1000) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(size).astype(np.float32)


def test_sqnr_of_known_noise() -> None:
    reference = signal(100_000)
    noise = np.random.default_rng(1).standard_normal(100_000).astype(np.float32) * 0.01
    # Noise of 1 % of the signal's amplitude is 40 dB below it.
    assert measure_sqnr_db(reference, reference + noise) == pytest.approx(40.0, abs=0.1)


def test_equal_outputs_are_exact() -> None:
    found = compare_output(signal(), signal(), FP32)
    assert (found.verdict, found.sqnr_db, found.max_abs_error) == ("pass", EXACT_SQNR_DB, 0.0)


@pytest.mark.parametrize(
    ("precision", "noise_db", "verdict"),
    [
        ("fp32", 100.0, "pass"),
        ("fp32", 70.0, "fail"),
        ("fp16", 45.0, "pass"),
        ("fp16", 35.0, "fail"),
        ("bf16", 35.0, "pass"),
        ("bf16", 25.0, "fail"),
        ("int8", 25.0, "pass"),
        ("int8", 15.0, "fail"),
    ],
)
def test_each_precision_has_its_limit(precision: str, noise_db: float, verdict: str) -> None:
    reference = signal()
    noise = np.random.default_rng(1).standard_normal(1000) * 10 ** (-noise_db / 20)
    found = compare_output(reference, (reference + noise).astype(np.float32), DEFAULT_TOLERANCES[precision])
    assert found.verdict == verdict, f"{found.sqnr_db} dB: {found.reason}"


def test_one_wrong_element_fails_although_sqnr_is_high() -> None:
    reference = np.full(1_000_000, 10.0, np.float32) + np.arange(1_000_000, dtype=np.float32) % 7
    actual = reference.copy()
    actual[3] += 0.1
    found = compare_output(reference, actual, FP32)
    assert found.sqnr_db is not None and found.sqnr_db > 80
    assert found.verdict == "fail" and "max error 0.1" in str(found.reason)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_non_finite_values_must_be_at_the_same_places(value: float) -> None:
    reference, actual = signal(), signal()
    reference[5] = value
    assert compare_output(reference, actual, FP32).verdict == "fail"
    actual[5] = value
    assert compare_output(reference, actual, FP32).verdict == "pass"
    actual[5] = -value if np.isinf(value) else 0.0
    assert compare_output(reference, actual, FP32).verdict == "fail"


@pytest.mark.parametrize("reference", [np.zeros(10, np.float32), np.full(10, 3.0, np.float32), signal(10) * 1e-9])
def test_a_reference_that_says_nothing_is_inconclusive_when_matched(reference: np.ndarray) -> None:
    assert compare_output(reference, reference.copy(), FP32).verdict == "inconclusive"


def test_a_reference_that_says_nothing_does_not_excuse_a_wrong_output() -> None:
    assert compare_output(np.zeros(10, np.float32), np.ones(10, np.float32), FP32).verdict == "fail"


def test_a_single_number_can_pass() -> None:
    assert compare_output(np.array([0.7], np.float32), np.array([0.7], np.float32), FP32).verdict == "pass"


def test_integers_and_booleans_must_be_equal() -> None:
    reference = np.array([1, 2, 3])
    assert compare_output(reference, np.array([1, 2, 3]), FP32).verdict == "pass"
    wrong = compare_output(reference, np.array([1, 2, 4]), FP32)
    assert wrong.verdict == "fail" and "1 of 3 values differ" in str(wrong.reason)
    assert compare_output(np.array([True, False]), np.array([True, True]), FP32).verdict == "fail"
    assert compare_output(reference, reference.astype(np.int32), FP32).verdict == "fail"


def test_other_shapes_and_kinds_fail() -> None:
    assert compare_output(signal(4), signal(4).reshape(2, 2), FP32).verdict == "fail"
    assert compare_output(signal(4), np.arange(4), FP32).verdict == "fail"


def test_empty_outputs_are_inconclusive() -> None:
    empty = np.zeros((0, 3), np.float32)
    assert compare_output(empty, empty, FP32).verdict == "inconclusive"


def test_the_limit_grows_with_the_reference() -> None:
    assert Tolerance(80.0, 1e-4, 1e-4).max_abs_allowed(50.0) == pytest.approx(5e-3)
    assert Tolerance(80.0, 1e-4, 1e-4).max_abs_allowed(0.1) == pytest.approx(1e-4)
    assert Tolerance(40.0).max_abs_allowed(3.0) is None


@given(st.floats(min_value=1e-30, max_value=1e30))
def test_rounding_keeps_two_digits(value: float) -> None:
    rounded = round_significant(value)
    assert rounded is not None and abs(rounded - value) <= 0.051 * abs(value)


def test_rounding_of_what_is_unknown() -> None:
    assert round_significant(None) is None
    assert round_significant(float("nan")) is None


def test_small_signals_are_measured_against_the_ordinary_one() -> None:
    """The steps of a quantized output do not shrink with its values: one step off is no fault of a small signal."""
    reference = signal() * 1e-3
    actual = reference + 0.02
    tolerance = Tolerance(20.0)
    assert compare_output(reference, actual, tolerance).verdict == "fail"
    assert compare_output(reference, actual, tolerance, floor_rms=1.0).verdict == "pass"
    assert compare_output(reference, reference + 0.2, tolerance, floor_rms=1.0).verdict == "fail"


def test_a_constant_reference_excuses_a_step_and_no_more() -> None:
    constant = np.ones(8, np.float32)
    assert compare_output(constant, constant + 0.02, Tolerance(20.0)).verdict == "fail"
    assert compare_output(constant, constant + 0.02, Tolerance(20.0), floor_rms=1.0).verdict == "inconclusive"
    assert compare_output(constant, constant + 0.2, Tolerance(20.0), floor_rms=1.0).verdict == "fail"


def test_some_integers_of_a_quantized_output_may_turn() -> None:
    reference = np.arange(20)
    actual = reference.copy()
    actual[3] = 7
    assert compare_output(reference, actual, FP32).verdict == "fail"
    assert compare_output(reference, actual, DEFAULT_TOLERANCES["int8"]).verdict == "pass"
    actual[4:7] = 0
    found = compare_output(reference, actual, DEFAULT_TOLERANCES["int8"])
    assert (found.verdict, found.reason) == ("fail", "4 of 20 values differ")


@given(st.sampled_from(sorted(DEFAULT_TOLERANCES)))
def test_tolerances_survive_json(name: str) -> None:
    tolerance = DEFAULT_TOLERANCES[name]
    assert Tolerance.from_json(tolerance.to_json()) == tolerance
    older = {key: value for key, value in tolerance.to_json().items() if key != "min_equal"}
    assert Tolerance.from_json(older).min_equal == 1.0
