"""The passes after the latency: traced runs, the host's ceilings, the meters. None of them gives a latency figure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from edgex.errors import EdgexError
from edgex.runtime.activity import MeasurementWarning
from edgex.runtime.engines.registry import get_engine
from edgex.runtime.profile.report import ProfileReport
from edgex.runtime.profile.source_map import read_source_text
from edgex.runtime.profile.tracing import (
    EngineTrace,
    TracingEngine,
    finish_rows,
    flag_impossible,
    plan_trace,
    summarize_trace,
)
from edgex.runtime.session import Session

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
    found, warnings = _trace(session, steps, measured)
    if found is not None:
        rows, impossible = flag_impossible(finish_rows(found, None))
        measured = replace(
            measured,
            ops=rows,
            trace=summarize_trace(found, rows, measured.steady.median * 1e6),
            memory=replace(measured.memory, arena=found.arena),
            sources=read_source_text(session.artifact),
        )
        warnings += impossible
    return replace(measured, warnings=(*measured.warnings, *warnings))


def _trace(
    session: Session, steps: Sequence[Sequence[np.ndarray]], measured: ProfileReport
) -> tuple[EngineTrace | None, tuple[MeasurementWarning, ...]]:
    engine = get_engine(session.artifact.manifest.engine)
    if not isinstance(engine, TracingEngine):
        return None, (MeasurementWarning("not-traced", f"the engine {measured.artifact.engine} reports no operators"),)
    plan = plan_trace(steps, measured.settings.shapes, bool(session.state), measured.steady.median)
    try:
        return engine.trace(session.artifact, replace(session.settings, threads=session.threads), plan), ()
    except EdgexError as error:
        return None, (MeasurementWarning("not-traced", str(error).replace("\n", " ")),)
