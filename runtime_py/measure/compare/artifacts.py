"""Compare artifacts: all timed in turns, each in a process of its own, the baseline a second time beside itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from edgex.runtime.artifact.artifact import Artifact, CheckLevel
from edgex.runtime.artifact.golden import Case
from edgex.runtime.engines.trace.tracing import EngineTrace
from edgex.runtime.measure.compare.numerics import Numerics, choose_cases, measure_distance
from edgex.runtime.measure.compare.operators import compare_traced
from edgex.runtime.measure.compare.result import Compared, Comparison, Contrast, Method
from edgex.runtime.measure.profile.builder import build_report
from edgex.runtime.measure.profile.report import ProfileReport
from edgex.runtime.measure.steps import choose_steps
from edgex.runtime.measure.turns.artifacts import ArtifactContestant
from edgex.runtime.measure.turns.contest import BUDGET_SECONDS, PROCESSES, Contest, run_contest
from edgex.runtime.session.runner import EngineSettings
from edgex.runtime.support.machine.activity import (
    Activity,
    MeasurementWarning,
    describe_activity,
    find_disturbances,
    take_snapshot,
)
from edgex.runtime.support.machine.host import HostInfo, read_host

# A quantized model's outputs are 20 dB and more from eager's where its proof was not eased, so two of them 17 from each
# other; those of other weights are about 0.
SAME_MODEL_DB = 10.0

NOT_TRACED: tuple[None, None] = (None, None)


@dataclass(frozen=True)
class CompareSettings:
    """How artifacts are compared.

    Attributes:
        inputs: Inputs of one run by name, for all; None takes the baseline's example.
        threads: Threads of each; None is the engines' default. What a sweep found is not used: all run with as many.
        options: Engine settings, for all.
        max_seconds: How long to go on while the intervals are wide, starts and loads included.
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
    contestants = [
        ArtifactContestant(artifact, label, steps, engine_settings, settings.check)
        for label, artifact, steps in zip(labels, artifacts, sequences, strict=True)
    ]
    again = ArtifactContestant(artifacts[0], labels[0], sequences[0], engine_settings, settings.check)
    numerics: list[Numerics | None] = [None] * len(artifacts)
    traces: list[tuple[EngineTrace | None, str | None]] = []

    def look_inside() -> None:
        # Operators first: they are traced of what was timed, which the cases are not.
        for contestant in contestants:
            progress("trace", f"operators of {contestant.label}, in runs of their own")
            traces.append(contestant.trace())
        if not differences:
            progress("outputs", "the golden inputs of the baseline, on all")
            numerics[1:] = _compare_outputs(choose_cases(artifacts[0]), contestants)

    before = take_snapshot()
    contest = run_contest(
        [*contestants, again],
        processes=settings.processes,
        max_seconds=settings.max_seconds,
        counts_starts=True,
        at_end=look_inside,
        progress=progress,
    )
    activity = describe_activity(before, take_snapshot(), host.logical_cores)
    activity = replace(activity, involuntary_switches=sum(one.switches for one in (*contestants, again)))
    reports = report_contest(contest, contestants, traces, activity, host, given=settings.inputs is not None)
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
        warnings=(*warn_of_outputs(contrasts), *_gather_warnings(activity, host, reports)),
    )


def warn_of_outputs(contrasts: Sequence[Contrast]) -> tuple[MeasurementWarning, ...]:
    """Say whose outputs are not those of the same model: each artifact is proved against its own eager model alone."""
    found = []
    for contrast in contrasts:
        sqnr_db = None if contrast.numerics is None else contrast.numerics.typical_sqnr_db
        if sqnr_db is not None and sqnr_db < SAME_MODEL_DB:
            text = (
                f"{contrast.candidate} gives other outputs than {contrast.baseline} on the same inputs "
                f"({sqnr_db:.0f} dB): other weights or another model, or one of them was quantized with great loss"
            )
            found.append(MeasurementWarning("other-outputs", text))
    return tuple(found)


def report_contest(
    contest: Contest,
    contestants: Sequence[ArtifactContestant],
    traces: Sequence[tuple[EngineTrace | None, str | None]],
    activity: Activity,
    host: HostInfo,
    *,
    given: bool,
) -> list[ProfileReport]:
    """What was measured of each contestant, as a report.

    Args:
        contest: The samples.
        contestants: The first of those that took part.
        traces: The operators of each, or None and the reason; `NOT_TRACED` where nobody asked.
        activity: What else the machine did.
        host: This machine.
        given: Whether the inputs were the caller's.
    """
    return [
        build_report(
            contestant.artifact,
            contestant.request(trace=traced != NOT_TRACED),
            replace(contestant.result(contest.by_session(number), traced), activity=activity),
            host,
            given=given,
        )
        for number, (contestant, traced) in enumerate(zip(contestants, traces, strict=True))
    ]


def _compare_outputs(cases: Sequence[Case], contestants: Sequence[ArtifactContestant]) -> list[Numerics]:
    outputs, refused = zip(*(contestant.run_cases(cases) for contestant in contestants), strict=True)
    return [
        measure_distance(cases, outputs[0], found, {**refused[0], **why})
        for found, why in zip(outputs[1:], refused[1:], strict=True)
    ]


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
