"""Compare artifacts: all timed in turns, each in a process of its own, the baseline a second time beside itself."""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from edgex._version import __version__
from edgex.errors import ArtifactError
from edgex.runtime.artifact.artifact import Artifact, CheckLevel
from edgex.runtime.artifact.golden import Case, read_golden
from edgex.runtime.engines.registry import get_engine
from edgex.runtime.engines.trace.operators import OperatorRow, Trace
from edgex.runtime.measure.compare.contest import BUDGET_SECONDS, PROCESSES, Contest, run_contest
from edgex.runtime.measure.compare.numerics import Numerics, choose_cases, measure_distance, save_cases
from edgex.runtime.measure.compare.operators import compare_traced
from edgex.runtime.measure.compare.process import ProcessContestant
from edgex.runtime.measure.compare.result import Compared, Comparison, Contrast, Method
from edgex.runtime.measure.profile.report import LoadTimes, MemoryUse, ProfiledArtifact, ProfileReport, ProfileSettings
from edgex.runtime.measure.profile.warnings import find_warnings
from edgex.runtime.measure.statistics import summarize
from edgex.runtime.session.runner import EngineSettings
from edgex.runtime.support.activity import (
    Activity,
    MeasurementWarning,
    describe_activity,
    find_disturbances,
    take_snapshot,
)
from edgex.runtime.support.host import HostInfo, read_host

Steps = Sequence[Mapping[str, np.ndarray]]
# Rows, what they are together, and the reason why there are none.
_Traced = tuple[tuple[OperatorRow, ...], Trace | None, str | None]


@dataclass(frozen=True)
class CompareSettings:
    """How artifacts are compared.

    Attributes:
        inputs: Inputs of one run by name, for all; None takes the baseline's example.
        threads: Threads of each; None is the engines' default. What a sweep found is not used: all run with as many.
        options: Engine settings, for all.
        max_seconds: How long to measure while the intervals are wide.
        processes: Fresh processes of each.
        check: How the artifacts are checked.
    """

    inputs: Mapping[str, Any] | None = None
    threads: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    max_seconds: float = BUDGET_SECONDS
    processes: int = PROCESSES
    check: CheckLevel = "hash"


def compare_artifacts(
    labels: Sequence[str],
    artifacts: Sequence[Artifact],
    differences: Sequence[str],
    settings: CompareSettings,
    progress: Callable[[str, str], None] = lambda _stage, _detail: None,
) -> Comparison:
    """Time artifacts in turns and run their golden inputs.

    Args:
        labels: A name of each.
        artifacts: The baseline first.
        differences: In what they differ as models; where there are some, each runs on its own example, and outputs
            are not compared.
        settings: How.
        progress: Told about each stage, with a detail.

    Raises:
        ArtifactError: There are no example inputs and none were given.
        EdgexError: One of them cannot be loaded or run, as its engine says.
    """
    host = read_host()
    engine_settings = EngineSettings(settings.threads, settings.options)
    sources = [artifact if differences else artifacts[0] for artifact in artifacts]
    sequences = [choose_steps(source, settings.inputs) for source in sources]
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="edgex-compare-")))
        contestants = []
        for number, (label, artifact) in enumerate(zip(labels, artifacts, strict=True)):
            file = folder / f"steps-{number}.safetensors"
            save_steps(sequences[number], file)
            contestants.append(ProcessContestant(artifact.path, label, file, engine_settings, settings.check))
        again = ProcessContestant(
            artifacts[0].path, labels[0], folder / "steps-0.safetensors", engine_settings, settings.check
        )
        numerics: list[Numerics | None] = [None] * len(artifacts)

        traces: list[_Traced] = []

        def look_inside() -> None:
            if not differences:
                progress("outputs", "the golden inputs of the baseline, on all")
                numerics[1:] = _compare_outputs(choose_cases(artifacts[0]), contestants, folder)
            for contestant in contestants:
                progress("trace", f"operators of {contestant.label}, in runs of their own")
                traces.append(contestant.trace())

        before = take_snapshot()
        contest = run_contest(
            [*contestants, again],
            processes=settings.processes,
            max_seconds=settings.max_seconds,
            at_end=look_inside,
            progress=progress,
        )
        activity = describe_activity(before, take_snapshot(), host.logical_cores)
    activity = dataclasses.replace(activity, involuntary_switches=sum(one.switches for one in (*contestants, again)))
    reports = [
        _with_operators(_report(artifact, contestant, contest, number, steps, settings, host, activity), traced)
        for number, (artifact, contestant, steps, traced) in enumerate(
            zip(artifacts, contestants, sequences, traces, strict=True)
        )
    ]
    per_session = contest.plan.rounds_per_session
    contrasts = [
        Contrast(
            labels[0],
            labels[number],
            contest.judge(number),
            numerics[number],
            compare_traced(reports[0], reports[number]),
        )
        for number in range(1, len(artifacts))
    ]
    return Comparison(
        kind="artifacts",
        subjects=tuple(map(_compared, labels, artifacts, reports)),
        contrasts=tuple(contrasts),
        method=Method(True, contest.processes, contest.sessions, per_session, settings.max_seconds, contest.seconds),
        differences=tuple(differences),
        warnings=_gather_warnings(activity, host, reports),
    )


