"""The warnings of a profile: what in the samples, the settings or the machine speaks against the figures."""

from __future__ import annotations

import numpy as np

from edgex.runtime.execute.here.memory_growth import MemoryGrowth
from edgex.runtime.measure.profile.report import ProfileSettings
from edgex.runtime.measure.statistics import MIN_ROUNDS, MIN_SAMPLES_P95, Rounds, Summary
from edgex.runtime.support.machine.activity import Activity, MeasurementWarning, find_disturbances
from edgex.runtime.support.machine.host import HostInfo

# On a quiet machine the median is known to about 1 % and a call strays by 1 or 2 %.
_WIDE_INTERVAL = 0.05
_WIDE_SPREAD = 0.05
_MANY_OUTLIERS = 0.05
_DRIFT = 0.05
_ROUNDS_FOR_DRIFT = 12


def find_warnings(
    summary: Summary,
    rounds: Rounds,
    settings: ProfileSettings,
    host: HostInfo,
    threads: int | None,
    activity: Activity,
) -> tuple[MeasurementWarning, ...]:
    """All warnings of one measurement, the machine's first."""
    found = list(find_disturbances(activity, host.logical_cores))
    found += _warn_of_samples(summary, rounds)
    found += _warn_of_settings(summary, rounds, settings, host, threads)
    return tuple(found)


def warn_of_growth(growth: MemoryGrowth | None) -> tuple[MeasurementWarning, ...]:
    """That memory grows with every run, where it does."""
    if growth is None or growth.leak_bytes_per_run is None:
        return ()
    text = f"memory grows by {growth.leak_bytes_per_run:,.0f} bytes a run: {growth.bytes:,} over {growth.runs} runs"
    return (MeasurementWarning("memory-grows", text),)


def _warn_of_samples(summary: Summary, rounds: Rounds) -> list[MeasurementWarning]:
    if summary.n < MIN_SAMPLES_P95:
        return []  # too few to tell noise from chance; that they are few is a warning of its own
    found, reasons = [], []
    if summary.median_ci95 is not None:
        width = (summary.median_ci95[1] - summary.median_ci95[0]) / summary.median
        reasons += [f"the median's interval is {_percent(width)} wide"] if width > _WIDE_INTERVAL else []
    if summary.mad > _WIDE_SPREAD * summary.median:
        reasons.append(f"half of the runs stray by more than {_percent(summary.mad / summary.median)}")
    if summary.outlier_share > _MANY_OUTLIERS:
        reasons.append(f"{_percent(summary.outlier_share)} took far longer than the rest")
    if reasons:
        found.append(MeasurementWarning("noisy-machine", ", ".join(reasons)))
    if len(rounds) >= _ROUNDS_FOR_DRIFT:
        third = len(rounds) // 3
        medians = [float(np.median(samples)) for samples in rounds]
        change = float(np.median(medians[-third:]) / np.median(medians[:third])) - 1.0
        if abs(change) > _DRIFT:
            became = "slower" if change > 0 else "faster"
            text = f"the last third of the runs was {_percent(abs(change))} {became} than the first"
            found.append(MeasurementWarning("drift", text))
    return found


def _warn_of_settings(
    summary: Summary, rounds: Rounds, settings: ProfileSettings, host: HostInfo, threads: int | None
) -> list[MeasurementWarning]:
    found = []
    if settings.warmup_settled is False:
        text = f"the latency had not settled within 2 % after {settings.warmup_seconds:.1f} s"
        found.append(MeasurementWarning("warmup-did-not-settle", text))
    if summary.n < MIN_SAMPLES_P95 or len(rounds) < MIN_ROUNDS:
        sizes = ((summary.n, "sample"), (len(rounds), "round"))
        taken = " in ".join(f"{number} {noun}{'' if number == 1 else 's'}" for number, noun in sizes)
        text = f"{taken}: too few for intervals and percentiles"
        found.append(MeasurementWarning("few-samples", text))
    cores = host.cores_for_threads
    if threads is not None and cores is not None and threads > cores:
        text = f"{threads} threads on {cores:g} usable core{'' if cores == 1 else 's'} wait for each other"
        found.append(MeasurementWarning("threads-over-cores", text))
    if host.governor is not None and host.governor != "performance":
        text = f"the frequency governor is {host.governor}: the clock speed may change while measuring"
        found.append(MeasurementWarning("governor", text))
    return found


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
