"""Compare things by time: only ever interleaved, and only with as much certainty as the samples carry.

```python
result = compare_interleaved([lambda: a.run(x), lambda: b.run(x)], ["a", "b"])
result.judgements[0].verdict        # b against a: "faster", "slower", "no difference" or "undecided"
```

The clock is an argument, so the rules here are tested on simulated machines. How samples are taken is in
`edgex.runtime.execute.sampling`, what they mean in `edgex.runtime.measure.statistics`.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edgex.runtime.execute.sampling import (
    Call,
    Clock,
    RoundPlan,
    WarmUp,
    Workload,
    collector_off,
    count_calls_per_sample,
    split_pass,
    time_passes,
    warm_up,
)
from edgex.runtime.measure.statistics import DEFAULT_MARGIN, Judgement, Summary, judge, summarize
from edgex.runtime.measure.turns import Turns, choose_block_samples

_COMPARE_MIN_ROUNDS, _COMPARE_MAX_ROUNDS = 12, 200
_COMPARE_BUDGET_SECONDS = 10.0


@dataclass(frozen=True)
class InterleavedComparison:
    """Several candidates timed in turns; the first is the baseline of the others.

    Attributes:
        names: The candidates.
        summaries: Figures of each.
        judgements: Each candidate but the first, compared with the first.
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


def compare_interleaved(
    candidates: Sequence[Call | Workload],
    names: Sequence[str],
    *,
    baseline_again: Call | Workload | None = None,
    rounds: int | None = None,
    samples_per_round: int | None = None,
    max_seconds: float = _COMPARE_BUDGET_SECONDS,
    margin: float = DEFAULT_MARGIN,
    after_round: Callable[[int, int], object] | None = None,
    clock: Clock = time.perf_counter_ns,
) -> InterleavedComparison:
    """Time candidates in turns and compare each with the first.

    Every round times each candidate in a block of samples, and the first one a second time: the difference between its
    two blocks is the floor that a real difference must exceed. The order is shuffled in one round and reversed in the
    next, so that no candidate always follows the same one. Each block begins with one call (or sequence) that is not
    counted, which refills the caches that the block before emptied.

    Args:
        candidates: What to time; at least one.
        names: Their names.
        baseline_again: The baseline loaded a second time. Two sessions of one artifact differ by a percent or so,
            because their memory lies elsewhere; this makes that part of the floor. None calls the first one again.
        rounds: Number of rounds; None chooses about what `max_seconds` allow, between 12 and 200.
        samples_per_round: Samples of each candidate in a round; None chooses about 5 ms worth, 3 to 25.
        max_seconds: For the choice of rounds only.
        margin: See `edgex.runtime.measure.statistics.judge`.
        after_round: Called with finished rounds and all rounds, outside what is timed.
        clock: Nanoseconds.

    Raises:
        ValueError: There are no candidates, or the numbers of candidates and names differ.
    """
    if not candidates or len(candidates) != len(names):
        raise ValueError(f"{len(candidates)} candidates, {len(names)} names")
    slots = [_as_workload(item) for item in (*candidates, baseline_again or candidates[0])]
    warm_ups = [warm_up(workload, clock=clock) for workload in slots]
    plans = _plan_blocks(slots, warm_ups, rounds, samples_per_round, max_seconds)
    passes = [split_pass(workload, plan.calls_per_sample) for workload, plan in zip(slots, plans, strict=True)]
    taken: list[list[tuple[float, ...]]] = [[] for _ in slots]
    turns = Turns(len(slots), random.Random(0))
    with collector_off():
        for number in range(plans[0].rounds):
            for slot in turns.next():
                calls, reset = passes[slot], slots[slot].reset
                time_passes(calls, 1, reset, clock)
                block = plans[slot].samples_per_round // len(calls)
                taken[slot].append(time_passes(calls, block, reset, clock))
            if after_round is not None:
                after_round(number + 1, plans[0].rounds)
    own, again = taken[:-1], taken[-1]
    return InterleavedComparison(
        names=tuple(names),
        summaries=tuple(summarize(samples) for samples in own),
        judgements=tuple(judge(own[0], samples, again, margin) for samples in own[1:]),
        rounds=tuple(tuple(samples) for samples in own),
        plans=tuple(plans[:-1]),
        warm_ups=tuple(warm_ups[:-1]),
    )


def _as_workload(item: Call | Workload) -> Workload:
    return item if isinstance(item, Workload) else Workload((item,))


def _plan_blocks(
    workloads: Sequence[Workload],
    warm_ups: Sequence[WarmUp],
    rounds: int | None,
    samples: int | None,
    max_seconds: float,
) -> tuple[RoundPlan, ...]:
    """Sizes of each candidate's blocks, and one number of rounds for all."""
    sizes = []
    round_seconds = []
    for workload, warm in zip(workloads, warm_ups, strict=True):
        per_sample = count_calls_per_sample(workload, warm.call_seconds)
        per_pass = len(split_pass(workload, per_sample))
        wanted = samples or choose_block_samples(warm.call_seconds * per_sample)
        block = math.ceil(wanted / per_pass) * per_pass
        sizes.append((block, per_sample))
        round_seconds.append(warm.mean_seconds * per_sample * (block + per_pass))
    if rounds is None:
        affordable = int(max_seconds / max(sum(round_seconds), 1e-9))
        rounds = max(_COMPARE_MIN_ROUNDS, min(_COMPARE_MAX_ROUNDS, affordable))
    return tuple(RoundPlan(rounds * block, rounds, block, per_sample) for block, per_sample in sizes)
