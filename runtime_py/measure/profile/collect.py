"""Measure a session: `edgex.profile(session)`.

Latency and memory are separate passes. Load, first run and memory come from fresh processes, steady latency from the
given session, in this process, after warming up.
"""

from __future__ import annotations

import functools
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from edgex._version import __version__
from edgex.errors import ArtifactError
from edgex.runtime.artifact.artifact import Artifact, CheckLevel
from edgex.runtime.artifact.golden import read_golden
from edgex.runtime.engines.registry import get_engine
from edgex.runtime.engines.trace.operators import MemoryStage
from edgex.runtime.engines.trace.source_map import read_weights
from edgex.runtime.execute.sampling import Clock, Workload, plan_rounds, sample_rounds, warm_up
from edgex.runtime.measure.profile.fresh import run_fresh
from edgex.runtime.measure.profile.passes import inspect_runs
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
from edgex.runtime.session.runner import EngineSettings
from edgex.runtime.session.session import Session
from edgex.runtime.support.activity import Activity, describe_activity, take_snapshot
from edgex.runtime.support.host import HostInfo, read_host

Progress = Callable[[str, str], None]
Inputs = Mapping[str, Any] | Sequence[Any]

FRESH_PROCESSES = 3


def profile(
    session: Session,
    inputs: Inputs | None = None,
    warmup: int | None = None,
    runs: int | None = None,
    *,
    check: CheckLevel = "hash",
    fresh_processes: int = FRESH_PROCESSES,
    trace: bool = True,
    progress: Progress = lambda _stage, _detail: None,
    keep: Callable[[ProfileReport], object] = lambda _report: None,
    clock: Clock = time.perf_counter_ns,
) -> ProfileReport:
    """Measure load, first run, steady latency, memory and operators of an artifact.

    A model with state is timed in whole sequences, each from `session.reset()`: the longest proved one, or the given
    inputs as often. The session is left reset.

    Args:
        session: A loaded artifact.
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
        ArtifactError: There are no example inputs and none were given.
        RunError: The inputs do not fit, or the engine failed.
    """
    steps = _find_steps(session, inputs)
    progress("fresh", f"load and first run in {fresh_processes} new processes")
    fresh = _measure_fresh(session, steps[0], fresh_processes, check)

    host = read_host()
    calls = tuple(functools.partial(session.run, *arrays) for arrays in steps)
    workload = Workload(calls, session.reset if session.state else None)
    progress("warm up", "until the latency settles" if warmup is None else f"{warmup} runs")
    before = take_snapshot()
    warm = warm_up(workload, warmup, clock=clock)
    plan = plan_rounds(workload, warm, runs)
    progress("measure", f"{plan.samples} samples in {plan.rounds} rounds")
    taken: list[tuple[float, ...]] = []

    def report() -> ProfileReport:
        activity = describe_activity(before, take_snapshot(), host.logical_cores)
        return _make_report(session, host, settings, fresh, taken, activity)

    settings = ProfileSettings(
        inputs="golden" if inputs is None else "given",
        shapes={spec.name: array.shape for spec, array in zip(session.inputs, steps[0], strict=True)},
        steps=len(steps),
        threads_requested=session.settings.threads,
        options=dict(session.settings.options),
        warmup_requested=warmup,
        warmup_runs=warm.calls,
        warmup_seconds=warm.seconds,
        warmup_settled=warm.settled,
        runs_requested=runs,
        rounds=plan.rounds,
        samples_per_round=plan.samples_per_round,
        calls_per_sample=plan.calls_per_sample,
        fresh_processes=fresh_processes,
        threads_source=session.threads_source,
    )
    try:
        sample_rounds(workload, plan, into=taken, clock=clock)
    except KeyboardInterrupt:
        if taken:
            keep(replace(report(), complete=False))
        raise
    measured = report()
    session.reset()
    if not trace:
        return measured
    keep(replace(measured, complete=False))
    return inspect_runs(session, steps, measured, progress)


