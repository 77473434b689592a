"""Take samples of one thing: warm up, then time calls in rounds. What is timed and by which clock are arguments."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from statistics import fmean, median

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
# However many runs were asked for: what an interrupted measurement has is the rounds that have ended.
_ROUND_SECONDS = 1.0

# ONNX Runtime's idle threads wait busily for some 80 ms after a run, which would slow down whoever comes next.
# The kernel counts what a thread on another core uses at its ticks, 100 to 1000 a second: within less than two of them
# nothing may be counted at all, which was taken for rest.
_REST_STEP_SECONDS, _REST_BUSY_SHARE, _REST_MAX_SECONDS = 0.012, 0.1, 0.3


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
        mean_seconds: Mean duration there: what a call costs in wall time where calls are often interrupted.
    """

    calls: int
    seconds: float
    settled: bool | None
    call_seconds: float
    mean_seconds: float


@dataclass(frozen=True)
class RoundPlan:
    """How many samples are taken.

    Attributes:
        samples: All samples.
        rounds: Number of rounds. Where there is state, a round is one or more whole sequences, each from reset.
        samples_per_round: Samples in each round, fewer in the last one if they do not divide evenly.
        calls_per_sample: Calls that share one sample, whose duration is divided by them.
    """

    samples: int
    rounds: int
    samples_per_round: int
    calls_per_sample: int


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
        return WarmUp(len(samples), (clock() - started) / 1e9, None, median(samples) / 1e9, fmean(samples) / 1e9)
    made, window, window_ns, previous = 0, list[int](), 0, None
    for sample in _call_forever(workload, clock):
        made += 1
        window.append(sample)
        window_ns += sample
        if len(window) < _WINDOW_CALLS or window_ns < _WINDOW_SECONDS * 1e9:
            continue
        middle = median(window)
        seconds = (clock() - started) / 1e9
        settled = previous is not None and abs(middle - previous) <= _SETTLED_WITHIN * previous
        if settled or (previous is not None and seconds >= max_seconds):
            return WarmUp(made, seconds, settled, middle / 1e9, fmean(window) / 1e9)
        window, window_ns, previous = [], 0, middle
    raise AssertionError("an endless iterator ended")


def plan_rounds(workload: Workload, warm: WarmUp, runs: int | None = None) -> RoundPlan:
    """Choose sizes for a measurement of one workload.

    Args:
        workload: What will be timed.
        warm: What warming it up found.
        runs: Take this many samples; None chooses. A sequence with state is never cut: as many whole ones are timed
            as give at least this many samples.
    """
    per_sample = count_calls_per_sample(workload, warm.call_seconds)
    if runs is None:
        affordable = int(_BUDGET_SECONDS / max(warm.mean_seconds * per_sample, 1e-9))
        runs = max(_MIN_SAMPLES, min(_MAX_SAMPLES, affordable))
    per_pass = len(split_pass(workload, per_sample))
    passes = math.ceil(max(1, runs) / per_pass)
    pass_seconds = warm.mean_seconds * per_sample * per_pass
    per_round = min(math.ceil(passes / _MAX_ROUNDS), max(1, int(_ROUND_SECONDS / max(pass_seconds, 1e-9))))
    return RoundPlan(passes * per_pass, math.ceil(passes / per_round), per_round * per_pass, per_sample)


def sample_rounds(
    workload: Workload,
    plan: RoundPlan,
    *,
    after_round: Callable[[int], object] | None = None,
    into: list[tuple[float, ...]] | None = None,
    clock: Clock = time.perf_counter_ns,
) -> tuple[tuple[float, ...], ...]:
    """Time a workload in rounds.

    Args:
        workload: What is timed.
        plan: How many samples.
        after_round: Called with the number of finished rounds, outside what is timed.
        into: Receives each round as it ends: what is left of a measurement that is interrupted.
        clock: Nanoseconds.

    Returns:
        Seconds per call, `[round][sample]`.
    """
    calls = split_pass(workload, plan.calls_per_sample)
    left = plan.samples // len(calls)
    rounds = [] if into is None else into
    with collector_off():
        for number in range(plan.rounds):
            passes = min(plan.samples_per_round // len(calls), left)
            rounds.append(time_passes(calls, passes, workload.reset, clock))
            left -= passes
            if after_round is not None:
                after_round(number + 1)
    return tuple(rounds)


def count_calls_per_sample(workload: Workload, call_seconds: float) -> int:
    """How many calls of about `call_seconds` must share a sample for the clock not to matter."""
    wanted = math.ceil(MIN_SAMPLE_SECONDS / max(call_seconds, 1e-9))
    # A sample does not reach across a reset.
    return min(wanted, len(workload.calls)) if workload.reset is not None else wanted


def split_pass(workload: Workload, per_sample: int) -> list[tuple[Call, ...]]:
    """The calls of each sample of the smallest thing that is timed: one sample; or, with state, one sequence."""
    if workload.reset is None:
        return [workload.calls * per_sample]
    calls = workload.calls
    return [calls[at : at + per_sample] for at in range(0, len(calls), per_sample)]


def time_passes(
    samples: Sequence[tuple[Call, ...]], passes: int, reset: Call | None, clock: Clock
) -> tuple[float, ...]:
    """The loop that measures: nothing but clock and calls between two readings. Seconds per call."""
    durations = []
    for _ in range(passes):
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
def collector_off() -> Iterator[None]:
    """Keep Python's garbage collector out of the samples; what a call frees by itself is still its own time.

    Nothing is collected here: that would undo the warming up, by emptying the processor's caches.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def rest() -> None:
    """Wait until this process's threads no longer use the processor."""
    started = time.perf_counter()
    while time.perf_counter() - started < _REST_MAX_SECONDS:
        at, used = time.perf_counter(), time.process_time()
        time.sleep(_REST_STEP_SECONDS)
        if time.process_time() - used < _REST_BUSY_SHARE * (time.perf_counter() - at):
            return
