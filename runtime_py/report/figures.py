"""Numbers and lines of a profile as text, the same in every report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    # `edgex run` formats numbers too, and has no use for what measures.
    from edgex.runtime.engines.trace.operators import OperatorTensor
    from edgex.runtime.measure.profile.report import ProfileReport
    from edgex.runtime.support.machine.host import HostInfo

_UNITS = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9))
_BARS = "▁▂▃▄▅▆▇█"

# Feature names that say the most about speed, the strongest of each family; see edgex.runtime.support.machine.host.
_ISA_FAMILIES = (
    ("amx_tile", "AMX"),
    ("avx512_bf16", "AVX-512 BF16"),
    ("avx512_vnni", "AVX-512 VNNI"),
    ("avx512f", "AVX-512"),
    ("avx2", "AVX2"),
    ("avx", "AVX"),
    ("sme", "SME"),
    ("sve2", "SVE2"),
    ("sve", "SVE"),
    ("i8mm", "I8MM"),
    ("asimddp", "NEON dot product"),
    ("asimd", "NEON"),
    ("neon", "NEON"),
)


def format_seconds(seconds: float | None, like: float | None = None, digits: int = 3) -> str:
    """A duration with its unit, for example `222 µs`.

    Args:
        seconds: The duration; None is `unknown`.
        like: Use the unit that suits this duration instead, so that a row of figures has one unit.
        digits: Significant digits.
    """
    if seconds is None:
        return "unknown"
    unit, size = _choose_unit(seconds if like is None else like)
    return f"{_significant(seconds / size, digits)} {unit}"


def format_interval(low: float, high: float, like: float, digits: int = 4) -> str:
    """Two durations with the unit and the decimals of a third, for example `221.9 … 223.1 µs`."""
    unit, size = _choose_unit(like)
    decimals = _decimals(like / size, digits)
    return f"{low / size:,.{decimals}f} … {high / size:,.{decimals}f} {unit}"


def format_bytes(count: int | None) -> str:
    """`46.8 MB`; decimal units, as disks and app stores count."""
    if count is None:
        return "unknown"
    size = float(count)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{_significant(size, 3)} {unit}"
        size /= 1000
    return f"{_significant(size, 3)} GB"


def format_row_time(seconds: float | None, like: float | None = None) -> str:
    """The time of one row of a trace; None is `below resolution`, which is how rows have it."""
    return "below resolution" if seconds is None else format_seconds(seconds, like or None)


def format_share(share: float | None) -> str:
    """`12.3 %`; small shares that are not nothing as `<0.1 %`."""
    if share is None:
        return ""
    return "<0.1 %" if 0 < share < 0.0005 else f"{100 * share:.1f} %"


def format_tensor(tensor: OperatorTensor) -> str:
    """`float32 [1, 3, 32, 32]`."""
    return f"{tensor.dtype} [{', '.join(map(str, tensor.shape))}]"


def format_rate(per_second: float) -> str:
    """Runs per second, for example `4,402`."""
    return f"{per_second:,.0f}" if per_second >= 100 else _significant(per_second, 3)


def count(number: int, noun: str) -> str:
    """`1 run`, `30 rounds`, `10,000 samples`; for a process, `3 processes`."""
    plural = noun + ("es" if noun.endswith("s") else "s")
    return f"{number:,} {noun if number == 1 else plural}"


@dataclass(frozen=True)
class Distribution:
    """How samples are spread.

    Attributes:
        bars: A line of bars from the fastest sample on.
        low: Duration in seconds at the left end: the fastest.
        high: Duration in seconds at the right end.
        beyond_share: Share of samples slower than the right end, 0 to 1.
    """

    bars: str
    low: float
    high: float
    beyond_share: float


def draw_distribution(report: ProfileReport, width: int) -> Distribution | None:
    """The samples as a line of `width` bars, without the long tail; None where there are too few or all are equal."""
    pooled = np.concatenate([np.asarray(samples, dtype=np.float64) for samples in report.rounds])
    # Eight deviations hold nearly all of the body; a tail of preempted runs would flatten it to one bar.
    low, high = report.steady.min, report.steady.median + 8.0 * report.steady.mad
    if pooled.size < 2 * width or high <= low:
        return None
    high = min(high, float(pooled.max()))
    heights, _ = np.histogram(pooled, bins=width, range=(low, high))
    top = heights.max()
    bars = (" " if height == 0 else _BARS[int((len(_BARS) - 1) * height / top)] for height in heights.tolist())
    return Distribution("".join(bars), low, high, float(np.mean(pooled > high)))


def describe_subject(report: ProfileReport) -> list[str]:
    """Target, precision, method and threads."""
    settings = report.settings
    tuned = " (tuned)" if settings.threads_source == "tuned" else ""
    threads = [] if report.threads is None else [count(report.threads, "thread") + tuned]
    options = [f"{format_options({name: value})} (tuned)" for name, value in settings.tuned_options.items()]
    method = [] if report.artifact.method is None else [f"method {report.artifact.method}"]
    return [report.artifact.target, report.artifact.numbers, *method, *threads, *options]


def format_options(options: Mapping[str, Any]) -> str:
    """Engine settings as they are written: `allow_spinning=false, graph_optimization=extended`."""
    return ", ".join(
        f"{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in options.items()
    )


def describe_origin(report: ProfileReport) -> list[str]:
    """Which artifact it was, who made it, and when it was measured by whom."""
    artifact = report.artifact
    made = "" if artifact.made_by is None else f", made by edgex {artifact.made_by}"
    when = "" if report.measured_at is None else f" on {report.measured_at.replace('T', ' ').replace('Z', ' UTC')}"
    named = [f"{artifact.folder}{made}"] if artifact.folder is not None else []
    return [*named, f"measured{when} by edgex {report.edgex_version}"]


def describe_percentiles(report: ProfileReport) -> list[tuple[str, str]]:
    """The names and values of what stands beside the median."""
    steady = report.steady
    values = (("min", steady.min), ("p90", steady.p90), ("p95", steady.p95), ("p99", steady.p99))
    return [(name, format_seconds(value, digits=4)) for name, value in values if value is not None]


def describe_mean(report: ProfileReport) -> str:
    """Where the runs per second come from: slow runs count for them, and not for the median."""
    return f"from the mean of {format_seconds(report.steady.mean, digits=4)}"


def describe_sampling(report: ProfileReport) -> list[str]:
    """How the latency was sampled, in one or two lines."""
    settings = report.settings
    shared = "" if settings.calls_per_sample == 1 else f" of {settings.calls_per_sample} runs each"
    state = "" if settings.steps == 1 else f", {settings.steps} steps from reset"
    lines = [f"{count(report.steady.n, 'sample')}{shared} in {count(settings.rounds, 'round')}{state}"]
    lines.append(
        f"after {count(settings.warmup_runs, 'run')} of warm-up ({format_seconds(settings.warmup_seconds, digits=2)})"
    )
    return lines


def describe_load(report: ProfileReport) -> list[tuple[str, str]]:
    """The parts of a cold start in the order in which they happen."""
    load = report.load_seconds
    parts = (("check", load.check), ("engine", load.engine_import), ("program", load.program), ("method", load.method))
    return [(name, format_seconds(value)) for name, value in parts if value is not None]


def describe_memory(report: ProfileReport) -> list[tuple[str, str]]:
    """What is known about memory."""
    memory = report.memory
    parts = (
        ("peak", memory.peak_rss_bytes),
        ("arena", memory.planned_arena_bytes),
        ("weights", memory.weights_bytes),
    )
    known = [(name, format_bytes(value)) for name, value in parts if value is not None]
    if memory.growth is not None:
        grown = memory.growth.bytes
        change = f"{'-' if grown < 0 else '+'}{format_bytes(abs(grown))}"
        known.append(("growth", f"{change} over {count(memory.growth.runs, 'run')}"))
    return known


def describe_host(host: HostInfo) -> list[str]:
    """The machine in short pieces."""
    parts = [host.cpu or host.machine]
    if host.usable_cores is not None:
        usable = f"{host.cpu_quota:g}" if host.cores_for_threads == host.cpu_quota else str(host.usable_cores)
        parts.append(f"{usable} of {count(host.logical_cores or host.usable_cores, 'core')}")
    parts += strongest_isa(host.isa or ())
    if host.memory_bytes is not None:
        parts.append(format_bytes(host.memory_bytes))
    parts += ["virtual machine"] if host.virtualised else []
    parts.append(f"governor {host.governor}" if host.governor else "governor unknown")
    parts.append(f"{host.system} {host.kernel}")
    return parts


def strongest_isa(isa: Sequence[str]) -> list[str]:
    """The one or two instruction sets that matter most: matrix units, and the strongest vector unit."""
    names = [label for name, label in _ISA_FAMILIES if name in isa]
    return names[:2] if names[:1] == ["AMX"] else names[:1]


def _choose_unit(seconds: float) -> tuple[str, float]:
    for unit, size in _UNITS:
        if abs(seconds) >= size:
            return unit, size
    return _UNITS[-1]


def _significant(value: float, digits: int) -> str:
    """At least `digits` significant digits, never an exponent, thousands grouped."""
    return f"{value:,.{_decimals(value, digits)}f}" if value else "0"


def _decimals(value: float, digits: int) -> int:
    """Decimals that show a value with this many digits; the 0 before the point counts as one."""
    return max(0, digits - len(str(int(abs(value)))))
