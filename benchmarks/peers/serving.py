"""Contenders in processes of their own that run when they are told to, so that all of them are timed in turns.

A contender's process prints `ready {...}`, then answers each line with a number on its stdin by that many runs: a JSON
list of their seconds. `native_runner.cpp` speaks the same.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any, TextIO

_READY = "ready "
# OpenMP's threads spin for a while after a run; the next contender must not compete with them.
_PAUSE_SECONDS = 0.02


class Server:
    """A contender's process, started but perhaps not ready."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str], log: TextIO) -> None:
        self.name = name
        self._process = subprocess.Popen(
            command, env=dict(environment), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        )

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def wait(self) -> dict[str, Any] | None:
        """What it said when it was ready; None where it ended instead."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(_READY):
                facts: dict[str, Any] = json.loads(line[len(_READY) :])
                return facts
        return None

    def run(self, count: int) -> list[float]:
        """Seconds of `count` runs.

        Raises:
            RuntimeError: The process ended.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{count}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line.startswith("["):
            raise RuntimeError(f"{self.name} ended while it was measured")
        seconds: list[float] = json.loads(line)
        return seconds

    def close(self) -> None:
        """End the process."""
        self._process.terminate()
        self._process.communicate()


def serve(call: Callable[[], object], facts: Mapping[str, Any]) -> None:
    """The contender's side: be ready, then run as often as stdin says, until it ends."""
    print(_READY + json.dumps(facts), flush=True)
    for line in sys.stdin:
        seconds = []
        for _ in range(int(line)):
            started = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - started)
        print(json.dumps(seconds), flush=True)


def time_in_turns(servers: Sequence[Server], rounds: int, seconds_each: float) -> dict[str, list[list[float]]]:
    """Seconds of the runs of each server, round by round, in the turns of a contest.

    Args:
        servers: All ready.
        rounds: Turns that each one gets.
        seconds_each: How long a turn lasts, about; three runs at least, of which the first warms the caches.
    """
    # Here: the contenders' own environments have no edgex.
    from edgex.runtime.execute.request import Pace
    from edgex.runtime.measure.turns.contest import run_contest
    from edgex.runtime.measure.turns.schedule import ContestPlan

    class Contestant:
        def __init__(self, server: Server) -> None:
            self._server = server

        def start(self) -> Pace:
            self._server.run(3)
            return Pace(median(self._server.run(3)), 1, _PAUSE_SECONDS, 0.0)

        def reopen(self) -> None:
            raise AssertionError("a server is not started again")

        def time_block(self, passes: int, lead_in: bool) -> tuple[float, ...]:
            time.sleep(_PAUSE_SECONDS)
            return tuple(self._server.run(passes + lead_in)[lead_in:])

        def stop(self) -> None:
            """Whoever started it ends it."""

    def plan(paces: Sequence[Pace]) -> ContestPlan:
        passes = tuple(max(2, round(seconds_each / pace.sample_seconds) - 1) for pace in paces)
        return ContestPlan(1, 1, rounds, passes, lead_in=(True,) * len(paces))

    contest = run_contest([Contestant(server) for server in servers], plan=plan)
    return {server.name: [list(turn) for turn in turns] for server, turns in zip(servers, contest.rounds, strict=True)}
