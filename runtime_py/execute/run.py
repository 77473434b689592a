"""Run an artifact once: `edgex run`, wherever it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from edgex.runtime.artifact.artifact import Artifact, CheckLevel
from edgex.runtime.execute.base import Executor, Progress, no_progress
from edgex.runtime.execute.request import RunRequest, RunResult
from edgex.runtime.session.non_finite import FiniteCheck
from edgex.runtime.session.signature import Signature


def run_once(
    executor: Executor,
    artifact: Artifact,
    inputs: Mapping[str, Any],
    *,
    threads: int | None = None,
    options: Mapping[str, Any] | None = None,
    check: CheckLevel = "hash",
    allow_non_finite: bool = False,
    progress: Progress = no_progress,
) -> tuple[tuple[np.ndarray, ...], RunResult]:
    """Run once.

    Args:
        executor: Where.
        artifact: What.
        inputs: Inputs by name.
        threads: Threads of the run; None leaves it to the engine.
        options: Engine settings by name.
        check: How the artifact is checked before it is loaded.
        allow_non_finite: As for `edgex.load`.
        progress: Told about each stage, with a detail.

    Returns:
        The outputs in the manifest's order, and all that the executor said.

    Raises:
        RunError: The inputs do not fit, or the engine failed.
        DeviceError: The device failed.
    """
    if not allow_non_finite:
        FiniteCheck(artifact).require(Signature(artifact.manifest.method.inputs).prepare(inputs))
    result = executor.execute(artifact, RunRequest(((inputs,),), threads, options or {}, check), progress)
    for error in result.refused.values():
        raise error
    found = result.outputs[0][0]
    return tuple(found[spec.name] for spec in artifact.manifest.method.outputs), result
