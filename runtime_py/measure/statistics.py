"""What samples say and how surely: median, spread, percentiles, bootstrap intervals, and who is faster.

Samples come in rounds (see module `timing`). Calls of one round share the state of the machine, so rounds and not
calls are resampled: an interval over calls would be too narrow. Randomness is seeded; the same samples always
give the same figures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median as middle_of  # for a few samples, quicker than NumPy's
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Rounds = Sequence[Sequence[float]]
FloatArray = npt.NDArray[np.float64]
Interval = tuple[float, float]
Verdict = Literal["faster", "slower", "no difference", "undecided"]

RESAMPLES = 1000

# Of a longer round, so many samples take part in the bootstrap of a median.
MOST_RANKS = 1000

# With fewer rounds not even the range from the smallest to the largest covers the median 95 times in 100: 1 - 2 / 2^n.
MIN_ROUNDS = 6

# A percentile needs about ten samples beyond it before it is more than one unlucky call.
MIN_SAMPLES_P90 = 10
MIN_SAMPLES_P95 = 20
MIN_SAMPLES_P99 = 1000

# Share cut from each end before averaging the rounds' ratios: robust against rounds that were disturbed, and steadier
# than the median of few ratios (Yuen, "The two-sample trimmed t for unequal population variances", 1974).
_TRIMMED_SHARE = 0.2

# A difference below this is one that nobody acts on; an interval that reaches further leaves the question open.
DEFAULT_MARGIN = 0.03

# Two sessions of one artifact, loaded one after the other, differed by up to 0.5 % for good: their memory lies
# elsewhere. No interval within a run shows that, so a smaller change than this is never called faster or slower.
LEAST_CHANGE = 0.01

_CELLS_PER_PIECE = 4_000_000

# The normal distribution's 97.5 % quantile.
_NORMAL = 1.959964


@dataclass(frozen=True)
class Summary:
    """Samples in figures, all in seconds unless named otherwise.

    Attributes:
        n: Number of samples.
        min: The fastest, an estimate of what a quiet machine would do.
        median: The headline.
        median_ci95: 95 % bootstrap interval of the median over rounds; None under `MIN_ROUNDS` rounds.
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
        ci95: Its 95 % bootstrap interval over rounds, or over sessions where these were opened anew; None under
            `MIN_ROUNDS` of them.
    """

    ratio: float
    ci95: Interval | None


@dataclass(frozen=True)
class Judgement:
    """A candidate held against a baseline.

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
        median_ci95=bootstrap_median(rounds),
        mean=float(pooled.mean()),
        p90=_percentile(pooled, 90, MIN_SAMPLES_P90),
        p95=_percentile(pooled, 95, MIN_SAMPLES_P95),
        p99=_percentile(pooled, 99, MIN_SAMPLES_P99),
        mad=float(np.median(np.abs(pooled - median))),
        outlier_share=float(np.mean(pooled > third + 3.0 * (third - first))),
    )


