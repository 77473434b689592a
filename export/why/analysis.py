"""The answer about a model: capture without values, rewrite, and ask every target for its plan."""

from __future__ import annotations

import dataclasses
import functools
import gc
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from typing import Any

import torch
from torch.export import ExportedProgram

from edgex.delegates.base import CapturedProgram, Delegate, ImportsSlowly, TakesLanguageModels
from edgex.delegates.plan import advise_of_text
from edgex.delegates.registry import get_delegate, parse_options
from edgex.errors import CaptureError, EdgexError, LoweringError
from edgex.export.capture.diagnosis.blockers import find_blockers
from edgex.export.capture.example_run import run_example
from edgex.export.gains import count_gains
from edgex.export.next_commands import name_model
from edgex.export.result import Failure, StageClock, peak_rss_bytes
from edgex.export.rewrites import Rewrite, apply_rewrites, wanted_rewrites
from edgex.export.rewrites.precision import convert_precision
from edgex.export.settings import check_options, refuse_language
from edgex.export.source.memory.check import needed_bytes, peak_factor
from edgex.export.source.source import ModelSource, find_model
from edgex.export.why.programs import capture_programs, prepare_source
from edgex.export.why.question import Question, choose_options, require_available
from edgex.export.why.report import LeftOut, TargetView, WhyReport, list_left_out
from edgex.export.why.weightless import attempt_on_meta, without_values
from edgex.runtime.support.machine.memory import read_available_bytes

Progress = Callable[[str, str], None]


def ask(model: str, question: Question, progress: Progress) -> tuple[dict[str, Any], int]:
    """Answer about a model file: without values if its code allows that, else with the weights that it builds.

    Args:
        model: `file.py[:name]`, `package.module:name` or `file.pt2`.
        question: Checked already.
        progress: Called with a stage and a detail.

    Returns:
        The document `edgex.why/2`, and the exit code.

    Raises:
        EdgexError: The model cannot be found.
    """
    clock = StageClock()
    with clock.stage("import"):
        progress("import", "torch and the targets")
        _import_targets(question.targets)
        # Tracing makes much garbage; what was imported is none, and looking through it takes a tenth of the time.
        gc.freeze()

    def find() -> ModelSource:
        language = question.language is not None
        return find_model(model, input_shapes=question.shapes, language=language, several=True)

    def answer(weights: str) -> dict[str, Any]:
        with clock.stage("find"):
            progress("find", "the model and its example inputs")
            if weights == "none":
                with without_values(), torch.device("meta"), warnings.catch_warnings():
                    # Of each weight that the file loads: it has no place for its values, which nobody asks for.
                    warnings.filterwarnings("ignore", message=".*copying from a non-meta parameter")
                    source = prepare_source(find(), question, weights)
            else:
                source = prepare_source(find(), question, weights)
        report = answer_model(source, question, weights, clock, progress)
        for error in (*report.blockers, *(failure.error for failure in report.failures)):
            name_model(error, model, question.language)
        return {"document": report.to_json(), "exit_code": report.exit_code}

    if model.endswith(".pt2") or question.language is not None:
        # A language model is run, to find its cache.
        found, why = None, None
    else:
        found, why = attempt_on_meta(lambda: answer("none"))
    if found is None:
        found = answer("built")
        if why is not None and not found["document"]["blockers"]:
            found["document"]["notices"].append(f"the weights were built: {why}")
    return found["document"], found["exit_code"]


def _import_targets(targets: Sequence[str]) -> None:
    """Import what planning needs, once, before anything is forked or timed."""
    for target in targets:
        delegate = get_delegate(target)
        if delegate.availability().available and isinstance(delegate, ImportsSlowly):
            delegate.import_planner()


