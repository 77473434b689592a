"""Compare calls of this process by time: only ever interleaved, and only with as much certainty as samples carry.

```python
result = compare_interleaved([lambda: a.run(x), lambda: b.run(x)], ["a", "b"])
result.judgements[0].verdict        # b against a: "faster", "slower", "no difference" or "undecided"
```

The clock is an argument, so the rules here are tested on simulated machines. How samples are taken is in
`edgex.runtime.execute.sampling`, what they mean in `edgex.runtime.measure.statistics`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from edgex.runtime.execute.request import Pace
from edgex.runtime.execute.sampling import (
    Call,
    Clock,
    WarmUp,
    Workload,
    collector_off,
    count_calls_per_sample,
    split_pass,
    time_passes,
    warm_up,
)
from edgex.runtime.measure.statistics import DEFAULT_MARGIN, Judgement, Rounds, Summary, judge, summarize
from edgex.runtime.measure.turns.contest import run_contest
from edgex.runtime.measure.turns.schedule import plan_rounds_of_one_session

_BUDGET_SECONDS = 10.0


@dataclass(frozen=True)
class InterleavedComparison:
    """Several candidates timed in turns; the first is the baseline of the others.

    Attributes:
        names: The candidates.
        summaries: Figures of each.
        judgements: Each candidate but the first, compared with the first.
        rounds: Samples of each candidate in seconds, `[candidate][round][sample]`.
        warm_ups: How each warmed up.
    """

    names: tuple[str, ...]
    summaries: tuple[Summary, ...]
    judgements: tuple[Judgement, ...]
    rounds: tuple[Rounds, ...]
    warm_ups: tuple[WarmUp, ...]


def compare_interleaved(
    candidates: Sequence[Call | Workload],
    names: Sequence[str],
    *,
    baseline_again: Call | Workload | None = None,
    rounds: int | None = None,
    samples_per_round: int | None = None,
    max_seconds: float = _BUDGET_SECONDS,
    margin: float = DEFAULT_MARGIN,
    clock: Clock = time.perf_counter_ns,
    rest: Call | None = None,
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
        clock: Nanoseconds.
        rest: Called after each block; `edgex.runtime.execute.sampling.rest` for candidates with threads of their own,
            which would take the cores from the next one.

    Raises:
        ValueError: There are no candidates, or the numbers of candidates and names differ.
    """
    if not candidates or len(candidates) != len(names):
        raise ValueError(f"{len(candidates)} candidates, {len(names)} names")
    contestants = [_Calls(item, clock, rest) for item in (*candidates, baseline_again or candidates[0])]
    contest = run_contest(
        contestants,
        plan=lambda paces: plan_rounds_of_one_session(paces, rounds, samples_per_round, max_seconds),
        clock=clock,
    )
    *own, again = contest.rounds
    return InterleavedComparison(
        names=tuple(names),
        summaries=tuple(summarize(samples) for samples in own),
        judgements=tuple(judge(own[0], samples, again, margin) for samples in own[1:]),
        rounds=tuple(own),
        warm_ups=tuple(contestant.warm for contestant in contestants[:-1]),
    )


class _Calls:
    """See `edgex.runtime.measure.turns.contest.Contestant`; its one session is whatever the calls hold."""

    warm: WarmUp

    def __init__(self, calls: Call | Workload, clock: Clock, rest: Call | None) -> None:
        self._workload = calls if isinstance(calls, Workload) else Workload((calls,))
        self._clock, self._rest = clock, rest

    def start(self) -> Pace:
        self.warm = warm_up(self._workload, clock=self._clock)
        per_sample = count_calls_per_sample(self._workload, self.warm.call_seconds)
        self._pass = split_pass(self._workload, per_sample)
        return Pace(self.warm.mean_seconds * per_sample, len(self._pass), self._come_to_rest(), 0.0)

    def reopen(self) -> None:
        raise AssertionError("calls have one session")

    def time_block(self, passes: int, lead_in: bool) -> tuple[float, ...]:
        with collector_off():
            if lead_in:
                time_passes(self._pass, 1, self._workload.reset, self._clock)
            samples = time_passes(self._pass, passes, self._workload.reset, self._clock)
        self._come_to_rest()
        return samples

    def _come_to_rest(self) -> float:
        """How many seconds it took."""
        if self._rest is None:
            return 0.0
        started = self._clock()
        self._rest()
        return (self._clock() - started) / 1e9

    def stop(self) -> None:
        """There is nothing to end."""
