"""What a process that measures does: one artifact, here or on a device, its latency without its operators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from statistics import median
from typing import TYPE_CHECKING, Any

from edgex.export.sweep.placing import fetched
from edgex.runtime.measure.results.row import HERE, Timing

if TYPE_CHECKING:
    from edgex.runtime.execute.base import Executor
    from edgex.runtime.measure.profile.report import ProfileReport
    from edgex.runtime.support.process.serving import Tell


def answer(request: Mapping[str, Any], _tell: Tell) -> Mapping[str, Any]:
    """Measure.

    Args:
        request: A `MeasureTask` as JSON.

    Raises:
        EdgexError: The artifact cannot be fetched, opened or run.
    """
    from edgex.runtime.artifact.artifact import open_artifact
    from edgex.runtime.measure.profile.collect import profile_on

    with fetched(request["artifact"]) as path, _open(request["device"]) as executor:
        artifact = open_artifact(str(path), check="size")
        report = profile_on(executor, artifact, runs=request["runs"], check="size", fresh_processes=1, trace=False)
    return asdict(_read_report(report))


def _open(device: str) -> Executor:
    if device == HERE:
        from edgex.runtime.execute.here.in_process import InProcess

        return InProcess()
    from edgex.runtime.execute.address import open_executor

    return open_executor(device)


def _read_report(report: ProfileReport) -> Timing:
    steady = report.steady
    low, high = steady.median_ci95 or (None, None)
    return Timing(
        median_seconds=steady.median,
        low_seconds=low,
        high_seconds=high,
        min_seconds=steady.min,
        p90_seconds=steady.p90,
        mad_seconds=steady.mad,
        samples=steady.n,
        round_medians_seconds=tuple(float(median(samples)) for samples in report.rounds),
        threads=report.threads,
        load_seconds=report.load_seconds.method,
        first_seconds=report.load_seconds.first,
        peak_rss_bytes=report.memory.peak_rss_bytes,
        executed_on=report.executed_on,
        warnings=tuple(dict.fromkeys(warning.code for warning in report.warnings)),
        host=report.host.to_json(),
    )
