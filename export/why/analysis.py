"""The answer about a model: capture without values, rewrite, and ask every target for its plan."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from torch.export import ExportedProgram

from edgex.delegates.base import CapturedProgram, Delegate
from edgex.delegates.plan import PartitionPlan
from edgex.delegates.registry import get_delegate, parse_options
from edgex.errors import CaptureError, EdgexError, LoweringError, TargetUnavailable
from edgex.export.program import capture, capture_unrun
from edgex.export.result import Failure, StageClock, peak_rss_bytes
from edgex.export.rewrites import apply_rewrites, wanted_rewrites
from edgex.export.rewrites.precision import convert_precision
from edgex.export.source import ModelSource
from edgex.export.why.report import LeftOut, TargetView, WhyReport
from edgex.export.why.unweighted import drop_values, give_values
from edgex.export.why.way_out import find_way_out
from edgex.runtime.specs import Dim

Progress = Callable[[str, str], None]


@dataclass(frozen=True)
class Question:
    """What the user asks.

    Attributes:
        targets: Names of delegates, in the order of the answer.
        precision: `fp32`, `fp16` or `bf16`.
        rewrite: Apply the rewrites that `export` would apply.
        dynamic: Bounds by input name and axis.
        options: Delegate options by name; `target.key` reaches one target only.
    """

    targets: tuple[str, ...]
    precision: str = "fp32"
    rewrite: bool = True
    dynamic: Mapping[tuple[str, int], Dim] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)


def answer_model(source: ModelSource, question: Question, weights: str, clock: StageClock, progress: Progress) -> WhyReport:
    """What each target takes and leaves of a model.

    Args:
        source: The model; its weights are dropped, it computes nothing afterwards.
        question: What is asked.
        weights: `none` or `built`: how the model came to be, for the report.
        clock: Takes the time of the stages.
        progress: Called with a stage and a detail.

    Raises:
        CaptureError: The model cannot be captured; `edgex.export.why.blockers` finds out what is in the way.
        UsageError: An option does not fit its target.
    """
    parameters = source.parameters
    with clock.stage("capture"):
        progress("capture", source.description)
        program, notices = _capture(source, question)
    views: list[TargetView] = []
    failures: list[Failure] = []
    for name in question.targets:
        try:
            with clock.stage(f"plan {name}"):
                progress("plan", name)
                views.append(_ask(get_delegate(name), program, question))
        except EdgexError as error:
            failures.append(Failure(name, error))
    return WhyReport(
        source.description,
        parameters,
        weights,
        _compare(views),
        (),
        tuple(failures),
        (*source.notices, *notices),
        dict(clock.seconds),
        peak_rss_bytes(),
    )


def _capture(source: ModelSource, question: Question) -> tuple[CapturedProgram, tuple[str, ...]]:
    if isinstance(source.module, ExportedProgram):
        captured = capture(source.module, source_root=source.source_root, dynamic=question.dynamic)
        return captured.program, captured.notices
    module = getattr(source.module, "_orig_mod", source.module)
    drop_values(module)
    return capture_unrun(
        module,
        give_values(source.args),
        give_values(source.kwargs),
        source.dynamic_shapes,
        source_root=source.source_root,
        dynamic=question.dynamic,
    )


def _ask(delegate: Delegate, program: CapturedProgram, question: Question) -> TargetView:
    availability = delegate.availability()
    if not availability.available:
        raise TargetUnavailable(
            f"target {delegate.name!r} cannot be used here", why=availability.reason, fix=availability.fix
        )
    if question.precision not in delegate.precisions:
        raise LoweringError(
            f"target {delegate.name!r} does not take --precision {question.precision}",
            why=delegate.precision_refusal(question.precision),
            fix=f"it takes {', '.join(delegate.precisions)}",
        )
    options = parse_options(delegate, _options_of(delegate, question.options))
    applied: tuple[Mapping[str, Any], ...] = ()
    if question.rewrite:
        program, rewrites = apply_rewrites(program, wanted_rewrites(delegate))
        applied = tuple(asdict(rewrite) for rewrite in rewrites)
    plan = delegate.plan(convert_precision(program, question.precision), options)
    return TargetView(delegate.name, plan, _left_out(delegate.name, plan, question.rewrite), applied)


def _options_of(delegate: Delegate, given: Mapping[str, Any]) -> dict[str, Any]:
    """Those that name this target, and those without a target's name that it knows."""
    known = {item.name for item in dataclasses.fields(delegate.options_type)}
    chosen = {}
    for key, value in given.items():
        prefix, _, plain = key.rpartition(".")
        if prefix == delegate.name or (not prefix and plain.replace("-", "_") in known):
            chosen[plain] = value
    return chosen


def _left_out(target: str, plan: PartitionPlan, rewrites_on: bool) -> tuple[LeftOut, ...]:
    return tuple(
        LeftOut(fallback, *find_way_out(target, fallback, rewrites_on=rewrites_on)) for fallback in plan.fallbacks
    )


def _compare(views: Sequence[TargetView]) -> tuple[TargetView, ...]:
    """The views, each operator with the targets that take what stands on its line."""
    refused = {view.target: {fallback.source for fallback in view.plan.fallbacks} for view in views}

    def takers(item: LeftOut, own: str) -> tuple[str, ...]:
        source = item.fallback.source
        return tuple(name for name, lines in refused.items() if name != own and source and source not in lines)

    return tuple(
        dataclasses.replace(
            view,
            left_out=tuple(dataclasses.replace(item, taken_by=takers(item, view.target)) for item in view.left_out),
        )
        for view in views
    )
