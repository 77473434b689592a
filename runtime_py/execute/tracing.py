"""Operators: of traced runs of an open session's artifact, or out of what a device recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from edgex.errors import EdgexError
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.engines.registry import get_engine
from edgex.runtime.engines.trace.source_map import read_source_map
from edgex.runtime.engines.trace.tracing import EngineTrace, TracingEngine, plan_trace
from edgex.runtime.session.session import Session


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
        return None, " ".join(str(error).split())


def read_recorded(
    recorded: bytes | None, artifact: Artifact, step: Mapping[str, np.ndarray]
) -> tuple[EngineTrace | None, str | None]:
    """Operators of what a device recorded.

    Args:
        recorded: An ETDump; None where there is none.
        artifact: What ran.
        step: The inputs with which it ran.

    Returns:
        Operators; or None, with the reason where something was recorded that cannot be read.
    """
    if recorded is None:
        return None, None
    from edgex.runtime.engines.executorch.trace.device import read_device_trace

    shapes = {name: array.shape for name, array in step.items()}
    try:
        return read_device_trace(recorded, read_source_map(artifact, shapes)), None
    except EdgexError as error:
        return None, " ".join(str(error).split())
