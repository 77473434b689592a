"""What one process finds a Session to add: `python -m benchmarks.cost.session_child ARTIFACT`; prints JSON.

The edgex that it measures is the first on the path, perhaps another revision: of it only what has always been public
is used.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np

import edgex
from benchmarks.cost.bare import bare_call

_BLOCKS, _CALLS = 101, 200


def main() -> None:
    """Time blocks of both in turns, by the processor's clock; print the median seconds of a call."""
    path = Path(sys.argv[1])
    with edgex.load(path, threads=1) as session:
        arrays = [np.ones(tuple(map(int, spec.shape)), np.float32) for spec in session.inputs]
        engine = json.loads((path / "manifest.json").read_text())["engine"]
        name = engine if isinstance(engine, str) else engine["name"]
        calls: dict[str, Callable[[], object]] = {
            "bare": bare_call(name, path, arrays),
            "edgex": partial(session.run, *arrays),
        }
        found: dict[str, list[float]] = {side: [] for side in calls}
        for number in range(_BLOCKS):
            for side in calls if number % 2 == 0 else reversed(calls):
                found[side].append(_time_block(calls[side]))
    print(json.dumps({side: median(seconds[1:]) for side, seconds in found.items()}))


def _time_block(call: Callable[[], object]) -> float:
    call()
    started = time.process_time()
    for _ in range(_CALLS):
        call()
    return (time.process_time() - started) / _CALLS


if __name__ == "__main__":
    main()