def bootstrap_median(rounds: Rounds, resamples: int = RESAMPLES, seed: int = 0) -> Interval | None:
    """The 95 % percentile interval of the median of all samples, rounds resampled with replacement.

    Returns:
        None under `MIN_ROUNDS` rounds.

    Raises:
        ValueError: There is no sample, or a round is empty.
    """
    _pool(rounds)
    if len(rounds) < MIN_ROUNDS:
        return None
    # Of very long rounds every k-th sample by size stands for the others: a thousandth of a round's ranks is far finer
    # than the interval, and a resample of 200,000 samples would take seconds.
    step = math.ceil(max(len(samples) for samples in rounds) / MOST_RANKS)
    kept = [np.sort(samples)[(step - 1) // 2 :: step] if step > 1 else np.asarray(samples) for samples in rounds]
    longest = max(len(samples) for samples in kept)
    # Rounds of unequal length are padded with NaN, which the median of a resample leaves out.
    table = np.full((len(rounds), longest), np.nan)
    for row, samples in zip(table, kept, strict=True):
        row[: len(samples)] = samples
    median = np.nanmedian if np.isnan(table).any() else np.median
    return _bootstrap(
        len(rounds), lambda chosen: median(table[chosen].reshape(len(chosen), -1), axis=1), table.size, resamples, seed
    )


def estimate_ratio(
    baseline: Rounds,
    candidate: Rounds,
    resamples: int = RESAMPLES,
    seed: int = 0,
    rounds_per_session: int = 1,
    luck: float = 0.0,
) -> RatioEstimate:
    """How many times longer the candidate took, from rounds in which both were timed next to each other.

    The ratio is taken within each round first: drift and slow changes of the machine touch both and cancel.

    Args:
        baseline: Rounds of the baseline.
        candidate: Rounds of the candidate, the same number.
        resamples: For the interval.
        seed: For the interval.
        rounds_per_session: After this many rounds the sessions were opened anew. Rounds of one session share the luck
            of where its memory lies, so whole sessions are resampled. 1 resamples rounds.
        luck: What a few processes leave unknown, in logarithms: see `measure_luck`. It adds to the interval as
            independent errors do.

    Raises:
        ValueError: The numbers of rounds differ, they do not fill whole sessions, or a round is empty.
    """
    if len(baseline) != len(candidate):
        raise ValueError(f"{len(baseline)} rounds of the baseline, {len(candidate)} of the candidate")
    if len(baseline) % rounds_per_session:
        raise ValueError(f"{len(baseline)} rounds are no whole sessions of {rounds_per_session}")
    _pool(baseline)
    _pool(candidate)
    logs = np.log([middle_of(c) / middle_of(b) for b, c in zip(baseline, candidate, strict=True)])
    middle = float(_trimmed_mean(logs[None, :])[0])
    interval = None
    sessions = logs.reshape(-1, rounds_per_session)
    if len(sessions) >= MIN_ROUNDS:
        low, high = _bootstrap(
            len(sessions),
            lambda chosen: _trimmed_mean(sessions[chosen].reshape(len(chosen), -1)),
            logs.size,
            resamples,
            seed,
        )
        wider = _widen_for(len(sessions)) * _widen_for_memory(sessions.mean(axis=1))
        interval = (
            float(np.exp(middle - math.hypot((middle - min(low, middle)) * wider, luck))),
            float(np.exp(middle + math.hypot((max(high, middle) - middle) * wider, luck))),
        )
    return RatioEstimate(float(np.exp(middle)), interval)


def measure_luck(
    baseline: Rounds, others: Sequence[Rounds], rounds_per_process: Sequence[int], rounds_per_session: int = 1
) -> float:
    """How far ratios lie from the truth because every process has a luck of its own, 95 times in 100.

    A process keeps for life what it was given at its start: where its libraries and threads lie. Two processes of one
    artifact can differ by 1 % for good, and no resampling of the sessions within few processes shows that. The
    variance between processes is that of their own ratios, less what the sessions' spread explains (analysis of
    variance with random effects), pooled over all contestants, as there are only a few processes of each.

    Args:
        baseline: Rounds of the baseline.
        others: Rounds of each of the others.
        rounds_per_process: How many of the rounds each process timed, in order.
        rounds_per_session: See `estimate_ratio`.

    Returns:
        Half the width of Student's interval of the processes' mean, in logarithms (0.01 is 1 %); 0 where the sessions
        explain everything, and for fewer than two processes, which tell nothing.
    """
    count = len(rounds_per_process)
    if count < 2:
        return 0.0
    bounds = np.cumsum(rounds_per_process)[:-1]
    between, explained = [], []
    for other in others:
        logs = np.log([middle_of(c) / middle_of(b) for b, c in zip(baseline, other, strict=True)])
        processes = [part.reshape(-1, rounds_per_session).mean(axis=1) for part in np.split(logs, bounds)]
        between.append(np.var([_trimmed_mean(part[None, :])[0] for part in processes], ddof=1))
        explained += [_trimmed_variance(part) for part in processes if len(part) > 1]
    variance = float(np.mean(between)) - (float(np.mean(explained)) if explained else 0.0)
    return _student(len(others) * (count - 1)) * math.sqrt(max(0.0, variance) / count)


def judge(
    baseline: Rounds,
    candidate: Rounds,
    baseline_again: Rounds | None,
    margin: float = DEFAULT_MARGIN,
    rounds_per_session: int = 1,
    luck: float = 0.0,
) -> Judgement:
    """Say whether the candidate is faster or slower than the baseline, and only if the samples carry it.

    Args:
        baseline: Rounds of the baseline.
        candidate: Rounds of the candidate, interleaved with the baseline's.
        baseline_again: The baseline once more in the same rounds: what two equal things differ by on this machine
            now. None where there is none; then the interval and `LEAST_CHANGE` decide.
        margin: Share below which a difference counts as none.
        rounds_per_session: See `estimate_ratio`.
        luck: See `estimate_ratio`.
    """
    estimate = estimate_ratio(baseline, candidate, rounds_per_session=rounds_per_session, luck=luck)
    floor = None
    if baseline_again is not None:
        again = estimate_ratio(baseline, baseline_again, rounds_per_session=rounds_per_session, luck=luck)
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


def _trimmed_mean(rows: FloatArray) -> FloatArray:
    """Mean of each row without its largest and smallest fifths."""
    cut = int(rows.shape[1] * _TRIMMED_SHARE)
    ordered = np.sort(rows, axis=1)[:, cut : rows.shape[1] - cut]
    return np.asarray(ordered.mean(axis=1))


def _trimmed_variance(values: FloatArray) -> float:
    """The variance of the trimmed mean of values: that of the winsorized values over n (1 - 2 g)^2 (Yuen, 1974)."""
    count, cut = len(values), int(len(values) * _TRIMMED_SHARE)
    ordered = np.sort(values)
    winsorized = np.clip(values, ordered[cut], ordered[count - cut - 1])
    return float(np.var(winsorized, ddof=1)) / (count * (1 - 2 * cut / count) ** 2)


def _widen_for(count: int) -> float:
    """How much wider the percentile interval of a mean of `count` values must be than the bootstrap makes it.

    Resampling few values underestimates their spread by sqrt((n - 1) / n) and takes the normal's quantile where
    Student's is due (Hesterberg, "What teachers should know about the bootstrap", 2015).
    """
    return float(_student(count - 1) / _NORMAL * np.sqrt(count / (count - 1)))


def _student(freedom: int) -> float:
    """Student's 97.5 % quantile, to 1 % from 3 degrees of freedom on (4 % at 2): the Cornish-Fisher expansion.

    Abramowitz and Stegun, "Handbook of Mathematical Functions", 26.7.5.
    """
    z = _NORMAL
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3


def _widen_for_memory(values: FloatArray) -> float:
    """How much wider an interval must be because neighbours in time resemble each other.

    Values that remember the one before count for fewer: n (1 - r) / (1 + r) of them, r being the lag-1
    autocorrelation (of ranks here, as single values may lie far out). At most three times as wide.
    """
    count = len(values)
    ranks = np.argsort(np.argsort(values)) - (count - 1) / 2
    # Of independent values the estimate lies 1 / n below nothing.
    memory = float(np.sum(ranks[1:] * ranks[:-1]) / np.sum(ranks**2)) + 1 / count
    return float(min(3.0, np.sqrt((1 + memory) / (1 - memory)))) if 0 < memory < 1 else 1.0


def _bootstrap(
    rounds: int, statistic: Callable[[npt.NDArray[np.int64]], Any], cells: int, resamples: int, seed: int
) -> Interval:
    """The 95 % percentile interval of a statistic of chosen rounds, in pieces that fit into the cache and memory."""
    generator = np.random.default_rng(seed)
    piece = max(1, min(resamples, _CELLS_PER_PIECE // max(1, cells)))
    values: list[FloatArray] = []
    for start in range(0, resamples, piece):
        chosen = generator.integers(0, rounds, size=(min(piece, resamples - start), rounds))
        values.append(np.asarray(statistic(chosen), dtype=np.float64))
    low, high = np.percentile(np.concatenate(values), [2.5, 97.5])
    return float(low), float(high)
