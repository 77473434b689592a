"""Take samples: warm up, then time calls in rounds; two things are only ever compared interleaved.

```python
result = compare_interleaved([lambda: a.run(x), lambda: b.run(x)], ["a", "b"])
result.judgements[0].verdict        # b against a: "faster", "slower", "no difference" or "undecided"
```

What is timed and by which clock are arguments, so the rules here are tested with simulated machines. What the samples
mean is in `edgex.runtime.statistics`.
"""

from __future__ import annotations

import gc
import math
import statistics as stdlib_statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice

from edgex.runtime.statistics import DEFAULT_MARGIN, Judgement, Summary, judge, summarize

Call = Callable[[], object]
Clock = Callable[[], int]  # nanoseconds, as time.perf_counter_ns

# A sample shorter than this is mostly clock and loop (about 0.1 us): several calls then share one sample.
MIN_SAMPLE_SECONDS = 20e-6

# Warm-up ends when the medians of two windows in a row agree this well.
_SETTLED_WITHIN = 0.02
_WINDOW_CALLS = 3
_WINDOW_SECONDS = 0.05
_WARM_UP_MAX_SECONDS = 5.0

# Sizes of a measurement whose number of runs was not given. About three seconds; 1000 samples and more for calls under
# 3 ms, so that a p99 exists; ten for calls of any length.
_BUDGET_SECONDS = 3.0
_MIN_SAMPLES, _MAX_SAMPLES = 10, 10_000
_MAX_ROUNDS = 30

# A block of one candidate within an interleaved round: short against the time in which a machine's speed changes.
_BLOCK_SECONDS = 0.02
_BLOCK_MIN_SAMPLES, _BLOCK_MAX_SAMPLES = 3, 50
_COMPARE_MIN_ROUNDS, _COMPARE_MAX_ROUNDS = 12, 60
_COMPARE_BUDGET_SECONDS = 10.0


@dataclass(frozen=True)
class Workload:
    """What is timed.

    Attributes:
        calls: One call that can be repeated at will; or, where `reset` is given, the calls of one sequence.
        reset: Puts the start of the sequence back, not timed; None when calls do not depend on each other.
    """

    calls: tuple[Call, ...]
    reset: Call | None = None


@dataclass(frozen=True)
class WarmUp:
    """What warming up found.

    Attributes:
        calls: Calls made.
        seconds: How long it took.
        settled: Whether two window medians in a row agreed; None when the number of calls was given.
        call_seconds: Median duration of a call in the last window.
    """

    calls: int
    seconds: float
    settled: bool | None
    call_seconds: float


@dataclass(frozen=True)
class RoundPlan:
    """How many samples are taken.

    Attributes:
        samples: All samples.
        rounds: Number of rounds; each starts from reset where there is state.
        samples_per_round: Samples in each round, fewer in the last one if they do not divide evenly.
        calls_per_sample: Calls that share one sample, whose duration is divided by them.
    """

    samples: int
    rounds: int
    samples_per_round: int
    calls_per_sample: int


@dataclass(frozen=True)
class InterleavedComparison:
    """Several candidates timed in turns; the first is the baseline of the others.

    Attributes:
        names: The candidates.
        summaries: Figures of each.
        judgements: Each candidate but the first, held against the first.
        rounds: Samples of each candidate in seconds, `[candidate][round][sample]`.
        plans: How the samples of each were taken.
        warm_ups: How each warmed up.
    """

    names: tuple[str, ...]
    summaries: tuple[Summary, ...]
    judgements: tuple[Judgement, ...]
    rounds: tuple[tuple[tuple[float, ...], ...], ...]
    plans: tuple[RoundPlan, ...]
    warm_ups: tuple[WarmUp, ...]


