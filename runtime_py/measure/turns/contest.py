"""The loop of turns, the only one: `compare`, `sweep`, `pick` and devices time their contestants in it.

```
process      fresh processes for all, a few times over
  session    all open their session again
    round    each times one block, in an order of its own: shuffled, and reversed in the next round
```

Two sessions of one artifact can differ by half a percent for good, because their memory lies elsewhere. Opening them
again and again makes that part of the noise, which the interval shows, instead of part of the result.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from edgex.runtime.execute.request import Pace
from edgex.runtime.execute.sampling import Clock
from edgex.runtime.measure.statistics import DEFAULT_MARGIN, Judgement, Nesting, Rounds, estimate_ratio, judge
from edgex.runtime.measure.turns.schedule import ContestPlan, Turns, plan_sessions

PROCESSES = 3
BUDGET_SECONDS = 20.0

MIN_SESSIONS = 12
_MAX_SESSIONS = 300
# Measured at least, where no number of rounds was given; a quiet machine needs no more.
_FIRST_SECONDS = 4.0


class Contestant(Protocol):
    """Something that can be timed in blocks."""

    def start(self) -> Pace:
        """Begin in a fresh process, with an open and warm session."""
        ...

    def reopen(self) -> None:
        """Open the session again, elsewhere in memory, and warm it up."""
        ...

    def time_block(self, passes: int, lead_in: bool) -> tuple[float, ...]:
        """Time passes; seconds per call, `samples_per_pass` a pass. `lead_in`: after one that is not counted."""
        ...

    def stop(self) -> None:
        """End the process."""
        ...


@dataclass(frozen=True)
class Contest:
    """What was measured.

    Attributes:
        plan: The schedule.
        processes: Fresh processes of each, those included in which measuring went on.
        rounds: Seconds per call, `[contestant][round][sample]`.
        rounds_per_process: How many of the rounds each process timed, in order.
        seconds: How long it took, starting the processes included.
    """

    plan: ContestPlan
    processes: int
    rounds: tuple[Rounds, ...]
    rounds_per_process: tuple[int, ...]
    seconds: float

    @property
    def sessions(self) -> int:
        """Sessions that each contestant opened, over all processes."""
        return len(self.rounds[0]) // self.plan.rounds_per_session

    def judge(self, contestant: int) -> Judgement:
        """A contestant against the first; the last is the first once more."""
        first, *others = self.rounds
        nesting = Nesting(self.plan.rounds_per_session, self.rounds_per_process)
        return judge(first, self.rounds[contestant], self.rounds[-1], nesting=nesting, others=others)

    def by_session(self, contestant: int) -> Rounds:
        """The samples of one contestant, those of a session together."""
        size, rounds = self.plan.rounds_per_session, self.rounds[contestant]
        return tuple(
            tuple(sample for samples in rounds[at : at + size] for sample in samples)
            for at in range(0, len(rounds), size)
        )


def run_contest(
    contestants: Sequence[Contestant],
    *,
    processes: int = PROCESSES,
    least_sessions: int = MIN_SESSIONS,
    max_seconds: float = BUDGET_SECONDS,
    counts_starts: bool = False,
    target: float = DEFAULT_MARGIN / 3,
    last_is_first: bool = True,
    seed: int = 0,
    plan: Callable[[Sequence[Pace]], ContestPlan] | None = None,
    begin: Callable[[int], object] = lambda _index: None,
    at_end: Callable[[], None] = lambda: None,
    progress: Callable[[str, str], None] = lambda _stage, _detail: None,
    clock: Clock = time.perf_counter_ns,
) -> Contest:
    """Time contestants in turns.

    Args:
        contestants: What is timed; the others are compared with the first.
        processes: How often all start in fresh processes at least; 1 or more.
        least_sessions: Sessions of each over all processes, at least. Fewer make intervals wider, not wrong, and large
            models take seconds to open.
        max_seconds: Measuring goes on for so long, in more processes, while the intervals are wider than the target;
            what the smallest schedule needs is measured in any case.
        counts_starts: Whether starting the processes and loading in them counts for `max_seconds`.
        target: Half the width of the intervals, as a share, that is good enough.
        last_is_first: The last contestant is the first once more, for the floor of a difference; it need not be known
            better than the others.
        seed: Of the order.
        plan: Makes a schedule that is kept to, whatever the intervals; None makes one of the limits above.
        begin: Told which contestant does something, before it does.
        at_end: Called once everything is measured, while the last processes still run.
        progress: Told about each stage, with a detail.
        clock: Nanoseconds.
    """
    processes = max(1, processes)
    order = Turns(len(contestants), random.Random(seed))
    taken: list[list[tuple[float, ...]]] = [[] for _ in contestants]
    began, measuring, process, schedule = clock(), 0, 0, None

    def spent(since: int) -> float:
        """Seconds that count for the limit, with those since the last sessions began."""
        return (clock() - began if counts_starts else measuring + clock() - since) / 1e9

    in_process: list[int] = []
    try:
        while True:
            for contestant in contestants:
                contestant.stop()
            process += 1
            progress("start", f"process {process} of each")
            paces = {}
            for index in order.shuffled():
                begin(index)
                paces[index] = contestants[index].start()
            if schedule is None:
                ordered = [paces[index] for index in range(len(contestants))]
                seconds = min(max_seconds, _FIRST_SECONDS)
                schedule = plan(ordered) if plan else plan_sessions(ordered, processes, least_sessions, seconds)
            done = len(taken[0]) // schedule.rounds_per_session
            # Half as many again in each process after the first ones, which start up once for all of them.
            sessions = schedule.sessions if process <= schedule.processes else max(schedule.sessions, done // 2)
            started = clock()
            for session in range(sessions):
                progress("measure", f"session {session + 1} of {sessions}, process {process} of each")
                _run_session(contestants, schedule, order, taken, reopen=session > 0, begin=begin)
                if process > schedule.processes and spent(started) >= max_seconds:
                    break
            measuring += clock() - started
            in_process.append(len(taken[0]) - sum(in_process))
            if process < schedule.processes:
                continue
            if plan is not None:
                break
            width = _excess_width(taken, in_process, schedule.rounds_per_session, target, last_is_first)
            if width is None or spent(clock()) >= max_seconds or done + sessions >= _MAX_SESSIONS:
                break
            progress("measure longer", f"an interval is {200 * width:.1f} % wide")
        at_end()
    finally:
        for contestant in contestants:
            contestant.stop()
    rounds = tuple(tuple(samples) for samples in taken)
    return Contest(schedule, process, rounds, tuple(in_process), (clock() - began) / 1e9)


def _run_session(
    contestants: Sequence[Contestant],
    schedule: ContestPlan,
    order: Turns,
    taken: list[list[tuple[float, ...]]],
    *,
    reopen: bool,
    begin: Callable[[int], object],
) -> None:
    if reopen:
        for index in order.shuffled():
            begin(index)
            contestants[index].reopen()
    for _ in range(schedule.rounds_per_session):
        for index in order.next():
            begin(index)
            taken[index].append(contestants[index].time_block(schedule.passes[index], schedule.lead_in[index]))


def _excess_width(
    taken: Sequence[Rounds],
    rounds_per_process: Sequence[int],
    rounds_per_session: int,
    target: float,
    last_is_first: bool,
) -> float | None:
    """Half the width of the widest interval that is wider than need be, as a share; None where all are narrow enough.

    Each must be known to the target, or to a tenth of its difference where that is more: of something three times as
    slow nobody asks for whole percents.
    """
    first, *others = taken
    nesting = Nesting(rounds_per_session, tuple(rounds_per_process))
    estimates = [estimate_ratio(first, other, nesting, others) for other in others]
    needed = [max(target, abs(estimate.ratio - 1.0) / 10) for estimate in estimates]
    if last_is_first and len(needed) > 1:
        needed[-1] = min(needed[:-1])
    widths = [math.inf if e.ci95 is None else (e.ci95[1] - e.ci95[0]) / 2 for e in estimates]
    return max((width for width, enough in zip(widths, needed, strict=True) if width > enough), default=None)
