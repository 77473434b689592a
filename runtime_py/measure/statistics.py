"""What samples say and how surely: median, spread, percentiles, one kind of interval, and who is faster.

The model: samples lie in rounds, rounds in sessions, sessions in processes. Of a round, only its median counts, or, for
two things timed in turns, the logarithm of the ratio of their two medians: drift touches both and cancels. That is

```
y[process, session, round] = truth + process + session + round        three independent errors
```

where the errors of process and session are there for good (memory and libraries lie elsewhere) and that of a round is
noise. The estimate is the 20 % trimmed mean of all y, so that disturbed rounds do not count. Its 95 % interval is
Student's, from the winsorized y (Yuen, "The two-sample trimmed t for unequal population variances", 1974): with P
processes of S sessions each

```
variance = within / (P S)  +  between / P          within: of the sessions' means in a process; between: of processes
freedom  = (sum of both terms)^2 / (sum of term^2 / its own degrees of freedom)        (Satterthwaite, 1946)
```

`tests/runtime/measure/test_statistics.py` checks the parts with SciPy and the interval's coverage by simulation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median as middle_of  # for a few samples, quicker than NumPy's
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Rounds = Sequence[Sequence[float]]
FloatArray = npt.NDArray[np.float64]
Interval = tuple[float, float]
Verdict = Literal["faster", "slower", "no difference", "undecided"]

# With fewer rounds the spread that Student's interval rests on is itself a guess.
MIN_ROUNDS = 6

# A percentile needs about ten samples beyond it before it is more than one disturbed call.
MIN_SAMPLES_P90 = 10
MIN_SAMPLES_P95 = 20
MIN_SAMPLES_P99 = 1000

# Share cut from each end before averaging: robust against disturbed rounds, and steadier than the median of few.
_TRIMMED_SHARE = 0.2

# A difference below this is one that nobody acts on; an interval that reaches further leaves the question open.
DEFAULT_MARGIN = 0.03

# Two sessions of one artifact, loaded one after the other, differed by up to 0.5 % for good: their memory lies
# elsewhere. No interval within a run shows that, so a smaller change than this is never called faster or slower.
LEAST_CHANGE = 0.01

# The normal distribution's 97.5 % quantile.
_NORMAL = 1.959964


@dataclass(frozen=True)
class Nesting:
    """Which rounds share a session and a process, in the order in which they were timed.

    Attributes:
        rounds_per_session: After this many rounds the session was opened anew.
        rounds_per_process: How many rounds each process timed; empty for one process.
    """

    rounds_per_session: int = 1
    rounds_per_process: tuple[int, ...] = ()


@dataclass(frozen=True)
class Summary:
    """Samples in figures, all in seconds unless named otherwise.

    Attributes:
        n: Number of samples.
        min: The fastest, an estimate of what a quiet machine would do.
        median: The headline.
        median_ci95: 95 % interval of the median, from the rounds' medians; None under `MIN_ROUNDS` rounds.
        mean: For throughput only: one preempted call moves it.
        p90: None under `MIN_SAMPLES_P90` samples.
        p95: None under `MIN_SAMPLES_P95` samples.
        p99: None under `MIN_SAMPLES_P99` samples.
        mad: Median absolute deviation from the median, not scaled.
        outlier_share: Share of samples beyond the third quartile by more than three interquartile ranges, 0 to 1.
    """

    n: int
    min: float
    median: float
    median_ci95: Interval | None
    mean: float
    p90: float | None
    p95: float | None
    p99: float | None
    mad: float
    outlier_share: float


@dataclass(frozen=True)
class RatioEstimate:
    """How many times longer one thing took than another, both timed in the same rounds.

    Attributes:
        ratio: 20 % trimmed mean over rounds of the ratio of the two medians of that round; 0.9 is a tenth less time.
        ci95: Its 95 % interval; None under `MIN_ROUNDS` sessions (rounds, where no session was opened anew).
    """

    ratio: float
    ci95: Interval | None


@dataclass(frozen=True)
class Judgement:
    """A candidate compared with a baseline.

    Attributes:
        estimate: Candidate's time over baseline's.
        floor: What a difference must exceed, as a share (0.01 is 1 %): the furthest that the interval of the baseline
            against itself, timed in the same rounds, reaches from 1. None when there was no such pair.
        margin: What would count as no difference, as a share.
        verdict: `faster` and `slower` only if the interval excludes 1 and the change exceeds the floor and
            `LEAST_CHANGE`; `no difference` if the interval lies within 1 +- margin; otherwise `undecided`.
    """

    estimate: RatioEstimate
    floor: float | None
    margin: float
    verdict: Verdict

    def to_json(self) -> dict[str, Any]:
        """`{"ratio", "ratio_ci95", "floor", "margin", "verdict"}`."""
        interval = self.estimate.ci95
        return {
            "ratio": self.estimate.ratio,
            "ratio_ci95": None if interval is None else list(interval),
            "floor": self.floor,
            "margin": self.margin,
            "verdict": self.verdict,
        }


def summarize(rounds: Rounds) -> Summary:
    """Put rounds of samples, in seconds, into figures.

    Raises:
        ValueError: There is no sample, or a round is empty.
    """
    pooled = _pool(rounds)
    median = float(np.median(pooled))
    first, third = np.percentile(pooled, [25, 75])
    return Summary(
        n=pooled.size,
        min=float(pooled.min()),
        median=median,
        median_ci95=_median_interval(rounds, median),
        mean=float(pooled.mean()),
        p90=_percentile(pooled, 90, MIN_SAMPLES_P90),
        p95=_percentile(pooled, 95, MIN_SAMPLES_P95),
        p99=_percentile(pooled, 99, MIN_SAMPLES_P99),
        mad=float(np.median(np.abs(pooled - median))),
        outlier_share=float(np.mean(pooled > third + 3.0 * (third - first))),
    )


def estimate_ratio(
    baseline: Rounds, candidate: Rounds, nesting: Nesting = Nesting(), others: Sequence[Rounds] = ()
) -> RatioEstimate:
    """How many times longer the candidate took, from rounds in which both were timed next to each other.

    Args:
        baseline: Rounds of the baseline.
        candidate: Rounds of the candidate, the same number.
        nesting: Which rounds share a session and a process.
        others: What else was timed in the same rounds. There are only a few processes, so what they differ by is
            estimated from all contestants together.

    Raises:
        ValueError: The numbers of rounds differ, they do not fill whole sessions, or a round is empty.
    """
    if len(baseline) != len(candidate):
        raise ValueError(f"{len(baseline)} rounds of the baseline, {len(candidate)} of the candidate")
    if len(baseline) % nesting.rounds_per_session:
        raise ValueError(f"{len(baseline)} rounds are no whole sessions of {nesting.rounds_per_session}")
    logs = _log_ratios(baseline, candidate)
    middle = _trimmed_mean(logs)
    if len(logs) // nesting.rounds_per_session < MIN_ROUNDS:
        return RatioEstimate(math.exp(middle), None)
    half = _half_width(logs, nesting, [_log_ratios(baseline, other) for other in others if other is not candidate])
    return RatioEstimate(math.exp(middle), (math.exp(middle - half), math.exp(middle + half)))


def judge(
    baseline: Rounds,
    candidate: Rounds,
    baseline_again: Rounds | None,
    margin: float = DEFAULT_MARGIN,
    nesting: Nesting = Nesting(),
    others: Sequence[Rounds] = (),
) -> Judgement:
    """Say whether the candidate is faster or slower than the baseline, and only if the samples carry it.

    Args:
        baseline: Rounds of the baseline.
        candidate: Rounds of the candidate, interleaved with the baseline's.
        baseline_again: The baseline once more in the same rounds: what two equal things differ by on this machine
            now. None where there is none; then the interval and `LEAST_CHANGE` decide.
        margin: Share below which a difference counts as none.
        nesting: See `estimate_ratio`.
        others: See `estimate_ratio`.
    """
    estimate = estimate_ratio(baseline, candidate, nesting, others)
    floor = None
    if baseline_again is not None:
        again = estimate_ratio(baseline, baseline_again, nesting, others)
        floor = max(abs(bound - 1.0) for bound in again.ci95 or (again.ratio,))
    return Judgement(estimate, floor, margin, decide(estimate, floor, margin))


def decide(estimate: RatioEstimate, floor: float | None, margin: float = DEFAULT_MARGIN) -> Verdict:
    """The verdict of `Judgement` for an estimate."""
    if estimate.ci95 is None:
        return "undecided"
    low, high = estimate.ci95
    excludes_one = low > 1.0 or high < 1.0
    if excludes_one and abs(estimate.ratio - 1.0) > max(floor or 0.0, LEAST_CHANGE):
        return "faster" if high < 1.0 else "slower"
    if low >= 1.0 - margin and high <= 1.0 + margin:
        return "no difference"
    return "undecided"


def _pool(rounds: Rounds) -> FloatArray:
    if not rounds or any(len(samples) == 0 for samples in rounds):
        raise ValueError("every round needs at least one sample")
    return np.concatenate([np.asarray(samples, dtype=np.float64) for samples in rounds])


def _percentile(pooled: FloatArray, percent: float, needed: int) -> float | None:
    return float(np.percentile(pooled, percent)) if pooled.size >= needed else None


def _log_ratios(baseline: Rounds, candidate: Rounds) -> FloatArray:
    """One number a round: the logarithm of the ratio of the two medians."""
    if not baseline or any(len(samples) == 0 for samples in (*baseline, *candidate)):
        raise ValueError("every round needs at least one sample")
    return np.log([middle_of(c) / middle_of(b) for b, c in zip(baseline, candidate, strict=True)])


def _median_interval(rounds: Rounds, median: float) -> Interval | None:
    """The interval of the rounds' medians, around the median of all samples."""
    if len(rounds) < MIN_ROUNDS:
        return None
    half = _half_width(np.log([middle_of(samples) for samples in rounds]), Nesting(), ())
    return median * math.exp(-half), median * math.exp(half)


