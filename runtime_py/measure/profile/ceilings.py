"""What this host can do at best.

A kernel library is rarely the best everywhere (one that leads on one processor reaches half elsewhere), and a burst of
more than a millisecond is likely to be interrupted. So: several libraries, short bursts, the best one counts. It runs
in a process of its own, where it can set thread counts, and is kept in the user's cache by host, threads and versions.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from edgex.runtime.engines.trace.operators import Ceilings
from edgex.runtime.support.cache import user_cache
from edgex.runtime.support.entry_points import installed_version
from edgex.runtime.support.machine.host import read_host
from edgex.runtime.support.process.child import Child
from edgex.runtime.support.process.serving import Tell
from edgex.runtime.support.publish import write_text

_LIBRARIES = ("numpy", "torch", "onnxruntime")
_VERSION = 2

# Numbers that float32 holds exactly: whoever has no quicker instructions for them widens them first.
_WIDENED = ("bfloat16", "int8")

# Seconds for one candidate; with a burst under a millisecond that is thirty and more.
_CANDIDATE_SECONDS = 0.03
_PRODUCT_SIZES = (192, 256, 384, 512)
_COPY_BYTES = (1 << 13, 1 << 14, 1 << 15, 1 << 17, 1 << 19, 1 << 21, 1 << 23)
_TIMEOUT_SECONDS = 60

Burst = Callable[[], object]


def find_ceilings(threads: int, *, again: bool = False) -> Ceilings:
    """The ceilings for a number of threads, from the cache where they are known.

    Args:
        threads: Threads of the runs that they are for.
        again: Measure again, and keep the better of old and new: something turned out to be faster.

    Raises:
        ChildEnded: The process that measures failed, or took too long.
    """
    file = user_cache("ceilings") / f"{_key(threads)}.json"
    known = _read(file)
    if known is not None and not again:
        return known
    found = _measure_in_process(threads)
    if known is not None:
        best = {dtype: max(known.gflops.get(dtype, 0.0), found.gflops.get(dtype, 0.0)) for dtype in found.gflops}
        found = Ceilings(threads, {**known.gflops, **best}, max(known.gbps, found.gbps))
    _write(file, found)
    return found


def measure(threads: int) -> Ceilings:
    """Measure in this process; its thread settings are changed."""
    gflops: dict[str, float] = {}
    for dtype, work, burst in _products(threads):
        gflops[dtype] = max(gflops.get(dtype, 0.0), work / _best_seconds(burst) / 1e9)
    for dtype in _WIDENED:
        if dtype in gflops:
            gflops[dtype] = max(gflops[dtype], gflops["float32"])
    # Cores do not share their first caches: what one of them moves at best, each of them does.
    gbps = max(2 * size / _best_seconds(_copy(size)) / 1e9 for size in _COPY_BYTES) * threads
    return Ceilings(threads, {dtype: round(value, 1) for dtype, value in gflops.items()}, round(gbps, 1))


def _best_seconds(burst: Burst) -> float:
    """The quickest of many runs; a burst that is too short for the clock is repeated within one reading."""
    burst()
    started = time.perf_counter_ns()
    burst()
    calls = max(1, 20_000 // max(1, time.perf_counter_ns() - started))
    best = float("inf")
    deadline = time.perf_counter_ns() + int(_CANDIDATE_SECONDS * 1e9)
    while time.perf_counter_ns() < deadline:
        started = time.perf_counter_ns()
        for _ in range(calls):
            burst()
        best = min(best, (time.perf_counter_ns() - started) / calls)
    return best / 1e9


def _copy(size: int) -> Burst:
    source, target = np.ones(size, np.uint8), np.zeros(size, np.uint8)
    return lambda: np.copyto(target, source)


def _products(threads: int) -> Iterator[tuple[str, int, Burst]]:
    """Candidates as (dtype, operations of one burst, burst)."""
    yield from _numpy_products()
    if installed_version("onnxruntime"):
        yield from _onnx_products(threads)
    if installed_version("torch"):
        yield from _torch_products(threads)


def _numpy_products() -> Iterator[tuple[str, int, Burst]]:
    for dtype in ("float32", "float64"):
        for size in _PRODUCT_SIZES:
            one, other = np.ones((size, size), dtype), np.ones((size, size), dtype)
            out = np.empty((size, size), dtype)
            yield dtype, 2 * size**3, _numpy_product(one, other, out)


def _numpy_product(one: np.ndarray, other: np.ndarray, out: np.ndarray) -> Burst:
    return lambda: np.matmul(one, other, out=out)


def _torch_products(threads: int) -> Iterator[tuple[str, int, Burst]]:
    import torch

    torch.set_num_threads(threads)
    for dtype in (torch.float32, torch.bfloat16):
        name = str(dtype).removeprefix("torch.")
        for size in _PRODUCT_SIZES:
            one, other = torch.ones(size, size, dtype=dtype), torch.ones(size, size, dtype=dtype)
            yield name, 2 * size**3, _torch_product(torch.mm, one, other)


def _torch_product(multiply: Callable[[Any, Any], Any], one: Any, other: Any) -> Burst:
    return lambda: multiply(one, other)


def _onnx_products(threads: int) -> Iterator[tuple[str, int, Burst]]:
    from edgex.runtime.engines.onnxruntime.nodes import write_product
    from edgex.runtime.engines.onnxruntime.session import import_onnxruntime

    onnxruntime = import_onnxruntime()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = threads
    for left, dtype in (("float32", "float32"), ("int8", "int8"), ("uint8", "int8")):
        for size in _PRODUCT_SIZES:
            session = onnxruntime.InferenceSession(
                write_product(size, left), options, providers=["CPUExecutionProvider"]
            )
            binding = session.io_binding()
            binding.bind_cpu_input("a", np.ones((size, size), left))
            binding.bind_output("c")
            yield dtype, 2 * size**3, _bound_run(session, binding)


def _bound_run(session: Any, binding: Any) -> Burst:
    return lambda: session.run_with_iobinding(binding)


def _measure_in_process(threads: int) -> Ceilings:
    counts = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    with Child(f"{__name__}:answer", "the process that measures the host's ceilings", counts) as child:
        return _parse(child.ask({"do": "measure", "threads": threads}, timeout_seconds=_TIMEOUT_SECONDS))


def answer(request: Mapping[str, Any], _tell: Tell) -> dict[str, Any]:
    """The child's side."""
    return _describe(measure(request["threads"]))


def _key(threads: int) -> str:
    host = read_host()
    versions = [installed_version(name) for name in _LIBRARIES]
    parts = (_VERSION, threads, host.cpu, host.isa, host.usable_cores, host.cpu_quota, versions)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:20]


def _read(file: Path) -> Ceilings | None:
    try:
        return _parse(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        return None  # not there, or not what this version writes: it is measured again


def _parse(data: Mapping[str, Any]) -> Ceilings:
    return Ceilings(data["threads"], {str(name): float(value) for name, value in data["gflops"].items()}, data["gbps"])


def _describe(ceilings: Ceilings) -> dict[str, Any]:
    return {"threads": ceilings.threads, "gflops": dict(ceilings.gflops), "gbps": ceilings.gbps}


def _write(file: Path, ceilings: Ceilings) -> None:
    """Keep the ceilings; a cache that cannot be written only costs the time next time."""
    text = json.dumps(_describe(ceilings))
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, text)
