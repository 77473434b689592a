"""Traced runs of any engine, and what every engine's rows have in common: shares, rates, coverage.

An engine that can trace has a method `trace(artifact, settings, plan) -> EngineTrace`; for others a profile has no
operators and says why.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from edgex.runtime.engines.trace.operators import ArenaSpan, Ceilings, OperatorRow, Trace
from edgex.runtime.support.machine.activity import MeasurementWarning

if TYPE_CHECKING:
    from edgex.runtime.artifact.artifact import Artifact
    from edgex.runtime.session.runner import EngineSettings
    from edgex.runtime.session.session import Session

TRACE_SECONDS = 0.6
MIN_RUNS, MAX_RUNS = 5, 200
WARMUP_RUNS = 3
_MIN_TICKS = 5
_FINE_SECONDS = 1e-9
# OpenVINO's kernels end with what they compute in: `Convolution (brgconv_avx512_I8)`.
_KERNEL = re.compile(r"_(I8|U8|BF16|FP16|F16)\)")
_COMPUTED = {"I8": "int8", "U8": "int8", "BF16": "bfloat16", "FP16": "float16", "F16": "float16"}
# oneDNN's, of products that take in the conversions around them.
_FUSED = re.compile(r"^dequantize\+(convolution|conv_transpose|linear|matmul|mm|bmm|addmm)\b")
# XNNPACK's names of quantized kernels: `Fully Connected (NC, QDU8, F32, QC8W) GEMM`.
_QUANTIZED = re.compile(r"\(\w+, Q[A-Z]*8")

Arrays = Sequence[np.ndarray]


@dataclass(frozen=True)
class TracePlan:
    """What to run.

    Attributes:
        steps: Inputs of the runs between two resets.
        shapes: Shape of each input by name.
        sequences: How often to go through the steps.
    """

    steps: Sequence[Arrays]
    shapes: Mapping[str, Sequence[int]]
    sequences: int


@dataclass(frozen=True)
class EngineTrace:
    """What an engine found.

    Attributes:
        rows: Leaves of one run, in order of execution; share, rates and roofline are not filled in yet.
        runs: Runs that the medians are over.
        execute_seconds: Median of the whole run.
        resolution_seconds: The engine's clock counts in these.
        coverage: Median over the runs of the part of a run that its operators took.
        arena: Planned memory, where the engine plans it.
    """

    rows: tuple[OperatorRow, ...]
    runs: int
    execute_seconds: float
    resolution_seconds: float
    coverage: float
    arena: tuple[ArenaSpan, ...] = ()


@runtime_checkable
class TracingEngine(Protocol):
    """An engine that can trace its operators."""

    def trace(self, artifact: Artifact, settings: EngineSettings, plan: TracePlan) -> EngineTrace:
        """Run in a session of its own, with events recorded.

        Raises:
            RunError: The engine failed, or its trace is damaged.
        """
        ...


def plan_trace(steps: Sequence[Arrays], shapes: Mapping[str, Sequence[int]], run: float) -> TracePlan:
    """As many runs as fit into `TRACE_SECONDS`.

    Args:
        steps: Inputs of the runs between two resets.
        shapes: Shape of each input by name.
        run: Seconds of one run, not traced.
    """
    runs = min(MAX_RUNS, max(MIN_RUNS, int(TRACE_SECONDS / max(run, 1e-9))))
    return TracePlan(steps, shapes, max(1, -(-runs // len(steps))))


def run_sequences(session: Session, plan: TracePlan, sequences: int) -> None:
    """Go through the plan's steps on a session."""
    for _ in range(sequences):
        run_sequence(session, plan.steps)


def run_sequence(session: Session, steps: Sequence[Arrays]) -> None:
    """Run once through the steps, from reset."""
    session.reset()
    for arrays in steps:
        session.run(*arrays)