def warm_up(
    workload: Workload,
    calls: int | None = None,
    *,
    max_seconds: float = _WARM_UP_MAX_SECONDS,
    clock: Clock = time.perf_counter_ns,
) -> WarmUp:
    """Call until the duration settles.

    Args:
        workload: What to call.
        calls: Make exactly this many calls instead (at least one is made).
        max_seconds: Give up settling after this long; two windows are always finished.
        clock: Nanoseconds.
    """
    started = clock()
    if calls is not None:
        samples = list(islice(_call_forever(workload, clock), max(1, calls)))
        return WarmUp(len(samples), (clock() - started) / 1e9, None, stdlib_statistics.median(samples) / 1e9)
    made, window, window_ns, previous = 0, list[int](), 0, None
    for sample in _call_forever(workload, clock):
        made += 1
        window.append(sample)
        window_ns += sample
        if len(window) < _WINDOW_CALLS or window_ns < _WINDOW_SECONDS * 1e9:
            continue
        median = stdlib_statistics.median(window)
        seconds = (clock() - started) / 1e9
        settled = previous is not None and abs(median - previous) <= _SETTLED_WITHIN * previous
        if settled or (previous is not None and seconds >= max_seconds):
            return WarmUp(made, seconds, settled, median / 1e9)
        window, window_ns, previous = [], 0, median
    raise AssertionError("an endless iterator ended")


def plan_rounds(workload: Workload, call_seconds: float, runs: int | None = None) -> RoundPlan:
    """Choose sizes for a measurement of one workload.

    Args:
        workload: What will be timed.
        call_seconds: About how long one call takes.
        runs: Take this many samples; None chooses. A sequence with state is never cut: its rounds are whole
            sequences, as many as give at least this many samples.
    """
    per_sample = _calls_per_sample(workload, call_seconds)
    if runs is None:
        affordable = int(_BUDGET_SECONDS / max(call_seconds * per_sample, 1e-9))
        samples = max(_MIN_SAMPLES, min(_MAX_SAMPLES, affordable))
    else:
        samples = max(1, runs)
    if workload.reset is not None:
        per_round = math.ceil(len(workload.calls) / per_sample)
        rounds = math.ceil(samples / per_round)
        return RoundPlan(rounds * per_round, rounds, per_round, per_sample)
    per_round = math.ceil(samples / _MAX_ROUNDS)
    return RoundPlan(samples, math.ceil(samples / per_round), per_round, per_sample)


def sample_rounds(
    workload: Workload,
    plan: RoundPlan,
    *,
    after_round: Callable[[int], object] | None = None,
    clock: Clock = time.perf_counter_ns,
) -> tuple[tuple[float, ...], ...]:
    """Time a workload in rounds.

    Args:
        workload: What is timed.
        plan: How many samples.
        after_round: Called with the number of finished rounds, outside what is timed.
        clock: Nanoseconds.

    Returns:
        Seconds per call, `[round][sample]`.
    """
    rounds: list[tuple[float, ...]] = []
    left = plan.samples
    with _collector_off():
        for number in range(plan.rounds):
            size = min(plan.samples_per_round, left)
            rounds.append(_time_block(_samples(workload, size, plan.calls_per_sample), workload.reset, clock))
            left -= size
            if after_round is not None:
                after_round(number + 1)
    return tuple(rounds)


