"""`edgex.why`: what targets take of a model and what they leave, for Python code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from edgex.export.result import StageClock
from edgex.export.why.question import Question, check_targets
from edgex.export.why.report import WhyReport


def why(
    model: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    target: str | Sequence[str],
    dynamic_shapes: Any = None,
    precision: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> WhyReport:
    """Ask what each target takes of a module or an ExportedProgram. Nothing is lowered, written or changed.

    Args:
        model: An `nn.Module` (it is captured in eval mode) or an `ExportedProgram`.
        args: Example inputs by position.
        kwargs: Example inputs by name.
        target: A delegate's name, or several.
        dynamic_shapes: As `torch.export.export` takes it.
        precision: `fp32` (default), `fp16` or `bf16`.
        options: The delegates' options; `target.key` reaches one target only.

    Returns:
        A view for each target in `targets`; what keeps the model from being captured in `blockers`; targets without a
        view in `failures`. `to_json()` gives the document `edgex.why/2`.

    Raises:
        UsageError: A target, precision or option is unknown.
        TargetUnavailable: None of the targets can be used here.
    """
    question = Question(
        (target,) if isinstance(target, str) else tuple(target), precision or "fp32", options=options or {}
    )
    check_targets(question)
    # Imports torch; what is wrong with the question is said before.
    from edgex.export.source.source import wrap_model
    from edgex.export.why.analysis import answer_model

    source = wrap_model(model, tuple(args), dict(kwargs or {}), dynamic_shapes)
    return answer_model(source, question, "built", StageClock(), lambda _stage, _detail: None)