def _trimmed_mean(values: FloatArray) -> float:
    """Mean without the largest and smallest fifths."""
    cut = int(len(values) * _TRIMMED_SHARE)
    return float(np.sort(values)[cut : len(values) - cut].mean())


def _half_width(values: FloatArray, nesting: Nesting, others: Sequence[FloatArray]) -> float:
    """Half the width of the 95 % interval of the trimmed mean of `values`, one a round; see the module's model."""
    within, within_freedom, between = _variances(values, nesting)
    count = max(1, len(nesting.rounds_per_process))
    between_freedom = 0
    if count > 1:
        pooled = [between, *(_variances(other, nesting)[2] for other in others)]
        between, between_freedom = max(0.0, float(np.mean(pooled))), len(pooled) * (count - 1)
    total = within + between
    if total == 0.0:
        return 0.0
    freedom = total**2 / (within**2 / within_freedom + (between**2 / between_freedom if between_freedom else 0.0))
    return _student(freedom) * math.sqrt(total)


def _variances(values: FloatArray, nesting: Nesting) -> tuple[float, float, float]:
    """The two terms of the variance of the trimmed mean: (within, its degrees of freedom, between).

    `between` may come out below zero, as an estimate from few processes does; pooled, these errors cancel.
    """
    cut = int(len(values) * _TRIMMED_SHARE)
    ordered = np.sort(values)
    winsorized = np.clip(values, ordered[cut], ordered[len(values) - cut - 1])
    uncut = 1 - 2 * cut / len(values)
    bounds = np.cumsum(nesting.rounds_per_process)[:-1].tolist()
    processes = [part.reshape(-1, nesting.rounds_per_session).mean(axis=1) for part in np.split(winsorized, bounds)]
    sessions = sum(len(part) for part in processes)
    # Trimming leaves fewer values to estimate from, but means of sessions are cut in a part of their rounds only.
    freedom = max(1.0, sessions * uncut ** (1 / nesting.rounds_per_session) - len(processes))
    deviations = np.concatenate([part - part.mean() for part in processes])
    spread = float(deviations @ deviations) / (sessions - len(processes)) if sessions > len(processes) else 0.0
    within = spread / sessions / uncut**2 * _memory_factor(deviations)
    between = 0.0
    if len(processes) > 1:
        # Analysis of variance with random effects, for processes of unequal length (Searle, "Linear Models", 1971).
        lengths = np.array([len(part) for part in processes], dtype=np.float64)
        means = np.array([part.mean() for part in processes])
        apart = float(lengths @ (means - float(lengths @ means) / sessions) ** 2) / (len(processes) - 1)
        usual = (sessions - float(lengths @ lengths) / sessions) / (len(processes) - 1)
        between = (apart - spread) / usual / uncut**2 * float(lengths @ lengths) / sessions**2
    return within, freedom, between


def _memory_factor(values: FloatArray) -> float:
    """How much larger the variance of a mean is because neighbours in time resemble each other, 1 to 9.

    Values that remember the one before count for fewer: n (1 - r) / (1 + r) of them, r being the lag-1
    autocorrelation (of ranks here, as single values may lie far out).
    """
    count = len(values)
    ranks = np.argsort(np.argsort(values)) - (count - 1) / 2
    # Of independent values the estimate lies 1 / n below zero, and spreads by 1 / sqrt(n).
    again = float(ranks[:-1] @ ranks[1:]) / float(ranks @ ranks) + 1 / count
    return min(9.0, (1 + again) / (1 - again)) if 1 / math.sqrt(count) < again < 1.0 else 1.0


def _student(freedom: float) -> float:
    """Student's 97.5 % quantile, to 1 % from 3 degrees of freedom on (4 % at 2): the Cornish-Fisher expansion.

    Abramowitz and Stegun, "Handbook of Mathematical Functions", 26.7.5.
    """
    z = _NORMAL
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3
