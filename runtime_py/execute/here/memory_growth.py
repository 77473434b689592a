"""Whether a process grows while it runs a model again and again: an engine that forgets to give memory back."""

from __future__ import annotations

import gc
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass

MAX_RUNS = 1000
_SECONDS = 2.0
_PARTS = 4

# A leak shows in every part but the first, in which caches fill; less than this is what allocators do anyway.
_LEAST_PART_BYTES = 64 << 10


@dataclass(frozen=True)
class MemoryGrowth:
    """Resident memory of this process over some runs of a warm session.

    Attributes:
        runs: How many.
        bytes: By how much it grew; negative where it shrank.
        leak_bytes_per_run: How fast it grew all the time; None where it did not.
    """

    runs: int
    bytes: int
    leak_bytes_per_run: float | None = None


def measure_growth(
    run: Callable[[], object], runs_per_call: int, seconds_per_call: float, read: Callable[[], int]
) -> MemoryGrowth:
    """Run a warm session up to `MAX_RUNS` times, two seconds at most.

    Args:
        run: Runs the model, once or a whole sequence.
        runs_per_call: How many runs that is.
        seconds_per_call: About how long it takes.
        read: Resident bytes now.
    """
    calls = min(MAX_RUNS // runs_per_call, int(_SECONDS / max(seconds_per_call, 1e-9)))
    part = max(1, calls // _PARTS)
    gc.collect()
    sizes = [read()]
    ends = time.perf_counter() + _SECONDS
    for _ in range(_PARTS):
        for _ in range(part):
            run()
        gc.collect(0)
        sizes.append(read())
        if time.perf_counter() > ends:
            break
    return judge_growth(sizes, part * runs_per_call)


def judge_growth(sizes: list[int], runs_per_part: int) -> MemoryGrowth:
    """What sizes before and after equally many runs say.

    Args:
        sizes: Resident bytes, at the beginning and after each part.
        runs_per_part: Runs between two of them.
    """
    later = [after - before for before, after in itertools.pairwise(sizes[1:])]
    leaks = len(later) == _PARTS - 1 and min(later) >= _LEAST_PART_BYTES
    rate = sum(later) / (len(later) * runs_per_part) if leaks else None
    return MemoryGrowth((len(sizes) - 1) * runs_per_part, sizes[-1] - sizes[0], rate)


def read_resident_bytes() -> int:
    """Resident memory of this process."""
    import psutil

    return int(psutil.Process().memory_info().rss)
