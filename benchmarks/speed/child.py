"""One model, timed: `python -m benchmarks.speed.child NAME THREADS ROUNDS` prints one JSON document."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks.coverage.suite import TARGETS, Example
from benchmarks.speed.models import entries

Call = Callable[[], object]
# A sample takes at least this long, so that the clock and one interruption are small beside it.
_SAMPLE_SECONDS = 0.02
_MOST_CALLS = 200


def measure(name: str, threads: int, rounds: int) -> dict[str, Any]:
    """Seconds of one call by contender, each round in the opposite order of the one before; and what failed."""
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    (entry,) = entries([name])
    example = entry.make()
    failures: dict[str, str] = {}
    outside: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        makers = {
            target: (lambda target=target: _ours(example, target, Path(folder), threads, outside)) for target in TARGETS
        }
        makers |= {"eager": lambda: _eager(example), "inductor": lambda: _inductor(example)}
        makers |= {"openvino": lambda: _openvino(example, threads)}
        calls: dict[str, Call] = {}
        for contender, make in makers.items():
            print(f"  {name}: {contender}", file=sys.stderr, flush=True)
            try:
                calls[contender] = make()
                calls[contender]()
            except Exception as error:  # a peer may fail in any way, and the row says how
                calls.pop(contender, None)
                failures[contender] = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        repeats = {contender: _repeats(call) for contender, call in calls.items()}
        seconds: dict[str, list[float]] = {contender: [] for contender in calls}
        for number in range(rounds):
            for contender in calls if number % 2 == 0 else reversed(calls):
                started = time.perf_counter()
                for _ in range(repeats[contender]):
                    calls[contender]()
                seconds[contender].append((time.perf_counter() - started) / repeats[contender])
    shapes = [list(tensor.shape) for tensor in (*example.args, *example.kwargs.values())]
    return {"name": name, "inputs": shapes, "seconds": seconds, "outside": outside, "failures": failures}


def _repeats(call: Call) -> int:
    samples = []
    for _ in range(3):
        started = time.perf_counter()
        call()
        samples.append(time.perf_counter() - started)
    return max(1, min(_MOST_CALLS, round(_SAMPLE_SECONDS / median(samples))))


def _ours(example: Example, target: str, folder: Path, threads: int, outside: dict[str, dict[str, Any]]) -> Call:
    import edgex

    path = folder / f"model.{target}.edgex"
    artifact = edgex.export_model(example.module, example.args, dict(example.kwargs), target=target, output=path)
    session = edgex.load(artifact.path, threads=threads)
    inputs = [tensor.numpy() for tensor in (*example.args, *example.kwargs.values())]
    delegation = artifact.manifest.delegation
    fallbacks = {item["op"]: item["count"] for item in delegation.get("fallbacks", ())}
    outside[target] = {"calls": delegation.get("delegate_calls"), "operators": fallbacks}
    return lambda: session.run(*inputs)


def _eager(example: Example) -> Call:
    return lambda: example.module(*example.args, **example.kwargs)


def _inductor(example: Example) -> Call:
    compiled = torch.compile(example.module)
    return lambda: compiled(*example.args, **example.kwargs)


def _openvino(example: Example, threads: int) -> Call:
    import openvino

    given = dict(example.kwargs) if example.kwargs else tuple(example.args)
    model = openvino.convert_model(example.module, example_input=given)
    settings = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    compiled = openvino.compile_model(model, "CPU", settings)
    inputs = [tensor.numpy() for tensor in (*example.args, *example.kwargs.values())]
    return lambda: compiled(inputs)


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