def answer_model(
    source: ModelSource, question: Question, weights: str, clock: StageClock, progress: Progress
) -> WhyReport:
    """What each target takes and leaves of a model.

    Args:
        source: The model; where `weights` is `none` its tensors are replaced, and it computes nothing afterwards.
        question: What is asked.
        weights: `none` or `built`: how the model came to be, for the report.
        clock: Takes the time of the stages.
        progress: Called with a stage and a detail.

    Raises:
        NotOnMeta: A model without values cannot be captured. One with values can be looked into: what is in its way is
            in the report then.
    """
    parameters = source.parameters
    delegates = [get_delegate(name) for name in question.targets]
    memory = memory_notices(source.whole, delegates, read_available_bytes())
    try:
        with clock.stage("capture"):
            progress("capture", source.description)
            with without_values() if weights == "none" else nullcontext():
                programs, notices = capture_programs(source, question, weights, progress)
    except CaptureError as error:
        with clock.stage("blockers"):
            if source.method is None and source.language is None:
                progress("blockers", "what keeps the model from being captured")
                blockers = find_blockers(source, _with_eager(source, error))
            else:
                blockers = (error, *error.others)
        return WhyReport(
            source.description, parameters, weights, blockers=blockers, notices=source.notices,
            seconds=dict(clock.seconds), peak_rss_bytes=peak_rss_bytes(),
        )  # fmt: skip
    views: list[TargetView] = []
    failures: dict[str, Failure] = {}
    for one in programs:
        # What is rewritten for every target is rewritten once; large models spend seconds there.
        rewritten = functools.cache(functools.partial(apply_rewrites, one.program))
        plans: dict[str, Callable[[], TargetView]] = {}
        own: list[TargetView] = []
        for delegate in delegates:
            with clock.stage(f"plan {delegate.name}"), _failing_into(failures, delegate.name):
                plans[delegate.name] = _ask(delegate, one.program, rewritten, question)
        for target, plan in plans.items():
            with clock.stage(f"plan {target}"), _failing_into(failures, target):
                progress("plan", target if one.method is None else f"{target}, method {one.method}")
                own.append(dataclasses.replace(plan(), method=one.method))
        views += _compare(own)
    return WhyReport(
        source.description,
        parameters,
        weights,
        tuple(views),
        (),
        tuple(failures.values()),
        (*source.notices, *notices, *memory),
        dict(clock.seconds),
        peak_rss_bytes(),
    )


@contextmanager
def _failing_into(failures: dict[str, Failure], target: str) -> Iterator[None]:
    """Within it, an error is a failure of the target; its first one is told."""
    try:
        yield
    except EdgexError as error:
        failures.setdefault(target, Failure(target, error))


def _with_eager(source: ModelSource, error: CaptureError) -> CaptureError:
    """What capture raised, with what an eager run tells: changes of Python values, outputs that are no tensors."""
    if isinstance(source.module, torch.nn.Module):
        try:
            run_example(source.module, tuple(source.args), source.kwargs, source.source_root)
        except CaptureError as seen:
            return error.with_others((seen, *seen.others))
    return error


def memory_notices(
    module: torch.nn.Module | ExportedProgram, delegates: Sequence[Delegate], available_bytes: int | None
) -> tuple[str, ...]:
    """A sentence where `export` would keep the model's weights on disk, or refuse it, for want of memory.

    Args:
        module: Its weights may be without values.
        delegates: Those of the targets about which is asked.
        available_bytes: What the system can give; None where unknown.
    """
    needed = needed_bytes(module, delegates)
    if available_bytes is None or needed <= available_bytes:
        return ()
    weights = int(needed / peak_factor(delegates))
    beside = needed - weights
    outcome = (
        f"{weights / 1e9:.1f} GB of weights will lie on disk meanwhile"
        if beside <= available_bytes
        else f"it will be refused, since it needs {beside / 1e9:.1f} GB beside weights on disk"
    )
    return (
        f"exporting needs about {needed / 1e9:.1f} GB of memory, and {available_bytes / 1e9:.1f} GB are available "
        f"here: {outcome}",
    )


def _ask(
    delegate: Delegate,
    program: CapturedProgram,
    rewritten: Callable[[], tuple[CapturedProgram, tuple[Rewrite, ...]]],
    question: Question,
) -> Callable[[], TargetView]:
    """What a target is asked about, rewritten for it; what is returned asks it.

    Planning gives sizes that only a run finds new names, which a rewrite would then not know.
    """
    require_available(delegate)
    if question.language is not None and not isinstance(delegate, TakesLanguageModels):
        raise refuse_language(delegate)
    if question.precision not in delegate.precisions:
        raise LoweringError(
            f"target {delegate.name!r} does not take --precision {question.precision}",
            why=delegate.precision_refusal(question.precision),
            fix=f"it takes {', '.join(delegate.precisions)}",
        )
    options = parse_options(delegate, choose_options(delegate, question.options))
    check_options(delegate, options, question.precision, None)
    captured = program
    rewrites: tuple[Rewrite, ...] = ()
    if question.rewrite:
        program, for_all = rewritten()
        program, for_it = apply_rewrites(program, wanted_rewrites(delegate), common=False)
        rewrites = (*for_all, *for_it)
    program = convert_precision(program, question.precision)

    def make_plan() -> TargetView:
        plan, told = delegate.plan(program, options), rewrites
        if question.precision == "fp32":
            told = count_gains(captured, told, plan, delegate, options)
        if question.language is not None:
            plan = advise_of_text(plan)
        applied = tuple(asdict(rewrite) for rewrite in told)
        return TargetView(delegate.name, plan, list_left_out(plan, rewrites_on=question.rewrite), applied)

    return make_plan


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
