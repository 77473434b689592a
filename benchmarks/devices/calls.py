"""What a Session adds to the own call of LiteRT, Core AI and ONNX Runtime on QNN, each where it is installed."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import edgex
from benchmarks.cost.bare import bare_call, qnn_call
from benchmarks.cost.overhead import GOAL_SECONDS
from benchmarks.processes import run_process
from benchmarks.publish import read_origin, render_origin
from edgex.runtime.artifact.golden import read_example
from edgex.runtime.measure.turns.calls import compare_interleaved
from edgex.runtime.report.figures import format_seconds
from edgex.runtime.support.machine.host import read_host

# The target, and what its export needs beside the model.
TARGETS: Mapping[str, tuple[str, ...]] = {
    "litert": (),
    "coreai": (),
    "onnx-qnn": ("--precision", "fp16", "--option", "soc=sm8650"),
}


def measure(target: str, max_seconds: float = 20.0) -> dict[str, Any]:
    """Engine's call and Session in turns, one thread, in this process.

    Args:
        target: One of `TARGETS`, installed.
        max_seconds: For the choice of rounds.

    Returns:
        Seconds: `bare_seconds`, `added_seconds`, `added_ci95_seconds`; the number of samples, and where and when.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "edgex", "export", "benchmarks/models.py:tiny", "-q", "-t", target]
        run_process([*command, *TARGETS[target], "-o", folder])
        path = Path(folder) / f"tiny.{target}.edgex"
        with edgex.load(path, threads=None if target == "coreai" else 1) as session:
            example = read_example(session.artifact)
            arrays = [example[spec.name] for spec in session.inputs]
            engine = session.artifact.manifest.engine
            makers = {"onnx-qnn": qnn_call, "coreai": _coreai_call}
            bare = makers.get(target, partial(bare_call, engine))(path, arrays)
            calls: list[Callable[[], object]] = [bare, partial(session.run, *arrays)]
            result = compare_interleaved(calls, ["bare", "edgex"], max_seconds=max_seconds)
    estimate, middle = result.judgements[0].estimate, result.summaries[0].median
    low, high = estimate.ci95 or (estimate.ratio,) * 2
    return {
        "origin": read_origin(),
        "cpu": read_host().cpu,
        "bare_seconds": middle,
        "added_seconds": middle * (estimate.ratio - 1.0),
        "added_ci95_seconds": [middle * (low - 1.0), middle * (high - 1.0)],
        "samples": result.summaries[0].n,
    }


def _coreai_call(path: Path, arrays: Sequence[np.ndarray]) -> Callable[[], object]:
    """The local runtime's function, its arrays made of NumPy's and back."""
    import asyncio

    import coreai.runtime
    from coreai.authoring.asset import AIModelAsset

    from edgex.runtime.engines.coreai.waiting import CallLoop

    opened = AIModelAsset.load(path / "model.aimodel").executable()
    # Kept for the life of the process: without it the compiled files are removed.
    model = asyncio.new_event_loop().run_until_complete(opened.__aenter__())
    function, loop = model.load_function("main"), CallLoop()
    feed = dict(zip(function.desc.input_names, arrays, strict=True))

    def call(_kept: object = opened) -> object:
        given = {name: coreai.runtime.NDArray(array) for name, array in feed.items()}
        found = loop.wait(function(inputs=given))
        return {name: array.numpy() for name, array in found.items()}

    return call


def render(found: Mapping[str, Any]) -> str:
    """The section of the page; empty without figures."""
    if not found:
        return ""
    lines = [
        "## What a Session adds to the engine's own call",
        "",
        "`session.run(x)` on one linear layer of 8 x 8 beside the engine's own call with prepared NumPy arrays: the "
        "interpreter's `set_tensor`, `invoke`, `get_tensor`; Core AI's function, waited for as a Session does, which "
        "saves the 30 µs of asyncio's event loop; `InferenceSession.run` on the QNN provider. One process, interleaved "
        "rounds in alternating order; *added* is the bare median times (ratio - 1), with the ratio's 95 % interval. "
        "What a call takes in QNN's simulator is not shown: it is not the device's time, and what a Session adds to it "
        "is this machine's.",
        "",
        "| target | the engine's call | added | 95 % interval | |",
        "|---|---:|---:|---:|---|",
    ]
    for target, figures in found.items():
        bare = "not shown" if target == "onnx-qnn" else format_seconds(figures["bare_seconds"])
        low, high = figures["added_ci95_seconds"]
        word = "met" if figures["added_seconds"] <= GOAL_SECONDS else "**not met**"
        added = _signed(figures["added_seconds"])
        goal = f"{word}: at most {format_seconds(GOAL_SECONDS)}"
        lines.append(f"| {target} | {bare} | {added} | {_signed(low)} to {_signed(high)} | {goal} |")
    lines += ["", *(f"- {name}: {render_origin(one['origin'])} {one['cpu']}." for name, one in found.items())]
    return "\n".join(lines)


def _signed(seconds: float) -> str:
    return f"{'-' if seconds < 0 else '+'}{format_seconds(abs(seconds))}"
