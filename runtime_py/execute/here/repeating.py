"""Run sequences once more in this process, and keep what comes out otherwise; see `edgex.runtime.session.repeats`."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from edgex.errors import EdgexError
from edgex.runtime.engines.registry import get_engine
from edgex.runtime.execute.running import Played, Steps, play_sequences
from edgex.runtime.session.repeats import RUNS, SESSIONS, How, Repeat, farthest, same_bits
from edgex.runtime.session.session import Session
from edgex.runtime.support.machine.memory import read_available_bytes

# A second session takes about what its files have, twice where an engine packs the weights.
_SESSION_FACTOR = 2


@dataclass
class Repeats:
    """Repeats what a session was played, each way within a time.

    Attributes:
        session: It has played the sequences; it is closed for the last way, in which its threads change.
        sequences: What it was played.
        first: What that gave.
        seconds: For each way; a sequence that was begun is finished.
        open_seconds: What opening the session took.
    """

    session: Session
    sequences: Sequence[Steps]
    first: Played
    seconds: float
    open_seconds: float

    def run(self) -> list[Repeat]:
        """All ways, one after the other. The session is closed afterwards."""
        found = [self._play("again", [self.session], RUNS - 1)]
        reason = self._find_obstacle(needs_memory=True)
        found.append(_left_out("together", reason) if reason else self._play_together())
        self.session.close()
        reason = self._find_obstacle(needs_memory=False)
        found.append(_left_out("threads", reason) if reason else self._play_with_other_threads())
        return found

    def _play_together(self) -> Repeat:
        try:
            second = self._open(self.session.settings.threads)
        except EdgexError as error:
            return _left_out("together", f"a second session cannot be opened: {error.what}")
        with second:
            return self._play("together", [self.session, second], 1)

    def _play_with_other_threads(self) -> Repeat:
        if self.session.threads is None:
            return _left_out("threads", "the engine does not say how many it has")
        threads = 2 if self.session.threads == 1 else 1
        try:
            other = self._open(threads)
        except EdgexError as error:
            return _left_out("threads", f"it cannot be opened with {threads} threads: {error.what}")
        with other:
            return replace(self._play("threads", [other], 1), threads=threads)

    def _open(self, threads: int | None) -> Session:
        settings = replace(self.session.settings, threads=threads, preferred_threads=None)
        opened = get_engine(self.session.artifact.manifest.engine).open(self.session.artifact, settings)
        opened.settings = settings
        return opened

    def _find_obstacle(self, *, needs_memory: bool) -> str | None:
        """Why another session is not opened; None where it can be."""
        if self.open_seconds > self.seconds:
            return f"opening it takes more than {self.seconds:g} s"
        if needs_memory:
            files = sum(entry.bytes for entry in self.session.artifact.manifest.files)
            available = read_available_bytes()
            if available is not None and files * _SESSION_FACTOR > available:
                return "memory does not hold it twice"
        return None

    def _play(self, how: How, sessions: Sequence[Session], times: int) -> Repeat:
        """Each sequence `times` times in every session, in all sessions at the same time."""
        outputs: dict[int, tuple[dict[str, np.ndarray], ...]] = {}
        refused: dict[int, EdgexError] = {}
        played = 0
        ends = time.perf_counter() + self.seconds
        with ThreadPoolExecutor(len(sessions)) as threads:
            # Alone, in this thread: OpenMP keeps threads of its own for every thread that it is called from.
            spread = threads.map if len(sessions) > 1 else map
            for number, steps in enumerate(self.sequences):
                if time.perf_counter() > ends:
                    break
                for _ in range(times):
                    for later in spread(partial(_play_one, steps), sessions):
                        self._compare(number, later, outputs, refused)
                played += 1
        return Repeat(
            how,
            1 + times if how == "again" else len(sessions) * times,
            played,
            sessions[0].threads,
            None if played == len(self.sequences) else f"stopped after {self.seconds:g} s",
            outputs,
            refused,
        )

    def _compare(
        self,
        number: int,
        later: Played,
        outputs: dict[int, tuple[dict[str, np.ndarray], ...]],
        refused: dict[int, EdgexError],
    ) -> None:
        """Keep what a sequence gave if it is not what it gave at first."""
        first, now = self.first.outputs[number], later.outputs[0]
        if len(first) == len(now) and all(same_bits(one, other) for one, other in zip(first, now, strict=True)):
            return
        if number in refused or (number in outputs and _distance(first, now) <= _distance(first, outputs[number])):
            return
        outputs[number] = now
        if later.refused:
            refused[number] = later.refused[0]


def _play_one(steps: Steps, session: Session) -> Played:
    return play_sequences(session, [steps])


def _distance(first: Sequence[Mapping[str, np.ndarray]], now: Sequence[Mapping[str, np.ndarray]]) -> float:
    if len(first) != len(now):
        return float("inf")
    found = [farthest(one[name], other[name]) for one, other in zip(first, now, strict=True) for name in one]
    return max((float("inf") if each is None else each for each in found), default=0.0)


def _left_out(how: How, reason: str) -> Repeat:
    return Repeat(how, SESSIONS if how == "together" else 1, 0, None, reason)
