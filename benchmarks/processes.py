"""Time whole processes in turns: each round starts every command once, in alternating order."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def run_process(command: Sequence[str]) -> str:
    """Run a command in the repository's folder and give its stdout.

    Raises:
        RuntimeError: It failed; with its output.
    """
    # Whoever started the benchmarks must not be taken for the supervisor of the commands that are timed.
    environment = {name: value for name, value in os.environ.items() if name != "EDGEX_SUPERVISED"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def interleave(names: Sequence[str], rounds: int, run: Callable[[str], object], title: str) -> None:
    """Call `run` with each name once a round; every other round in the opposite order."""
    for number in range(rounds):
        for name in names if number % 2 == 0 else reversed(names):
            print(f"  {title}: round {number + 1} of {rounds}, {name}", file=sys.stderr, flush=True)
            run(name)


def time_commands(commands: Mapping[str, Sequence[str]], rounds: int, title: str) -> dict[str, list[float]]:
    """Wall seconds of fresh processes by name, one a round; a first round fills the file cache and is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in commands}

    def run(name: str) -> None:
        started = time.perf_counter()
        run_process(commands[name])
        seconds[name].append(time.perf_counter() - started)

    interleave(list(commands), rounds + 1, run, title)
    return {name: values[1:] for name, values in seconds.items()}


@contextmanager
def locked(path: Path | None, *, alone: bool) -> Iterator[None]:
    """Hold the lock file, where one is given: shared while preparing, exclusively while timing."""
    if path is None:
        yield
        return
    import fcntl

    with path.open("a") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield
