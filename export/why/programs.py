"""The programs that targets are asked about: one, or one for each method of the artifact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from torch.export import ExportedProgram

from edgex.delegates.base import CapturedProgram
from edgex.errors import UsageError, nearest_name
from edgex.export.capture.program import capture, capture_unrun
from edgex.export.capture.stage import capture_source
from edgex.export.capture.torch_internals import uncompiled
from edgex.export.source.source import ModelSource
from edgex.export.why.question import Question
from edgex.export.why.unweighted import drop_values, give_values
from edgex.export.why.weightless import NotOnMeta

if TYPE_CHECKING:
    from edgex.export.target_model import Progress


@dataclass(frozen=True)
class MethodProgram:
    """A program, and the method that it is; None where the artifact has one, or one program for all."""

    method: str | None
    program: CapturedProgram


def prepare_source(source: ModelSource, question: Question, weights: str) -> ModelSource:
    """The source as an export would capture it: of a language model with its signature and its cache.

    Raises:
        NotOnMeta: It has several methods, and no values.
        UsageError: It has no method of the name that was given.
        CaptureError: It is no language model, or its cache is wrong.
    """
    if weights == "none" and source.method is not None:
        raise NotOnMeta("it has several methods, and values show which state they share")
    if question.language is not None:
        from edgex.export.language_model.source import prepare_language_model

        source = prepare_language_model(source, question.language)
    known = _names(source)
    if question.method is not None and question.method not in known:
        why = nearest_name(question.method, known) if known else "it has one, forward"
        raise UsageError(f"{source.description} has no method {question.method!r}", why=why)
    return source


def capture_programs(
    source: ModelSource, question: Question, weights: str, progress: Progress
) -> tuple[list[MethodProgram], tuple[str, ...]]:
    """What targets are asked about, and what the user should know of it, a sentence each.

    Raises:
        CaptureError: It cannot be captured. Of several methods, and of a language model, it has all that is in the way.
        UsageError: `--dynamic` names an input or dimension that does not exist.
    """
    if source.method is None and source.language is None:
        program, notices = _capture(source, question, weights)
        return [MethodProgram(None, program)], notices
    captured = capture_source(source, question.dynamic, progress)
    models = [captured, *captured.others]
    found = [MethodProgram(own.source.method, own.capture.program) for own in models]
    notices = tuple(notice for own in models for notice in own.capture.notices)
    language = next((own.source for own in models if own.source.language is not None), None)
    if language is not None and language.language is not None:
        llm = language.language
        notices += (f"{llm.prefill} and {llm.decode} are one program: what is said of one holds for the other",)
        found = [replace(one, method=None if len(found) == 1 else one.method) for one in found]
        if question.method in (llm.prefill, llm.decode):
            return [one for one in found if one.method == language.method], notices
    return [one for one in found if question.method in (None, one.method)], notices


def _names(source: ModelSource) -> Sequence[str]:
    """Of the methods that the artifact would have."""
    names = [str(own.method) for own in (source, *source.others) if own.method is not None]
    llm = next((own.language for own in (source, *source.others) if own.language is not None), None)
    return list(dict.fromkeys([*names, *([] if llm is None else [llm.prefill, llm.decode])]))


def _capture(source: ModelSource, question: Question, weights: str) -> tuple[CapturedProgram, tuple[str, ...]]:
    if isinstance(source.module, ExportedProgram):
        captured = capture(source.module, source_root=source.source_root, dynamic=question.dynamic)
        return captured.program, captured.notices
    module = uncompiled(source.module)
    if weights == "none":
        drop_values(module)
    return capture_unrun(
        module,
        give_values(source.args),
        give_values(source.kwargs),
        source.dynamic_shapes,
        source_root=source.source_root,
        dynamic=question.dynamic,
    )