def choose_steps(artifact: Artifact, inputs: Mapping[str, Any] | None) -> Steps:
    """The inputs of each run between two resets: one run without state; with it, as many as were proved.

    Args:
        artifact: Whose golden data to take.
        inputs: Inputs of one run by name in their place; None takes the golden ones.

    Raises:
        ArtifactError: There are no example inputs and none were given.
    """
    proved = [case.steps for case in read_golden(artifact) if case.kind == "compare"]
    state = bool(artifact.manifest.method.state)
    steps = max(proved, key=len, default=()) if state else tuple(proved[0][:1]) if proved else ()
    if inputs is not None:
        given = {name: np.asarray(value, order="C") for name, value in inputs.items()}
        return [given] * (max(1, len(steps)) if state else 1)
    if not steps:
        raise ArtifactError("the artifact holds no example inputs", artifact.path.name, "give inputs")
    return [step.inputs for step in steps]


def save_steps(steps: Steps, path: Path) -> None:
    """Write inputs as `edgex.runtime.measure.compare.worker.Worker` reads them."""
    from safetensors.numpy import save_file

    save_file(
        {f"{at}/{name}": np.asarray(array, order="C") for at, step in enumerate(steps) for name, array in step.items()},
        path,
    )


def _compare_outputs(cases: Sequence[Case], contestants: Sequence[ProcessContestant], folder: Path) -> list[Numerics]:
    from safetensors.numpy import load_file

    inputs = folder / "cases.safetensors"
    save_cases(cases, inputs)
    outputs, refused = [], []
    for number, contestant in enumerate(contestants):
        file = folder / f"outputs-{number}.safetensors"
        refused.append(contestant.run_cases(inputs, file))
        outputs.append(load_file(file))
    return [
        measure_distance(cases, outputs[0], found, {**refused[0], **why})
        for found, why in zip(outputs[1:], refused[1:], strict=True)
    ]


def _report(
    artifact: Artifact,
    contestant: ProcessContestant,
    contest: Contest,
    number: int,
    steps: Steps,
    settings: CompareSettings,
    host: HostInfo,
    activity: Activity,
) -> ProfileReport:
    """What the contest says of one artifact, in the form of a profile."""
    rounds = contest.by_session(number)
    summary = summarize(rounds)
    last = contestant.starts[-1]
    how = ProfileSettings(
        inputs="golden" if settings.inputs is None else "given",
        shapes={name: array.shape for name, array in steps[0].items()},
        steps=len(steps),
        threads_requested=settings.threads,
        options=dict(settings.options),
        warmup_requested=None,
        warmup_runs=last["warmup_runs"],
        warmup_seconds=last["warmup_seconds"],
        warmup_settled=last["warmup_settled"],
        runs_requested=None,
        rounds=len(rounds),
        samples_per_round=len(rounds[0]),
        calls_per_sample=last["calls_per_sample"],
        fresh_processes=len(contestant.starts),
        threads_source="default" if settings.threads is None else "given",
    )
    manifest, fresh = artifact.manifest, contestant.fresh
    peaks = [run.peak_rss_bytes for run in fresh if run.peak_rss_bytes is not None]
    native = (entry for entry in manifest.files if not entry.path.startswith(("golden/", "debug/")))
    return ProfileReport(
        edgex_version=__version__,
        artifact=ProfiledArtifact(
            name=manifest.name,
            target=manifest.target,
            precision=manifest.precision,
            digest=artifact.digest,
            bytes=artifact.total_bytes,
            engine=manifest.engine,
            versions=dict(get_engine(manifest.engine).versions()),
            recipe=manifest.recipe,
        ),
        host=host,
        settings=how,
        executed_on=last["executed_on"],
        assignment=last["assignment"],
        delegation=manifest.delegation or None,
        threads=last["threads"],
        load_seconds=LoadTimes.over(fresh),
        fresh=fresh,
        steady=summary,
        rounds=rounds,
        throughput=1.0 / summary.mean,
        memory=MemoryUse(
            peak_rss_bytes=int(median(peaks)) if peaks else None,
            planned_arena_bytes=last["planned_arena_bytes"],
            weights_bytes=sum(entry.bytes for entry in native),
        ),
        activity=activity,
        warnings=find_warnings(summary, rounds, how, host, last["threads"], activity),
    )


def _with_operators(report: ProfileReport, traced: _Traced) -> ProfileReport:
    rows, trace, reason = traced
    if trace is not None:
        trace = dataclasses.replace(trace, overhead_ratio=trace.execute_us / (report.steady.median * 1e6))
    doubts = () if reason is None else (MeasurementWarning("not-traced", reason),)
    return dataclasses.replace(report, ops=rows, trace=trace, warnings=(*report.warnings, *doubts))


def _compared(label: str, artifact: Artifact, report: ProfileReport) -> Compared:
    proof = artifact.manifest.verification
    eager = None if proof is None else {key: proof.get(key) for key in ("min_sqnr_db", "max_abs_error")}
    return Compared(label, report, artifact.manifest.delegation or None, eager)


def _gather_warnings(
    activity: Activity, host: HostInfo, reports: Sequence[ProfileReport]
) -> tuple[MeasurementWarning, ...]:
    """The machine's, and those of the settings, which are alike for all; drift and spread cancel or show."""
    found = {warning.code: warning for warning in find_disturbances(activity, host.logical_cores)}
    for report in reports:
        for warning in report.warnings:
            if warning.code in ("threads-over-cores", "governor"):
                found.setdefault(warning.code, warning)
    return tuple(found.values())
