"""`edgex profile --sweep threads,batch`: latency by number of threads and by batch size, one process for each.

All thread counts of a batch size are timed in turns, as `edgex compare` does it, and compared with the engine's
default, which stays unless another one is surely faster.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from edgex.errors import RunError, UsageError
from edgex.runtime.artifact.artifact import Artifact, CheckLevel
from edgex.runtime.artifact.specs import Dim
from edgex.runtime.execute.request import Pace
from edgex.runtime.measure.statistics import Judgement, Summary, summarize
from edgex.runtime.measure.steps import Steps, choose_steps
from edgex.runtime.measure.turns.artifacts import ArtifactContestant
from edgex.runtime.measure.turns.contest import run_contest
from edgex.runtime.session.runner import EngineSettings
from edgex.runtime.support.machine.activity import (
    MeasurementWarning,
    describe_activity,
    find_disturbances,
    take_snapshot,
)
from edgex.runtime.support.machine.host import HostInfo, read_host
from edgex.runtime.support.machine.threads import default_threads
from edgex.runtime.support.tuning import Tuning, write_tuning

SCHEMA = "edgex.sweep/1"
AXES = ("threads", "batch")

_SECONDS_PER_BATCH = 10.0
_MOST_BATCHES = 6


@dataclass(frozen=True)
class SweepRow:
    """One setting.

    Attributes:
        threads: Threads of one run.
        batch: Size of the batch; None where the artifact has no dynamic one.
        latency: Of one run, in seconds.
        throughput: Samples per second: the batch (1 where there is none) over the mean latency.
        judgement: Its latency against that of the engine's default threads with the same batch; None for the default
            itself, and where threads were not swept.
    """

    threads: int
    batch: int | None
    latency: Summary
    throughput: float
    judgement: Judgement | None

    def to_json(self) -> dict[str, Any]:
        """One entry of `rows`."""
        latency = asdict(self.latency)
        latency["median_ci95"] = None if self.latency.median_ci95 is None else list(self.latency.median_ci95)
        verdict = None if self.judgement is None else self.judgement.to_json()
        return {
            "threads": self.threads,
            "batch": self.batch,
            "latency": latency,
            "throughput": self.throughput,
            "against_default": verdict,
        }


@dataclass(frozen=True)
class Sweep:
    """What a sweep found.

    Attributes:
        name: The artifact's name.
        target: Its target.
        digest: Its digest.
        host: Where.
        axes: What was swept: `threads`, `batch` or both.
        rows: Every setting, by batch and then by threads.
        default_threads: What the engine takes when nobody says.
        best_threads: The count that is kept, found with the batch of the example; None where threads were not swept.
        warnings: Reasons to trust the figures less.
    """

    name: str
    target: str
    digest: str
    host: HostInfo
    axes: tuple[str, ...]
    rows: tuple[SweepRow, ...]
    default_threads: int
    best_threads: int | None
    warnings: tuple[MeasurementWarning, ...]

    def to_json(self) -> dict[str, Any]:
        """The document `edgex.sweep/1`."""
        return {
            "schema": SCHEMA,
            "artifact": {"name": self.name, "target": self.target, "digest": self.digest},
            "host": self.host.to_json(),
            "axes": list(self.axes),
            "default_threads": self.default_threads,
            "best_threads": self.best_threads,
            "rows": [row.to_json() for row in self.rows],
            "warnings": [asdict(warning) for warning in self.warnings],
        }


def run_sweep(
    artifact: Artifact,
    axes: Sequence[str],
    *,
    inputs: Mapping[str, Any] | None = None,
    threads: int | None = None,
    check: CheckLevel = "hash",
    seconds: float = _SECONDS_PER_BATCH,
    progress: Callable[[str, str], None] = lambda _stage, _detail: None,
) -> Sweep:
    """Measure an artifact with several thread counts, batch sizes or both, and keep the best thread count.

    Args:
        artifact: What is measured.
        axes: `threads`, `batch` or both.
        inputs: Inputs of one run by name; None is the golden example. The batch is repeated or cut to size.
        threads: Threads where only the batch is swept; None is the default.
        check: How the processes check the artifact.
        seconds: How long each batch size may take while intervals are wide.
        progress: Told about each stage, with a detail.

    Raises:
        UsageError: The batch is to be swept and is not dynamic.
        RunError: The engine does not run with the threads asked for, or the cache cannot be written.
        EdgexError: The artifact cannot be loaded or run.
    """
    host, default = read_host(), default_threads()
    steps = choose_steps(artifact, inputs)
    batches = _choose_batches(artifact, steps) if "batch" in axes else [None]
    counts = choose_threads(host, default) if "threads" in axes else [threads or default]
    rows: list[SweepRow] = []
    before = take_snapshot()
    for batch in batches:
        resized = steps if batch is None else tuple(_resize(artifact, step, batch) for step in steps)
        rows += _measure(artifact, resized, counts, batch, check, seconds, _prefixed(progress, batch))
    activity = describe_activity(before, take_snapshot(), host.logical_cores)
    # Switches were counted in this process, which only waits.
    activity = dataclasses.replace(activity, involuntary_switches=None)
    best = None
    if "threads" in axes:
        own = _batch_of(artifact, steps) if "batch" in axes else None
        best = _choose_best([row for row in rows if row.batch == own], default)
        medians = {str(row.threads): row.latency.median for row in rows if row.batch == own}
        write_tuning(artifact.digest, Tuning(best), {"name": artifact.path.name, "median_seconds": medians})
    return Sweep(
        artifact.manifest.name,
        artifact.manifest.target,
        artifact.digest,
        host,
        tuple(axis for axis in AXES if axis in axes),
        tuple(rows),
        default,
        best,
        find_disturbances(activity, host.logical_cores),
    )


def _prefixed(progress: Callable[[str, str], None], batch: int | None) -> Callable[[str, str], None]:
    if batch is None:
        return progress
    return lambda stage, detail: progress(stage, f"batch {batch}: {detail}")


def _measure(
    artifact: Artifact,
    steps: Steps,
    counts: Sequence[int],
    batch: int | None,
    check: CheckLevel,
    seconds: float,
    progress: Callable[[str, str], None],
) -> list[SweepRow]:
    """The rows of one batch size; `counts` has the default first."""
    # The default a second time, where there is something to compare it with: the floor of a difference.
    slots = [*counts, counts[0]] if len(counts) > 1 else list(counts)
    contestants = [
        _Checked(artifact, f"{artifact.path.name} with {count} threads", steps, EngineSettings(count), check)
        for count in slots
    ]
    contest = run_contest(contestants, processes=1, max_seconds=seconds, progress=progress)
    rows = []
    for number, count in enumerate(counts):
        summary = summarize(contest.by_session(number))
        judgement = contest.judge(number) if number else None
        rows.append(SweepRow(count, batch, summary, (batch or 1) / summary.mean, judgement))
    return sorted(rows, key=lambda row: row.threads)


class _Checked(ArtifactContestant):
    """A process that really runs with the threads that were asked for."""

    def start(self) -> Pace:
        """As any other; then the threads in effect are looked at."""
        pace = super().start()
        if self.threads != self.settings.threads:
            raise RunError(
                f"{self.label}: the engine ran with {self.threads}",
                why="this engine has no number of threads that can be set",
                fix="leave --sweep threads out",
            )
        return pace


def choose_threads(host: HostInfo, default: int) -> list[int]:
    """The default first, then powers of two up to all cores that may be used, hyper-threads included."""
    top = max(default, int(host.cores_for_threads or default))
    powers = [2**power for power in range(top.bit_length()) if 2**power <= top]
    return [default, *(count for count in sorted({*powers, top}) if count != default)]


def _choose_best(rows: Sequence[SweepRow], default: int) -> int:
    """The default, unless another count is surely faster; then the fastest of those."""
    faster = [row for row in rows if row.judgement is not None and row.judgement.verdict == "faster"]
    return min(faster, key=lambda row: row.latency.median).threads if faster else default


def _find_batch(artifact: Artifact) -> tuple[str, Dim]:
    """The input whose first dimension is the batch, and that dimension.

    Raises:
        UsageError: No input has a dynamic first dimension.
    """
    for spec in artifact.manifest.method.inputs:
        if spec.shape and isinstance(spec.shape[0], Dim):
            return spec.name, spec.shape[0]
    inputs = artifact.manifest.method.inputs
    shown = ", ".join(str(spec) for spec in inputs) or "no inputs"
    raise UsageError(
        "the batch cannot be swept: no input has a dynamic first dimension",
        artifact.path.name,
        f"export with one: --dynamic {inputs[0].name}:0=1..8" if inputs else None,
        why=f"the artifact takes {shown}",
    )


def _batch_of(artifact: Artifact, steps: Steps) -> int:
    name, _ = _find_batch(artifact)
    return int(steps[0][name].shape[0])


def _choose_batches(artifact: Artifact, steps: Steps) -> list[int | None]:
    """Smallest, largest and the example's own size, and powers of two between, not more than six in all."""
    _, dim = _find_batch(artifact)
    own = _batch_of(artifact, steps)
    kept = {dim.min, dim.max, own}
    powers = [2**p for p in range(dim.max.bit_length()) if dim.min < 2**p < dim.max and 2**p not in kept]
    room = _MOST_BATCHES - len(kept)
    chosen = [powers[round(at)] for at in np.linspace(0, len(powers) - 1, min(room, len(powers)))] if powers else []
    return sorted({*kept, *chosen})


def _resize(artifact: Artifact, step: Mapping[str, np.ndarray], batch: int) -> dict[str, np.ndarray]:
    """Inputs with another batch: rows repeated or cut, in every dimension that has the batch's name."""
    _, dim = _find_batch(artifact)
    resized = {}
    for spec in artifact.manifest.method.inputs:
        array = step[spec.name]
        for axis, size in enumerate(spec.shape):
            if isinstance(size, Dim) and size.name == dim.name:
                array = np.take(array, np.arange(batch) % array.shape[axis], axis)
        resized[spec.name] = np.asarray(array, order="C")
    return resized
