"""The figures are right, the intervals cover, and the verdict does not cry wolf."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from edgex.runtime.measure.statistics import (
    MIN_ROUNDS,
    Nesting,
    RatioEstimate,
    _student,
    decide,
    estimate_ratio,
    judge,
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
    assert summarize(rounds[:-1]).median_ci95 is None
    low, high = summarize(rounds).median_ci95
    assert low == pytest.approx(high) == pytest.approx(1.05)


def test_interval_is_reproducible_and_takes_rounds_of_unequal_length():
    generator = np.random.default_rng(5)
    rounds = [list(generator.lognormal(size=size)) for size in (5, 7, 3, 8, 8, 2, 9)]
    low, high = summarize(rounds).median_ci95
    assert (low, high) == summarize(rounds).median_ci95
    assert low < np.median(np.concatenate(rounds)) < high


# ---- the parts of the interval, with SciPy as the oracle


@pytest.mark.parametrize("freedom", [3, 4, 5.5, 9, 17.2, 60])
def test_students_quantile_is_scipys(freedom):
    assert _student(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), rel=0.01)


@pytest.mark.parametrize("count", [10, 25, 40])
def test_interval_of_rounds_alone_is_yuens(count):
    """One process, a round a session: the textbook's interval of a trimmed mean."""
    logs = np.sort(np.random.default_rng(count).normal(0.1, 0.02, count))
    logs[1::2] = logs[1::2][::-1].copy()  # neighbours are not alike, or the interval would allow for that
    estimate = estimate_ratio([[1.0]] * count, [[float(np.exp(value))] for value in logs])
    low, high = stats.mstats.trimmed_mean_ci(logs, limits=(0.2, 0.2))
    assert np.log(estimate.ratio) == pytest.approx(stats.trim_mean(logs, 0.2))
    assert np.log(estimate.ci95) == pytest.approx((low, high), rel=0.01)


def test_processes_that_differ_for_good_widen_the_interval_as_much_as_students_over_their_means():
    shifts = np.array([0.01, -0.012, 0.004])
    generator = np.random.default_rng(0)
    other = [[float(np.exp(shift + generator.normal(0, 1e-6)))] for shift in shifts for _ in range(10)]
    first = [[1.0]] * 30
    nesting = Nesting(1, (10, 10, 10))
    low, high = np.log(estimate_ratio(first, other, nesting).ci95)
    # Of three processes the trimmed mean is less sure than the mean; `_student` is 3 % off at two degrees of freedom.
    expected = stats.t.ppf(0.975, 2) * stats.sem(shifts)
    assert 0.97 * expected <= (high - low) / 2 <= 2 * expected
    pooled = np.log(estimate_ratio(first, other, nesting, [first]).ci95)
    assert pooled[1] - pooled[0] < high - low, "what did not differ between processes counts too"


# ---- coverage, by simulation


def simulate(generator, processes, sessions, rounds, spreads, disturbed=0.0):
    """Rounds of one sample each whose true ratio is 1, with errors of process, session and round."""
    process, session, noise = spreads
    shape = (processes, sessions, rounds)
    logs = generator.normal(0, process, (processes, 1, 1)) + generator.normal(0, session, (processes, sessions, 1))
    logs = logs + generator.normal(0, noise, shape)
    logs = logs + np.where(generator.random(shape) < disturbed, generator.exponential(1.0, shape), 0.0)
    return [[float(value)] for value in np.exp(logs.ravel())]


@pytest.mark.parametrize(
    ("processes", "sessions", "rounds", "spreads", "disturbed"),
    [
        pytest.param(1, 12, 1, (0, 0, 0.02), 0.0, id="12 rounds"),
        pytest.param(1, 30, 1, (0, 0, 0.02), 0.0, id="30 rounds"),
        pytest.param(1, 12, 4, (0, 0.01, 0.02), 0.0, id="12 sessions of 4 rounds"),
        pytest.param(3, 4, 4, (0.002, 0.005, 0.02), 0.0, id="3 processes, much alike"),
        pytest.param(3, 4, 4, (0.01, 0.005, 0.02), 0.0, id="3 processes that differ"),
        pytest.param(6, 4, 2, (0.01, 0.005, 0.02), 0.0, id="6 processes that differ"),
        pytest.param(3, 8, 4, (0.002, 0.005, 0.02), 0.04, id="one round in 25 disturbed"),
    ],
)
def test_of_100_intervals_93_to_97_hold_the_truth(processes, sessions, rounds, spreads, disturbed):
    trials, covered = 1500, 0
    nesting = Nesting(rounds, (sessions * rounds,) * processes)
    generator = np.random.default_rng(20261122)
    baseline = [[1.0]] * (processes * sessions * rounds)
    truth = _truth(spreads[2], disturbed)
    for _ in range(trials):
        # A contest has the candidate, another one, and the baseline once more.
        timed = [simulate(generator, processes, sessions, rounds, spreads, disturbed) for _ in range(3)]
        low, high = estimate_ratio(baseline, timed[0], nesting, timed[1:]).ci95
        covered += low <= truth <= high
    assert 0.93 <= covered / trials <= 0.97, f"{covered / trials:.1%} of the 95 % intervals hold the truth"


def _truth(noise, disturbed):
    """What the trimmed mean of many rounds tends to: 1, but a disturbance is always slower."""
    generator = np.random.default_rng(0)
    many = generator.normal(0, noise, 200_000) + np.where(
        generator.random(200_000) < disturbed, generator.exponential(1.0, 200_000), 0.0
    )
    return float(np.exp(stats.trim_mean(many, 0.2)))


def test_interval_of_the_median_covers_when_rounds_differ():
    """Calls of one round share a shift: an interval over calls would cover far less than 95 times in 100."""
    generator, covered, trials = np.random.default_rng(7), 0, 1000
    for _ in range(trials):
        shift = generator.normal(0.0, 0.1, size=(30, 1))
        low, high = summarize((1.0 + shift + generator.normal(0.0, 0.05, size=(30, 10))).tolist()).median_ci95
        covered += low <= 1.0 <= high
    assert 0.93 <= covered / trials <= 0.97, f"{covered / trials:.1%} of the 95 % intervals hold the true median"


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
