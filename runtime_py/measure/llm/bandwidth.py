"""How fast this machine reads memory: what a token costs at least, where each weight is read once for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from edgex.runtime.support.process.child import Child
from edgex.runtime.support.process.serving import Tell

# Far beyond any cache that a core has to itself, and small enough for machines with little memory.
_BYTES = 256 << 20
_PASSES = 6
_TIMEOUT_SECONDS = 60


def measure_read_bandwidth(threads: int) -> float:
    """Bytes a second that so many threads read, each from memory of its own: the best of some passes.

    Raises:
        ChildEnded: The process that measures failed, or took too long.
    """
    # A library with threads of its own would start them inside each of ours.
    single = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    with Child(f"{__name__}:answer", "the process that measures the memory's bandwidth", single) as child:
        answer = child.ask({"do": "measure", "threads": threads}, timeout_seconds=_TIMEOUT_SECONDS)
    return float(answer["bytes_per_second"])


def answer(request: Mapping[str, Any], _tell: Tell) -> dict[str, Any]:
    """The child's side."""
    threads = int(request["threads"])
    parts = [np.ones(_BYTES // 4 // threads, np.float32) for _ in range(threads)]
    # Neither is the quickest everywhere: a product with itself is a library's, a maximum NumPy's own.
    readers: tuple[Callable[[np.ndarray], object], ...] = (lambda part: np.dot(part, part), np.max)
    best = min(_time_pass(reader, parts) for reader in readers for _ in range(_PASSES))
    return {"bytes_per_second": sum(part.nbytes for part in parts) / best}


def _time_pass(reader: Callable[[np.ndarray], object], parts: list[np.ndarray]) -> float:
    """Seconds in which all threads have read their part; they begin together."""
    ends: list[float] = []
    gate = threading.Barrier(len(parts) + 1)

    def read(part: np.ndarray) -> None:
        gate.wait()
        reader(part)
        ends.append(time.perf_counter())

    workers = [threading.Thread(target=read, args=(part,)) for part in parts]
    for worker in workers:
        worker.start()
    gate.wait()
    started = time.perf_counter()
    for worker in workers:
        worker.join()
    return max(ends) - started
