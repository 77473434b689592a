"""The figures are right, the intervals cover, and the verdict does not cry wolf."""

from __future__ import annotations

import numpy as np
import pytest

from edgex.runtime.measure.statistics import (
    MIN_ROUNDS,
    RatioEstimate,
    bootstrap_median,
    decide,
    estimate_ratio,
    judge,
    measure_luck,
    summarize,
)


def test_summary_of_known_samples():
    summary = summarize([[1.0, 2.0, 3.0], [4.0, 100.0]])
    assert (summary.n, summary.min, summary.median, summary.mean) == (5, 1.0, 3.0, 22.0)
    assert summary.mad == 1.0  # deviations 2 1 0 1 97
    assert summary.median_ci95 is None
    assert summary.p90 is None and summary.p95 is None and summary.p99 is None


def test_percentiles_appear_when_there_are_enough_samples():
    samples = [float(value) for value in range(1, 1001)]
    summary = summarize([samples[at : at + 100] for at in range(0, 1000, 100)])
    assert summary.p90 == pytest.approx(900.1)
    assert summary.p95 == pytest.approx(950.05)
    assert summary.p99 == pytest.approx(990.01)
    assert summarize([samples[:999]]).p99 is None
    assert summarize([samples[:19]]).p95 is None
    assert summarize([samples[:9]]).p90 is None


def test_outlier_share_counts_far_samples_only():
    samples = [1.0 + 0.001 * (at % 10) for at in range(96)] + [5.0] * 4
    assert summarize([samples]).outlier_share == pytest.approx(0.04)


@pytest.mark.parametrize("rounds", [[], [[]], [[1.0], []]])
def test_no_samples_is_refused(rounds):
    with pytest.raises(ValueError, match="at least one sample"):
        summarize(rounds)


def test_interval_needs_enough_rounds():
    rounds = [[1.0, 1.1]] * MIN_ROUNDS
    assert bootstrap_median(rounds[:-1]) is None
    low, high = bootstrap_median(rounds)
    assert 1.0 <= low <= high <= 1.1


def test_interval_is_reproducible_and_takes_rounds_of_unequal_length():
    generator = np.random.default_rng(5)
    rounds = [list(generator.lognormal(size=size)) for size in (5, 7, 3, 8, 8, 2, 9)]
    first = bootstrap_median(rounds)
    assert first == bootstrap_median(rounds)
    pooled = np.concatenate(rounds)
    assert pooled.min() < first[0] < np.median(pooled) < first[1] < pooled.max()


def test_interval_of_the_median_covers_when_rounds_differ():
    """Calls of one round share a shift: an interval over calls would cover far less than 95 times in 100."""
    covered = 0
    for trial in range(200):
        generator = np.random.default_rng(trial)
        shift = generator.normal(0.0, 0.1, size=(30, 1))
        table = 1.0 + shift + generator.normal(0.0, 0.05, size=(30, 10))
        low, high = bootstrap_median(table.tolist(), resamples=400)
        covered += low <= 1.0 <= high
    assert covered >= 180, f"{covered} of 200 intervals hold the true median"


def test_ratio_cancels_what_both_share_in_a_round():
    speed = np.geomspace(1.0, 8.0, 20)  # the machine becomes eight times slower while measuring
    baseline = [[value, value * 1.01] for value in speed]
    candidate = [[value * 1.1, value * 1.111] for value in speed]
    estimate = estimate_ratio(baseline, candidate)
    assert estimate.ratio == pytest.approx(1.1)
    assert estimate.ci95 == pytest.approx((1.1, 1.1))


def test_ratio_ignores_a_fifth_of_disturbed_rounds():
    baseline = [[1.0]] * 20
    candidate = [[0.9]] * 17 + [[50.0]] * 3
    assert estimate_ratio(baseline, candidate).ratio == pytest.approx(0.9)


def test_ratio_needs_the_same_rounds():
    with pytest.raises(ValueError, match="2 rounds of the baseline, 1 of the candidate"):
        estimate_ratio([[1.0], [1.0]], [[1.0]])


@pytest.mark.parametrize(
    ("ratio", "interval", "floor", "verdict"),
    [
        (0.90, (0.88, 0.92), 0.01, "faster"),
        (1.10, (1.08, 1.12), 0.01, "slower"),
        (0.98, (0.97, 0.99), 0.03, "no difference"),  # real or not, the machine itself differs by more
        (0.90, (0.85, 0.95), 0.20, "undecided"),  # below the floor, and too wide to call it nothing
        (1.00, (0.99, 1.01), 0.01, "no difference"),
        (1.00, (0.90, 1.10), 0.01, "undecided"),
        (0.995, (0.994, 0.996), 0.001, "no difference"),  # certain, and as much as loading again may change
        (0.90, None, None, "undecided"),
        (0.90, (0.88, 0.92), None, "faster"),
    ],
)
def test_verdict(ratio, interval, floor, verdict):
    assert decide(RatioEstimate(ratio, interval), floor) == verdict


def test_floor_is_the_far_end_of_the_baseline_against_itself():
    generator = np.random.default_rng(1)
    baseline = generator.normal(1.0, 0.02, size=(20, 5)).tolist()
    again = generator.normal(1.0, 0.02, size=(20, 5)).tolist()
    judgement = judge(baseline, again, again)
    low, high = judgement.estimate.ci95
    assert judgement.floor == pytest.approx(max(1 - low, high - 1))
    assert judgement.verdict == "no difference"
    assert judgement.to_json() == {
        "ratio": judgement.estimate.ratio,
        "ratio_ci95": [low, high],
        "floor": judgement.floor,
        "margin": 0.03,
        "verdict": "no difference",
    }


def test_luck_of_processes_is_students_interval_over_them():
    generator = np.random.default_rng(0)
    luck = [0.01, -0.01, 0.0]
    first = [[1.0]] * 30
    other = [[float(np.exp(shift + generator.normal(0, 1e-5)))] for shift in luck for _ in range(10)]
    # Student's 97.5 % quantile with 2 degrees of freedom is 4.303; the processes' standard deviation is 0.01.
    assert measure_luck(first, [other], [10, 10, 10]) == pytest.approx(4.303 * 0.01 / np.sqrt(3), rel=0.05)
    assert measure_luck(first, [other, first], [10, 10, 10]) < measure_luck(first, [other], [10, 10, 10])
    assert measure_luck(first, [other], [30]) == 0.0
    low, high = estimate_ratio(first, other, luck=0.02).ci95
    assert np.log(low) < -0.0199 and np.log(high) > 0.0199
