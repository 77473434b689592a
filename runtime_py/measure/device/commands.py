"""`run`, `verify` and `profile` on a device: requests, and the same results as on this machine out of the answers."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

import numpy as np

from edgex._version import __version__
from edgex.errors import ArtifactError, DeviceError, EdgexError
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.artifact.golden import Step, read_golden
from edgex.runtime.engines.trace.operators import MemoryStage
from edgex.runtime.engines.trace.source_map import read_source_map, read_source_text, read_weights
from edgex.runtime.engines.trace.tracing import finish_rows, summarize_trace
from edgex.runtime.execute.base import Arrays, ColdStart, Device, DeviceAnswer, DeviceRequest, Progress, no_progress
from edgex.runtime.execute.recorded import RecordedRunner, checking_session
from edgex.runtime.measure.profile.report import (
    FreshRun,
    LoadTimes,
    MemoryUse,
    ProfiledArtifact,
    ProfileReport,
    ProfileSettings,
)
from edgex.runtime.measure.profile.warnings import find_warnings
from edgex.runtime.measure.statistics import summarize
from edgex.runtime.session.replay import Verification, replay_artifact
from edgex.runtime.session.session import Session
from edgex.runtime.support.activity import Activity, MeasurementWarning
from edgex.runtime.support.host import HostInfo

FRESH_PROCESSES = 3


def run_on(
    device: Device,
    artifact: Artifact,
    inputs: Mapping[str, Any],
    threads: int | None = None,
    progress: Progress = no_progress,
) -> tuple[tuple[np.ndarray, ...], DeviceAnswer]:
    """Run once on a device.

    Args:
        device: Where.
        artifact: What.
        inputs: Inputs by name.
        threads: Threads of the run; None leaves it to the device.
        progress: Told about each stage, with a detail.

    Returns:
        The outputs in the manifest's order, and all that the device said.

    Raises:
        RunError: The inputs do not fit, or the engine failed.
        DeviceError: The device failed.
    """
    step = _prepare(artifact, inputs)
    answer = device.execute(artifact, DeviceRequest(((step,),), threads), progress)
    found = answer.outputs[0][0]
    return tuple(found[spec.name] for spec in artifact.manifest.method.outputs), answer


def verify_on(
    device: Device, artifact: Artifact, threads: int | None = None, progress: Progress = no_progress
) -> tuple[Verification, DeviceAnswer]:
    """Run every golden case on a device, and hold its outputs against eager's, here.

    Raises:
        RunError: The engine failed.
        DeviceError: The device failed.
    """
    cases = [case for case in read_golden(artifact) if case.kind == "compare"]
    if not cases:
        raise ArtifactError("the artifact holds no golden cases", artifact.path.name, "export the model again")
    sequences = tuple(tuple(_prepare(artifact, step.inputs) for step in case.steps) for case in cases)
    answer = device.execute(artifact, DeviceRequest(sequences, threads), progress)
    session = Session(artifact, RecordedRunner(artifact, answer))
    return replay_artifact(artifact, session), answer


def profile_on(
    device: Device,
    artifact: Artifact,
    inputs: Mapping[str, Any] | None = None,
    warmup: int | None = None,
    runs: int | None = None,
    *,
    threads: int | None = None,
    trace: bool = True,
    fresh_processes: int = FRESH_PROCESSES,
    progress: Progress = no_progress,
) -> ProfileReport:
    """Measure on a device: the report of `edgex.runtime.measure.profile.collect.profile`, with `source: device`.

    Args:
        device: Where.
        artifact: What.
        inputs: Inputs of one run by name; None is the golden example.
        warmup: Warm-up runs; None runs until the latency settles.
        runs: Samples to take; None takes about three seconds' worth.
        threads: Threads of a run; None leaves it to the device.
        trace: Whether to record operators, in runs of their own, where the device can.
        fresh_processes: Processes for load, first run and memory.
        progress: Told about each stage, with a detail.

    Raises:
        ArtifactError: There are no example inputs and none were given.
        RunError: The inputs do not fit, or the engine failed.
        DeviceError: The device failed.
    """
    steps = _find_steps(artifact, inputs)
    request = DeviceRequest((steps,), threads, warmup, runs, fresh_processes, trace)
    started = time.monotonic()
    answer = device.execute(artifact, request, progress)
    seconds = time.monotonic() - started
    return make_report(artifact, request, answer, device.host, seconds, given=inputs is not None)


def make_report(
    artifact: Artifact, request: DeviceRequest, answer: DeviceAnswer, host: HostInfo, seconds: float, *, given: bool
) -> ProfileReport:
    """The report of an answer.

    Args:
        artifact: What ran.
        request: What was asked.
        answer: What was answered; it holds samples.
        host: The device, as a profile describes a machine.
        seconds: How long all of it took, the way there and back included.
        given: Whether the inputs were the caller's.
    """
    rounds = tuple(tuple(round(sample, 10) for sample in one) for one in answer.rounds)
    summary = summarize(rounds)
    fresh = tuple(_fresh(cold) for cold in answer.cold)
    shapes = {name: array.shape for name, array in request.sequences[0][0].items()}
    settings = ProfileSettings(
        inputs="given" if given else "golden",
        shapes=shapes,
        steps=answer.steps,
        threads_requested=request.threads,
        options={},
        warmup_requested=request.warmup,
        warmup_runs=answer.warmup_runs,
        warmup_seconds=answer.warmup_seconds,
        warmup_settled=answer.warmup_settled,
        runs_requested=request.runs,
        rounds=len(rounds),
        samples_per_round=len(rounds[0]),
        calls_per_sample=answer.calls_per_sample,
        fresh_processes=len(fresh),
        clock="the device's",
        threads_source="default" if request.threads is None else "given",
    )
    load_average = answer.conditions.get("load_average_before")
    activity = Activity(seconds, None, None, None, load_average, None)
    said = tuple(MeasurementWarning(warning["code"], warning["text"]) for warning in answer.warnings)
    manifest = artifact.manifest
    report = ProfileReport(
        edgex_version=__version__,
        artifact=ProfiledArtifact(
            name=manifest.name,
            target=manifest.target,
            precision=manifest.precision,
            digest=artifact.digest,
            bytes=artifact.total_bytes,
            engine=manifest.engine,
            versions=dict(answer.versions),
            recipe=manifest.recipe,
        ),
        host=host,
        settings=settings,
        executed_on=answer.executed_on,
        threads=answer.threads,
        load_seconds=LoadTimes.over(fresh),
        fresh=fresh,
        steady=summary,
        rounds=rounds,
        throughput=1.0 / summary.mean,
        memory=_memory(artifact, fresh),
        activity=activity,
        warnings=(*said, *find_warnings(summary, rounds, settings, host, answer.threads, activity)),
        source="device",
        run_id=answer.run_id,
        device=_describe(answer),
    )
    return _add_operators(report, artifact, answer) if request.trace else report


def _prepare(artifact: Artifact, inputs: Mapping[str, Any]) -> Arrays:
    """Inputs, checked as a Session checks them before any engine sees them."""
    arrays = checking_session(artifact).prepare(**inputs)
    return {spec.name: array for spec, array in zip(artifact.manifest.method.inputs, arrays, strict=True)}


def _find_steps(artifact: Artifact, inputs: Mapping[str, Any] | None) -> tuple[Arrays, ...]:
    """The inputs of one round: one run without state, the longest proved sequence with it."""
    has_state = bool(artifact.manifest.method.state)
    proved = [case.steps for case in read_golden(artifact) if case.kind == "compare"]
    steps: Sequence[Step] = max(proved, key=len, default=()) if has_state else tuple(proved[0][:1]) if proved else ()
    if inputs is not None:
        return (_prepare(artifact, inputs),) * (max(1, len(steps)) if has_state else 1)
    if not steps:
        raise ArtifactError("the artifact holds no example inputs", artifact.path.name, "give inputs with -i")
    return tuple(_prepare(artifact, step.inputs) for step in steps)


def _fresh(cold: ColdStart) -> FreshRun:
    return FreshRun(
        check=cold.check,
        engine_import=cold.startup,
        program=cold.program,
        method=cold.method or 0.0,
        first=cold.first or 0.0,
        peak_rss_bytes=cold.peak_rss_bytes,
        stages=dict(cold.stages),
    )


def _memory(artifact: Artifact, fresh: Sequence[FreshRun]) -> MemoryUse:
    from edgex.runtime.engines.executorch.pte import read_pte

    peaks = [run.peak_rss_bytes for run in fresh if run.peak_rss_bytes is not None]
    native = [file for file in artifact.manifest.files if not file.path.startswith(("golden/", "debug/"))]
    is_pte = artifact.manifest.engine == "executorch"
    names = dict.fromkeys(stage for run in fresh for stage in run.stages)
    return MemoryUse(
        peak_rss_bytes=int(median(peaks)) if peaks else None,
        planned_arena_bytes=read_pte(artifact.file(".pte")).planned_arena_bytes if is_pte else None,
        weights_bytes=sum(file.bytes for file in native),
        stages=tuple(
            MemoryStage(name, int(median(run.stages[name] for run in fresh if name in run.stages))) for name in names
        ),
        weights=read_weights(artifact),
    )


def _describe(answer: DeviceAnswer) -> dict[str, Any]:
    told = answer.device.to_json()
    return {**told, "copy_seconds": answer.copy_seconds, "copied_bytes": answer.copied_bytes, **answer.conditions}


def _add_operators(report: ProfileReport, artifact: Artifact, answer: DeviceAnswer) -> ProfileReport:
    """Rows of the device's trace; where there is none, a warning says why."""
    try:
        if answer.trace is None:
            raise DeviceError(answer.no_trace_reason or "the device records no operators")
        from edgex.runtime.engines.executorch.trace.device import read_device_trace

        found = read_device_trace(answer.trace, read_source_map(artifact, report.settings.shapes))
    except EdgexError as error:
        warning = MeasurementWarning("not-traced", " ".join(str(error).split()))
        return replace(report, warnings=(*report.warnings, warning))
    rows = finish_rows(found, None)
    return replace(
        report,
        ops=rows,
        trace=summarize_trace(found, rows, report.steady.median * 1e6),
        memory=replace(report.memory, arena=found.arena),
        sources=read_source_text(artifact),
    )
