"""`edgex.why`: what targets take of a model and what they leave, for Python code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from edgex.export.language_model.request import read_request
from edgex.export.result import StageClock
from edgex.export.why.question import Question, check_targets
from edgex.export.why.report import WhyReport
from edgex.runtime.support.arguments import check_mapping, names_of


def why(
    model: Any,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    target: str | Sequence[str],
    dynamic_shapes: Any = None,
    precision: str | None = None,
    options: Mapping[str, Any] | None = None,
    context: int | None = None,
    chunk: int | None = None,
) -> WhyReport:
    """Ask what each target takes of a module or an ExportedProgram. Nothing is lowered, written or changed.

    Args:
        model: An `nn.Module` (it is captured in eval mode, and has its own again afterwards) or an `ExportedProgram`.
        args: Example inputs by position, or in another form that a model file has: one tensor, a dict of those by
            name, or `(tuple, dict)`.
        kwargs: Example inputs by name.
        target: A delegate's name, or several.
        dynamic_shapes: As `torch.export.export` takes it.
        precision: `fp32` (default), `fp16` or `bf16`.
        options: The delegates' options; `target.key` reaches one target only.
        context: How many tokens a text may have: the model is a language model, as for `edgex.export_model`.
        chunk: How many tokens one call of prefill takes at most.

    Returns:
        A view for each target in `targets`; what keeps the model from being captured in `blockers`; targets without a
        view in `failures`. `to_json()` gives the document `edgex.why/2`.

    Raises:
        UsageError: A target, precision or option is unknown.
        TargetUnavailable: None of the targets can be used here.
    """
    targets = names_of("target", target)
    check_mapping("options", options)
    language = read_request(context is not None, context, chunk)
    question = Question(targets, precision or "fp32", options=options or {}, language=language)
    check_targets(question)
    # Imports torch; what is wrong with the question is said before.
    from edgex.export.source.source import wrap_model
    from edgex.export.source.weights import modes_kept
    from edgex.export.why.analysis import answer_model
    from edgex.export.why.programs import prepare_source

    with modes_kept(model):
        source = prepare_source(wrap_model(model, args, kwargs, dynamic_shapes), question, "built")
        return answer_model(source, question, "built", StageClock(), lambda _stage, _detail: None)