def compare_interleaved(
    candidates: Sequence[Call | Workload],
    names: Sequence[str],
    *,
    rounds: int | None = None,
    samples_per_round: int | None = None,
    max_seconds: float = _COMPARE_BUDGET_SECONDS,
    margin: float = DEFAULT_MARGIN,
    after_round: Callable[[int, int], object] | None = None,
    clock: Clock = time.perf_counter_ns,
) -> InterleavedComparison:
    """Time candidates in turns and hold each against the first.

    Every round times each candidate in a block of samples, and the first one a second time: the difference between its
    two blocks is the floor that a real difference must exceed. The order rotates and turns round from round to round,
    so that no candidate always follows the same one. Each block begins with one call (or sequence) that is not
    counted, which refills the caches that the block before emptied.

    Args:
        candidates: What to time; at least one.
        names: Their names.
        rounds: Number of rounds; None chooses about what `max_seconds` allow, between 12 and 60.
        samples_per_round: Samples of each candidate in a round; None chooses about 20 ms worth.
        max_seconds: For the choice of rounds only.
        margin: See `edgex.runtime.statistics.judge`.
        after_round: Called with finished rounds and all rounds, outside what is timed.
        clock: Nanoseconds.

    Raises:
        ValueError: There are no candidates, or the numbers of candidates and names differ.
    """
    if not candidates or len(candidates) != len(names):
        raise ValueError(f"{len(candidates)} candidates, {len(names)} names")
    workloads = [item if isinstance(item, Workload) else Workload((item,)) for item in candidates]
    warm_ups = tuple(warm_up(workload, clock=clock) for workload in workloads)
    blocks = [
        _plan_block(workload, warm.call_seconds, samples_per_round)
        for workload, warm in zip(workloads, warm_ups, strict=True)
    ]
    slots = [*range(len(workloads)), 0]
    if rounds is None:
        costs = [w.call_seconds * (s + 1) * k for w, (s, k) in zip(warm_ups, blocks, strict=True)]
        affordable = int(max_seconds / max(sum(costs[slot] for slot in slots), 1e-9))
        rounds = max(_COMPARE_MIN_ROUNDS, min(_COMPARE_MAX_ROUNDS, affordable))
    taken: list[list[tuple[float, ...]]] = [[] for _ in slots]
    with _collector_off():
        for number in range(rounds):
            for slot in _order(len(slots), number):
                workload = workloads[slots[slot]]
                samples, per_sample = blocks[slots[slot]]
                _time_block(_samples(workload, 1, per_sample), workload.reset, clock)
                taken[slot].append(_time_block(_samples(workload, samples, per_sample), workload.reset, clock))
            if after_round is not None:
                after_round(number + 1, rounds)
    own, again = taken[:-1], taken[-1]
    return InterleavedComparison(
        names=tuple(names),
        summaries=tuple(summarize(samples) for samples in own),
        judgements=tuple(judge(own[0], samples, again, margin) for samples in own[1:]),
        rounds=tuple(tuple(samples) for samples in own),
        plans=tuple(RoundPlan(rounds * samples, rounds, samples, per_sample) for samples, per_sample in blocks),
        warm_ups=warm_ups,
    )


def _order(slots: int, number: int) -> list[int]:
    """Order of the blocks in a round: rotated every second round, turned round in every other one."""
    shift = (number // 2) % slots
    order = [*range(shift, slots), *range(shift)]
    return order[::-1] if number % 2 else order


def _calls_per_sample(workload: Workload, call_seconds: float) -> int:
    wanted = math.ceil(MIN_SAMPLE_SECONDS / max(call_seconds, 1e-9))
    # A sample does not reach across a reset.
    return min(wanted, len(workload.calls)) if workload.reset is not None else wanted


def _plan_block(workload: Workload, call_seconds: float, samples: int | None) -> tuple[int, int]:
    """Samples and calls per sample of one candidate's block."""
    per_sample = _calls_per_sample(workload, call_seconds)
    if workload.reset is not None:
        return math.ceil(len(workload.calls) / per_sample), per_sample
    if samples is None:
        affordable = int(_BLOCK_SECONDS / max(call_seconds * per_sample, 1e-9))
        samples = max(_BLOCK_MIN_SAMPLES, min(_BLOCK_MAX_SAMPLES, affordable))
    return max(1, samples), per_sample


def _samples(workload: Workload, samples: int, per_sample: int) -> list[tuple[Call, ...]]:
    """The calls of each sample of one block; a sequence with state goes through whole."""
    if workload.reset is not None:
        calls = workload.calls
        return [calls[at : at + per_sample] for at in range(0, len(calls), per_sample)]
    return [workload.calls * per_sample] * samples


def _time_block(samples: Sequence[tuple[Call, ...]], reset: Call | None, clock: Clock) -> tuple[float, ...]:
    """The loop that measures: nothing but clock and calls between two readings. Seconds per call."""
    durations = []
    if reset is not None:
        reset()
    for calls in samples:
        started = clock()
        for call in calls:
            call()
        durations.append((clock() - started) / len(calls) / 1e9)
    return tuple(durations)


def _call_forever(workload: Workload, clock: Clock) -> Iterator[int]:
    """Call again and again, from reset where there is state; yields nanoseconds."""
    while True:
        if workload.reset is not None:
            workload.reset()
        for call in workload.calls:
            started = clock()
            call()
            yield clock() - started


@contextmanager
def _collector_off() -> Iterator[None]:
    """Keep Python's garbage collector out of the samples; what a call frees by itself is still its own time."""
    was_on = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