def finish_rows(trace: EngineTrace, ceilings: Ceilings | None) -> tuple[OperatorRow, ...]:
    """Unique names, shares, achieved rates, and the part of the host's ceilings that they are.

    A time of few ticks of the clock is too rough to be compared with a ceiling.
    """
    rows = trace.rows
    total = sum(row.median_seconds for row in rows if row.median_seconds is not None)
    seen: dict[str, int] = {}
    finished = []
    for row in rows:
        seen[row.name] = seen.get(row.name, 0) + 1
        name = row.name if seen[row.name] == 1 else f"{row.name} ({seen[row.name]})"
        if row.median_seconds is None or total <= 0:
            finished.append(dataclasses.replace(row, name=name))
            continue
        seconds = row.median_seconds
        # The engine's own kernels are timed by the runtime's clock, which is fine everywhere.
        tick = _FINE_SECONDS if row.delegate is None else trace.resolution_seconds
        # A rate out of a tick or two is noise, and would stand beside rates that mean something.
        timed = seconds >= _MIN_TICKS * tick
        finished.append(
            dataclasses.replace(
                row,
                name=name,
                share=seconds / total,
                gflops=None if row.flops is None or not timed else row.flops / seconds / 1e9,
                gbps=None if row.bytes is None or not timed else row.bytes / seconds / 1e9,
                roofline_fraction=_roofline_fraction(row, seconds, ceilings) if timed else None,
            )
        )
    return tuple(finished)


def summarize_trace(trace: EngineTrace, rows: Sequence[OperatorRow], untraced_seconds: float) -> Trace:
    """The traced runs as a whole.

    Args:
        trace: What the engine found.
        rows: Its rows, finished.
        untraced_seconds: Median of a run that is not traced.
    """
    work = [row for row in rows if row.category != "overhead" and row.median_seconds is not None]
    total = sum(row.median_seconds or 0.0 for row in work)
    certain = [row for row in work if row.map_confidence in ("exact", "aligned")]
    with_module = sum(row.median_seconds or 0.0 for row in certain if row.module_path is not None)
    with_source = sum(row.median_seconds or 0.0 for row in certain if row.source is not None)
    return Trace(
        runs=trace.runs,
        coverage=trace.coverage,
        execute_seconds=trace.execute_seconds,
        overhead_ratio=trace.execute_seconds / untraced_seconds,
        resolution_seconds=trace.resolution_seconds,
        module_share=with_module / total if total else 0.0,
        source_share=with_source / total if total else 0.0,
    )


def flag_impossible(rows: Sequence[OperatorRow]) -> tuple[tuple[OperatorRow, ...], tuple[MeasurementWarning, ...]]:
    """Take back rates and fractions above the ceilings: a ceiling, a count or a time is wrong then, who knows which."""
    beyond = [row for row in rows if row.roofline_fraction is not None and row.roofline_fraction > 1.0]
    if not beyond:
        return tuple(rows), ()
    worst = max(beyond, key=lambda row: row.roofline_fraction or 0.0)
    text = (
        f"{len(beyond)} operator{'s' if len(beyond) > 1 else ''} came out faster than the calibrated ceilings, "
        f"{worst.name} {worst.roofline_fraction:.2f} times: these have no rates"
    )
    unknown: dict[str, Any] = {"gflops": None, "gbps": None, "roofline_fraction": None}
    kept = tuple(dataclasses.replace(row, **unknown) if row in beyond else row for row in rows)
    return kept, (MeasurementWarning("above-roofline", text),)


def compute_dtype(row: OperatorRow) -> str:
    """In what an operator computes: `int8` where it multiplies bytes, else the dtype of its first input."""
    if _QUANTIZED.search(row.op_type):
        return "int8"
    if named := _KERNEL.search(row.op_type):
        return _COMPUTED[named[1]]
    dtypes = [tensor.dtype for tensor in row.inputs]
    if _FUSED.search(row.op_type) and "int8" in dtypes:
        return "int8"
    first = next(iter(dtypes), "")
    return "int8" if first == "uint8" else first


def _roofline_fraction(row: OperatorRow, seconds: float, ceilings: Ceilings | None) -> float | None:
    """Time of a perfect implementation over the measured one."""
    if ceilings is None or row.category == "overhead" or row.bytes is None:
        return None
    least = row.bytes / ceilings.gbps / 1e9
    if row.flops:
        dtype = compute_dtype(row)
        if dtype not in ceilings.gflops:
            return None
        least = max(least, row.flops / ceilings.gflops[dtype] / 1e9)
    return least / seconds if least > 0 else None
