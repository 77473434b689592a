"""The passes after the latency: traced runs, the host's ceilings, the meters. None of them gives a latency figure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from edgex.errors import EdgexError
from edgex.runtime.engines.registry import get_engine
from edgex.runtime.engines.trace.operators import Ceilings, OperatorRow
from edgex.runtime.engines.trace.source_map import read_source_text
from edgex.runtime.engines.trace.tracing import (
    EngineTrace,
    TracingEngine,
    finish_rows,
    flag_impossible,
    plan_trace,
    run_sequence,
    summarize_trace,
)
from edgex.runtime.measure.profile.ceilings import find_ceilings
from edgex.runtime.measure.profile.meters import read_meters
from edgex.runtime.measure.profile.report import ProfileReport
from edgex.runtime.session.session import Session
from edgex.runtime.support.activity import MeasurementWarning

Progress = Callable[[str, str], None]


def inspect_runs(
    session: Session, steps: Sequence[Sequence[np.ndarray]], measured: ProfileReport, progress: Progress
) -> ProfileReport:
    """Add operators, ceilings and meters to a report.

    What this host or this engine cannot tell stays None; for operators a warning says why.

    Args:
        session: The session that was measured; traced runs get one of their own.
        steps: Inputs of the runs between two resets.
        measured: The report so far.
        progress: Told about each stage, with a detail.
    """
    progress("trace", "operators, in runs of their own")
    found, reason = trace_session(session, steps, measured.steady.median)
    warnings: tuple[MeasurementWarning, ...] = ()
    if reason is not None:
        warnings = (MeasurementWarning("not-traced", reason),)
    if found is not None:
        progress("ceilings", "what this machine can do at best")
        rows, ceilings, doubts = _judge(found, session.threads)
        warnings += doubts
        measured = replace(
            measured,
            ops=rows,
            trace=summarize_trace(found, rows, measured.steady.median * 1e6),
            ceilings=ceilings,
            memory=replace(measured.memory, arena=found.arena),
            sources=read_source_text(session.artifact),
        )
    meters = read_meters(lambda: run_sequence(session, steps), len(steps), measured.steady.median * len(steps))
    session.reset()
    return replace(measured, energy=meters.energy, counters=meters.counters, warnings=(*measured.warnings, *warnings))


def _judge(
    found: EngineTrace, threads: int | None
) -> tuple[tuple[OperatorRow, ...], Ceilings | None, tuple[MeasurementWarning, ...]]:
    """Rows held against the host's ceilings; where one breaks through them, these are measured once more."""
    if threads is None:
        return finish_rows(found, None), None, ()
    try:
        ceilings = find_ceilings(threads)
        rows = finish_rows(found, ceilings)
        if flag_impossible(rows)[1]:
            ceilings = find_ceilings(threads, again=True)
            rows = finish_rows(found, ceilings)
    except EdgexError as error:
        return finish_rows(found, None), None, (MeasurementWarning("no-ceilings", _one_line(error)),)
    kept, impossible = flag_impossible(rows)
    return kept, ceilings, impossible


def trace_session(
    session: Session, steps: Sequence[Sequence[np.ndarray]], run_seconds: float
) -> tuple[EngineTrace | None, str | None]:
    """Trace the operators of a session's artifact, in a session of its own with the same threads and settings.

    Args:
        session: Whose artifact, threads and settings to take.
        steps: Inputs of the runs between two resets.
        run_seconds: Of one run that is not traced.

    Returns:
        What the engine found; or None, and the reason.
    """
    manifest = session.artifact.manifest
    engine = get_engine(manifest.engine)
    if not isinstance(engine, TracingEngine):
        return None, f"the engine {manifest.engine} reports no operators"
    shapes = {spec.name: array.shape for spec, array in zip(session.inputs, steps[0], strict=True)}
    plan = plan_trace(steps, shapes, run_seconds)
    try:
        return engine.trace(session.artifact, replace(session.settings, threads=session.threads), plan), None
    except EdgexError as error:
        return None, _one_line(error)


def _one_line(error: EdgexError) -> str:
    return " ".join(str(error).split())