def _make_report(
    session: Session,
    host: HostInfo,
    settings: ProfileSettings,
    fresh: tuple[FreshRun, ...],
    samples: Sequence[Sequence[float]],
    activity: Activity,
) -> ProfileReport:
    # A tenth of a nanosecond is finer than any clock here; more digits would only be noise of a division.
    rounds = tuple(tuple(round(sample, 10) for sample in one) for one in samples)
    summary = summarize(rounds)
    return ProfileReport(
        edgex_version=__version__,
        artifact=_describe_artifact(session.artifact),
        host=host,
        settings=settings,
        executed_on=session.executed_on,
        assignment=session.assignment,
        delegation=session.artifact.manifest.delegation or None,
        threads=session.threads,
        load_seconds=LoadTimes.over(fresh),
        fresh=fresh,
        steady=summary,
        rounds=rounds,
        throughput=1.0 / summary.mean,
        memory=_describe_memory(session, fresh),
        activity=activity,
        warnings=find_warnings(summary, rounds, settings, host, session.threads, activity),
    )


def _find_steps(session: Session, inputs: Inputs | None) -> list[list[np.ndarray]]:
    """The inputs of each run of one round: one run without state, a sequence with it."""
    proved = [case.steps for case in read_golden(session.artifact) if case.kind == "compare"]
    # A sequence that was proved stays within the model's limits, for example the length of its cache.
    steps = max(proved, key=len, default=()) if session.state else tuple(proved[0][:1]) if proved else ()
    if inputs is not None:
        arrays = session.prepare(**inputs) if isinstance(inputs, Mapping) else session.prepare(*inputs)
        return [arrays] * (max(1, len(steps)) if session.state else 1)
    if not steps:
        raise ArtifactError("the artifact holds no example inputs", session.artifact.path.name, "give inputs")
    return [session.prepare(*(step.inputs[spec.name] for spec in session.inputs)) for step in steps]


def _measure_fresh(
    session: Session, arrays: Sequence[np.ndarray], processes: int, check: CheckLevel
) -> tuple[FreshRun, ...]:
    from safetensors.numpy import save_file

    with tempfile.TemporaryDirectory(prefix="edgex-profile-") as folder:
        file = Path(folder) / "inputs.safetensors"
        save_file({spec.name: array for spec, array in zip(session.inputs, arrays, strict=True)}, file)
        path = session.artifact.path.resolve()
        settings = session.settings
        if session.threads_source == "tuned":
            settings = EngineSettings(session.threads, settings.options)
        return tuple(run_fresh(path, file, settings, check) for _ in range(max(1, processes)))


def _describe_artifact(artifact: Artifact) -> ProfiledArtifact:
    manifest = artifact.manifest
    return ProfiledArtifact(
        name=manifest.name,
        target=manifest.target,
        precision=manifest.precision,
        digest=artifact.digest,
        bytes=artifact.total_bytes,
        engine=manifest.engine,
        versions=dict(get_engine(manifest.engine).versions()),
        recipe=manifest.recipe,
    )


def _describe_memory(session: Session, fresh: Sequence[FreshRun]) -> MemoryUse:
    peaks = [run.peak_rss_bytes for run in fresh if run.peak_rss_bytes is not None]
    native = (f for f in session.artifact.manifest.files if not f.path.startswith(("golden/", "debug/")))
    return MemoryUse(
        peak_rss_bytes=int(median(peaks)) if peaks else None,
        planned_arena_bytes=session.runner.planned_arena_bytes,
        weights_bytes=sum(entry.bytes for entry in native),
        stages=_summarize_stages(fresh),
        weights=read_weights(session.artifact),
    )


def _summarize_stages(fresh: Sequence[FreshRun]) -> tuple[MemoryStage, ...]:
    names = dict.fromkeys(stage for run in fresh for stage in run.stages)
    return tuple(
        MemoryStage(name, int(median(run.stages[name] for run in fresh if name in run.stages))) for name in names
    )
