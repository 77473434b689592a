"""What `session.run` adds to the bare engine call: time on a tiny model, copies on large tensors."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import edgex
from benchmarks.cost.bare import bare_call
from benchmarks.outcome import Goal, Outcome
from benchmarks.processes import run_process
from edgex.runtime.artifact.golden import read_example
from edgex.runtime.measure.turns.calls import compare_interleaved
from edgex.runtime.report.figures import format_seconds

NAME = "overhead"
GOAL_SECONDS = 10e-6
TARGETS = ("onnx-cpu", "xnnpack")


def measure(quick: bool) -> Outcome:
    """Time both engines on both models, one thread, all in this process."""
    rows, goals, data = [], [], {}
    with tempfile.TemporaryDirectory() as folder:
        for model in ("tiny", "large"):
            command = [sys.executable, "-m", "edgex", "export", f"benchmarks/models.py:{model}", "-q"]
            run_process([*command, "-t", ",".join(TARGETS), "-o", folder])
            for target in TARGETS:
                print(f"  overhead: {model} on {target}", file=sys.stderr, flush=True)
                figures = _compare(Path(folder) / f"{model}.{target}.edgex", 2.0 if quick else 10.0)
                data[f"{model} {target}"] = figures
                rows.append(_row(model, target, figures))
                goals.append(_goal(model, target, figures))
    return Outcome(
        NAME,
        "What a Session adds to the bare engine call",
        (
            "`session.run(x)` beside the engine's own call on the same file with prepared inputs: "
            "`InferenceSession.run(names, feed)`, and `method([tensor])` of ExecuTorch's binding.",
            "One thread, one process, interleaved rounds in alternating order; times are medians of a call.",
            "*Added* is the bare median times (ratio - 1), with the ratio's 95 % interval.",
            "The large model takes and gives 16 MiB; *one copy* is `numpy.copy` of 16 MiB in the same rounds.",
        ),
        ("model, target", "bare", "edgex", "added", "95 % interval", "one copy"),
        rows,
        goals,
        data,
    )


def _compare(path: Path, max_seconds: float) -> dict[str, Any]:
    """Bare call and Session in turns, seconds."""
    with edgex.load(path, threads=1) as session:
        example = read_example(session.artifact)
        arrays = [example[spec.name] for spec in session.inputs]
        bare = bare_call(session.artifact.manifest.engine, path, arrays)
        calls: list[Callable[[], object]] = [bare, partial(session.run, *arrays), partial(np.copy, arrays[0])]
        result = compare_interleaved(calls, ["bare", "edgex", "copy"], max_seconds=max_seconds)
    judgement = result.judgements[0]
    medians = [summary.median for summary in result.summaries]
    low, high = judgement.estimate.ci95 or (judgement.estimate.ratio,) * 2
    return {
        "bare_seconds": medians[0],
        "edgex_seconds": medians[1],
        "copy_seconds": medians[2],
        "added_seconds": medians[0] * (judgement.estimate.ratio - 1.0),
        "added_ci95_seconds": [medians[0] * (low - 1.0), medians[0] * (high - 1.0)],
        "samples": result.summaries[0].n,
        **judgement.to_json(),
    }


def _row(model: str, target: str, figures: dict[str, Any]) -> list[str]:
    bare = figures["bare_seconds"]
    low, high = figures["added_ci95_seconds"]
    return [
        f"{model}, {target}",
        format_seconds(bare),
        format_seconds(figures["edgex_seconds"], like=bare),
        _signed(figures["added_seconds"]),
        f"{_signed(low)} to {_signed(high)}",
        format_seconds(figures["copy_seconds"], like=bare) if model == "large" else "",
    ]


def _goal(model: str, target: str, figures: dict[str, Any]) -> Goal:
    added = figures["added_seconds"]
    if model == "tiny":
        return Goal(f"{target}: at most 10 µs more than the bare call", _signed(added), added <= GOAL_SECONDS)
    copy = figures["copy_seconds"]
    share = f"{added / copy:.2f} copies"
    return Goal(f"{target}: less than half of one copy of 16 MiB more than the bare call", share, added < 0.5 * copy)


def _signed(seconds: float) -> str:
    return f"{'-' if seconds < 0 else '+'}{format_seconds(abs(seconds))}"
