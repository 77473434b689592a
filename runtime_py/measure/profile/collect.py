"""Measure an artifact: `edgex.profile(session)`, and the same on any executor.

Latency, memory and operators are separate passes. Load, first run and memory come from fresh processes, steady latency
from a session that is warm.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from edgex.runtime.artifact.artifact import Artifact, CheckLevel, check_level
from edgex.runtime.execute.base import Executor, Progress, no_progress
from edgex.runtime.execute.here.in_process import InProcess
from edgex.runtime.execute.request import RunRequest, RunResult
from edgex.runtime.execute.sampling import Clock
from edgex.runtime.measure.profile.builder import build_report
from edgex.runtime.measure.profile.report import ProfileReport
from edgex.runtime.measure.steps import Inputs, choose_steps
from edgex.runtime.session.session import Session

FRESH_PROCESSES = 3


def profile(
    session: Session | Artifact | str | os.PathLike[str],
    inputs: Inputs | None = None,
    warmup: int | None = None,
    runs: int | None = None,
    *,
    check: CheckLevel = "hash",
    fresh_processes: int = FRESH_PROCESSES,
    trace: bool = True,
    progress: Progress = no_progress,
    keep: Callable[[ProfileReport], object] = lambda _report: None,
    clock: Clock = time.perf_counter_ns,
) -> ProfileReport:
    """Measure load, first run, steady latency, memory and operators of an artifact.

    A model with state is timed in whole sequences, each from `session.reset()`: the longest proved one, or the given
    inputs as often. The session is left reset.

    Args:
        session: A loaded artifact; one that is not, or its folder, is loaded for this as `edgex.load` does.
        inputs: Inputs of one run, by name or in order; None is the golden example.
        warmup: Warm-up runs; None runs until the latency settles.
        runs: Samples to take; None takes about three seconds' worth.
        check: How the fresh processes check the artifact: `hash` or `size`.
        fresh_processes: How many processes to start for load, first run and memory; at least 1.
        trace: Whether to trace operators, in runs of their own after the latency was measured.
        progress: Told about each stage, with a detail.
        keep: Receives what is measured so far, marked as not complete, when there is more and when it is interrupted.
        clock: Nanoseconds, for the steady latency.

    Raises:
        UsageError: An argument is of another type, or there is no such `check`.
        ArtifactError: There are no example inputs and none were given.
        RunError: The inputs do not fit, or the engine failed.
    """
    check_level(check)
    if not isinstance(session, Session):
        from edgex.runtime.engines.loading import load

        with load(session, check=check) as loaded:
            return profile(
                loaded, inputs, warmup, runs, check=check, fresh_processes=fresh_processes, trace=trace,
                progress=progress, keep=keep, clock=clock,
            )  # fmt: skip
    request = RunRequest(
        (choose_steps(session.artifact, inputs),),
        session.settings.threads,
        session.settings.options,
        check,
        warmup,
        runs,
        max(1, fresh_processes),
        trace,
    )
    executor = InProcess(session, clock=clock)
    return measure_request(executor, session.artifact, request, given=inputs is not None, progress=progress, keep=keep)


def profile_on(
    executor: Executor,
    artifact: Artifact,
    inputs: Inputs | None = None,
    warmup: int | None = None,
    runs: int | None = None,
    *,
    threads: int | None = None,
    options: Mapping[str, Any] | None = None,
    check: CheckLevel = "hash",
    fresh_processes: int = FRESH_PROCESSES,
    trace: bool = True,
    progress: Progress = no_progress,
    keep: Callable[[ProfileReport], object] = lambda _report: None,
) -> ProfileReport:
    """Measure on an executor, such as a device; see `profile`.

    Args:
        executor: Where.
        artifact: What.
        inputs: See `profile`.
        warmup: See `profile`.
        runs: See `profile`.
        threads: Threads of a run; None leaves it to the executor.
        options: Engine settings by name; devices take none.
        check: How the artifact is checked before it is loaded.
        fresh_processes: Processes for load, first run and memory.
        trace: Whether to record operators, in runs of their own, where that can be done.
        progress: Told about each stage, with a detail.
        keep: See `profile`.

    Raises:
        ArtifactError: There are no example inputs and none were given.
        RunError: The inputs do not fit, or the engine failed.
        DeviceError: The device failed.
    """
    steps = choose_steps(artifact, inputs)
    request = RunRequest((steps,), threads, options or {}, check, warmup, runs, fresh_processes, trace)
    return measure_request(executor, artifact, request, given=inputs is not None, progress=progress, keep=keep)


def measure_request(
    executor: Executor,
    artifact: Artifact,
    request: RunRequest,
    *,
    given: bool,
    progress: Progress,
    keep: Callable[[ProfileReport], object],
) -> ProfileReport:
    """Execute a request that takes samples, and report.

    Args:
        executor: Where.
        artifact: What.
        request: How.
        given: Whether the inputs were the caller's.
        progress: Told about each stage, with a detail.
        keep: See `profile`.

    Raises:
        EdgexError: See `Executor.execute`.
    """
    started = time.monotonic()

    def keep_part(result: RunResult) -> None:
        untraced = replace(request, trace=False)
        part = build_report(artifact, untraced, result, executor.host, given=given)
        keep(replace(part, complete=False))

    result = executor.execute(artifact, request, progress, keep_part)
    return build_report(
        artifact,
        request,
        result,
        executor.host,
        given=given,
        seconds=time.monotonic() - started,
        ceilings=result.device is None,
        progress=progress,
    )
