"""Who is timed when, and how much at a time: the order of turns, and the plan of a contest."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from edgex.runtime.execute.request import Pace

# A block of one contestant within a round: short against the time in which a machine's speed changes. Of the same
# number of samples, many short blocks tell more than few long ones.
_BLOCK_SECONDS = 0.005
_MIN_BLOCK_SAMPLES, _MAX_BLOCK_SAMPLES = 3, 25

# A call as long as this does not feel the caches that the block before emptied, and one sample of it says enough.
_LONG_CALL_SECONDS = 0.1

# Up to this factor between the slowest and the fastest, all give the same number of samples.
_ALIKE = 3.0

_MAX_FIRST_SESSIONS, _MAX_ROUNDS_PER_SESSION = 24, 8

_MIN_ROUNDS, _MAX_ROUNDS = 12, 200


class Turns:
    """Shuffled orders of the contestants, each followed by itself reversed: nobody is always after the same one."""

    def __init__(self, count: int, generator: random.Random) -> None:
        self._count, self._random = count, generator
        self._to_reverse: list[int] | None = None

    def shuffled(self) -> list[int]:
        """Any order."""
        return self._random.sample(range(self._count), self._count)

    def next(self) -> list[int]:
        """The order of the next round."""
        if self._to_reverse is not None:
            order, self._to_reverse = self._to_reverse[::-1], None
        else:
            order = self._to_reverse = self.shuffled()
        return order


@dataclass(frozen=True)
class ContestPlan:
    """The schedule.

    Attributes:
        processes: How often all start in fresh processes at least.
        sessions: Sessions of each in one of these processes.
        rounds_per_session: Rounds with one session.
        passes: Passes of each contestant in a block.
        lead_in: Whether a block begins with a pass that is not counted, by contestant.
    """

    processes: int
    sessions: int
    rounds_per_session: int
    passes: tuple[int, ...]
    lead_in: tuple[bool, ...]


def plan_sessions(paces: Sequence[Pace], processes: int, least_sessions: int, seconds: float) -> ContestPlan:
    """The schedule of contestants whose sessions are opened again and again.

    Args:
        paces: Of each.
        processes: Fresh processes of each.
        least_sessions: Sessions of each over all processes, at least.
        seconds: What they may take beyond that.
    """
    passes = _choose_passes(paces, None)
    lead_in = _choose_lead_ins(paces)
    round_seconds = _count_round_seconds(paces, passes, lead_in)
    # About as much time for measuring with a session as for opening it.
    open_seconds = sum(pace.open_seconds for pace in paces)
    rounds = max(1, min(_MAX_ROUNDS_PER_SESSION, round(open_seconds / max(round_seconds, 1e-9))))
    least = math.ceil(least_sessions / processes)
    most = max(least, _MAX_FIRST_SESSIONS // processes)
    affordable = int(seconds / processes / max(open_seconds + rounds * round_seconds, 1e-9))
    return ContestPlan(processes, max(least, min(most, affordable)), rounds, passes, lead_in)


def plan_rounds_of_one_session(
    paces: Sequence[Pace], rounds: int | None, samples: int | None, seconds: float
) -> ContestPlan:
    """The schedule of contestants that stay as they are.

    Args:
        paces: Of each.
        rounds: How many; None chooses about what the seconds allow, between 12 and 200.
        samples: Of each in a block; None chooses about 5 ms worth.
        seconds: For the choice of rounds only.
    """
    passes = _choose_passes(paces, samples)
    lead_in = (True,) * len(paces)
    if rounds is None:
        affordable = int(seconds / max(_count_round_seconds(paces, passes, lead_in), 1e-9))
        rounds = max(_MIN_ROUNDS, min(_MAX_ROUNDS, affordable))
    return ContestPlan(1, 1, rounds, passes, lead_in)


def _choose_lead_ins(paces: Sequence[Pace]) -> tuple[bool, ...]:
    return tuple(pace.sample_seconds < _LONG_CALL_SECONDS for pace in paces)


def _choose_passes(paces: Sequence[Pace], samples: int | None) -> tuple[int, ...]:
    wanted = _choose_samples(paces) if samples is None else [samples] * len(paces)
    return tuple(math.ceil(count / pace.samples_per_pass) for count, pace in zip(wanted, paces, strict=True))


def _count_round_seconds(paces: Sequence[Pace], passes: Sequence[int], lead_in: Sequence[bool]) -> float:
    return sum(
        (count + lead) * pace.samples_per_pass * pace.sample_seconds + pace.rest_seconds
        for pace, count, lead in zip(paces, passes, lead_in, strict=True)
    )


def _choose_samples(paces: Sequence[Pace]) -> list[int]:
    """Samples of each contestant in a block."""
    # Waiting for threads to come to rest must not be most of the work.
    block_seconds = max(_BLOCK_SECONDS, max(pace.rest_seconds for pace in paces) / 2)
    wanted = []
    for pace in paces:
        least = 1 if pace.sample_seconds >= _LONG_CALL_SECONDS else _MIN_BLOCK_SAMPLES
        affordable = int(block_seconds / max(pace.sample_seconds, 1e-9))
        wanted.append(max(least, min(_MAX_BLOCK_SAMPLES, affordable)))
    # Noise is skewed, and the median of few skewed samples depends on how many they are: where speeds are alike, the
    # numbers must be the same, or the difference would show as one of speed.
    seconds = [pace.sample_seconds for pace in paces]
    alike = max(seconds) <= _ALIKE * min(seconds)
    return [min(wanted)] * len(wanted) if alike else wanted
