"""The report of a run that took samples, wherever it was: the one place where a `ProfileReport` is put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from statistics import median

from edgex._version import __version__
from edgex.errors import EdgexError
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.engines.onednn.kernel_log import find_reference_kernels, log_of_artifact
from edgex.runtime.engines.trace.operators import Ceilings, MemoryStage, OperatorRow
from edgex.runtime.engines.trace.source_map import read_source_text, read_weights
from edgex.runtime.engines.trace.tracing import EngineTrace, finish_rows, flag_impossible, summarize_trace
from edgex.runtime.execute.base import Progress, no_progress
from edgex.runtime.execute.request import FreshRun, RunRequest, RunResult
from edgex.runtime.measure.profile.ceilings import find_ceilings
from edgex.runtime.measure.profile.cliffs import find_cliffs
from edgex.runtime.measure.profile.report import (
    LoadTimes,
    MemoryUse,
    ProfiledArtifact,
    ProfileReport,
    ProfileSettings,
)
from edgex.runtime.measure.profile.warnings import find_warnings, warn_of_growth
from edgex.runtime.measure.statistics import summarize
from edgex.runtime.support.machine.activity import Activity, MeasurementWarning
from edgex.runtime.support.machine.host import HostInfo


def build_report(
    artifact: Artifact,
    request: RunRequest,
    result: RunResult,
    host: HostInfo,
    *,
    given: bool,
    seconds: float = 0.0,
    ceilings: bool = False,
    progress: Progress = no_progress,
) -> ProfileReport:
    """The report of a result.

    Args:
        artifact: What ran.
        request: What was asked; its first sequence was sampled.
        result: What was answered; it holds samples and at least one fresh process.
        host: The machine.
        given: Whether the inputs were the caller's.
        seconds: How long all of it took, the way there and back included; for a machine whose activity is not known.
        ceilings: Whether to compare operators with what this host can do at best, which may have to be measured.
        progress: Told about each stage, with a detail.
    """
    # A tenth of a nanosecond is finer than any clock here; more digits would only be noise of a division.
    rounds = tuple(tuple(round(sample, 10) for sample in one) for one in result.rounds)
    summary = summarize(rounds)
    settings = ProfileSettings(
        inputs="given" if given else "golden",
        shapes={name: array.shape for name, array in request.sequences[0][0].items()},
        steps=result.steps,
        threads_requested=request.threads,
        options={**request.options, **result.tuned_options},
        warmup_requested=request.warmup,
        warmup_runs=result.warmup_runs,
        warmup_seconds=result.warmup_seconds,
        warmup_settled=result.warmup_settled,
        runs_requested=request.runs,
        rounds=result.planned_rounds or len(rounds),
        samples_per_round=result.samples_per_round or len(rounds[0]),
        calls_per_sample=result.calls_per_sample,
        fresh_processes=len(result.cold),
        clock=result.clock,
        threads_source=result.threads_source,
        tuned_options=dict(result.tuned_options),
    )
    activity = result.activity
    if activity is None:
        activity = Activity(seconds, None, None, None, result.conditions.get("load_average_before"), None)
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
            versions=dict(result.versions),
            recipe=manifest.recipe,
            folder=artifact.path.name,
            made_by=manifest.producer.get("edgex"),
            method=manifest.method.name if len(manifest.methods) > 1 else None,
        ),
        host=host,
        settings=settings,
        executed_on=result.executed_on,
        assignment=result.assignment,
        delegation=manifest.delegation or None if result.device is None else None,
        threads=result.threads,
        load_seconds=LoadTimes.over(result.cold),
        fresh=result.cold,
        steady=summary,
        rounds=rounds,
        throughput=1.0 / summary.mean,
        memory=_describe_memory(artifact, result),
        activity=activity,
        energy=result.energy,
        counters=result.counters,
        warnings=(
            *result.warnings,
            *find_warnings(summary, rounds, settings, host, result.threads, activity),
            *warn_of_growth(result.growth),
        ),
        source="host" if result.device is None else "device",
        measured_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        run_id=result.run_id,
        device=_describe_device(result),
    )
    return _add_operators(report, artifact, result, ceilings, progress) if request.trace else report


def _describe_memory(artifact: Artifact, result: RunResult) -> MemoryUse:
    peaks = [run.peak_rss_bytes for run in result.cold if run.peak_rss_bytes is not None]
    return MemoryUse(
        peak_rss_bytes=int(median(peaks)) if peaks else None,
        planned_arena_bytes=result.planned_arena_bytes,
        weights_bytes=artifact.manifest.model_bytes,
        stages=_summarize_stages(result.cold),
        weights=read_weights(artifact),
        growth=result.growth,
    )


def _summarize_stages(fresh: Sequence[FreshRun]) -> tuple[MemoryStage, ...]:
    names = dict.fromkeys(stage for run in fresh for stage in run.stages)
    return tuple(
        MemoryStage(name, int(median(run.stages[name] for run in fresh if name in run.stages))) for name in names
    )


def _describe_device(result: RunResult) -> dict[str, object] | None:
    if result.device is None:
        return None
    sent = {"copy_seconds": result.copy_seconds, "copied_bytes": result.copied_bytes}
    return {**result.device.to_json(), **sent, **result.conditions}


def _add_operators(
    report: ProfileReport, artifact: Artifact, result: RunResult, ceilings: bool, progress: Progress
) -> ProfileReport:
    """Rows of the traced runs; where there are none, a warning says why."""
    found = result.trace
    if found is None:
        reason = result.no_trace_reason or "the device records no operators"
        return replace(report, warnings=(*report.warnings, MeasurementWarning("not-traced", reason)))
    if ceilings:
        progress("ceilings", "what this machine can do at best")
    rows, best, warnings = _judge(found, result.threads if ceilings else None)
    cliffs = find_cliffs(rows, lambda: find_reference_kernels(log_of_artifact(artifact.path)))
    return replace(
        report,
        ops=rows,
        trace=summarize_trace(found, rows, report.steady.median),
        ceilings=best,
        memory=replace(report.memory, arena=found.arena),
        sources=read_source_text(artifact),
        warnings=(*report.warnings, *warnings, *cliffs),
    )


def _judge(
    found: EngineTrace, threads: int | None
) -> tuple[tuple[OperatorRow, ...], Ceilings | None, tuple[MeasurementWarning, ...]]:
    """Rows compared with the host's ceilings; where one breaks through them, these are measured once more."""
    if threads is None:
        return finish_rows(found, None), None, ()
    try:
        ceilings = find_ceilings(threads)
        rows = finish_rows(found, ceilings)
        if flag_impossible(rows)[1]:
            ceilings = find_ceilings(threads, again=True)
            rows = finish_rows(found, ceilings)
    except EdgexError as error:
        text = " ".join(str(error).split())
        return finish_rows(found, None), None, (MeasurementWarning("no-ceilings", text),)
    kept, impossible = flag_impossible(rows)
    return kept, ceilings, impossible
