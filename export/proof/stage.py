"""The pipeline's stages of proof: eager's answers to every case, and the artifact that must give the same ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgex.errors import VerificationError
from edgex.export.proof.held_out import warn_of_more
from edgex.export.proof.held_out_answers import answer_held_out
from edgex.export.proof.language_cases import make_language_cases
from edgex.export.proof.references.discretized import judge_by_features
from edgex.export.proof.references.float64_errors import judge_by_float64
from edgex.export.proof.references.ranks import judge_by_values
from edgex.export.proof.special_values import describe_special_values
from edgex.export.proof.verification import (
    explain_failure,
    make_cases,
    require_state_shown,
    verify_in_fresh_process,
)
from edgex.runtime.artifact.golden import Case
from edgex.runtime.session.repeats import describe_repeats

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgex.export.settings import ExportSettings
    from edgex.export.target_model import Progress, TargetModel


@dataclass(frozen=True)
class Proof:
    """An artifact that gave eager's answers.

    Attributes:
        verdict: The `edgex.verify/1` object.
        cases: What was proved, with the limits that it was judged by.
        warnings: A sentence for each limit that is not the usual one.
    """

    verdict: Mapping[str, Any]
    cases: Sequence[Case]
    warnings: tuple[str, ...] = ()


def answer_cases(model: TargetModel, settings: ExportSettings, progress: Progress) -> TargetModel:
    """The model with what its artifact has to prove, and the answers.

    Raises:
        VerificationError: A case to be left out does not exist, or the inputs do not show the model's state.
    """
    reference = model.quantized_reference
    if model.source.language is not None:
        program, llm = model.rewritten.program, model.source.language
        return replace(
            model,
            cases=make_language_cases(
                program,
                model.eager,
                llm,
                settings.skip_cases,
                lambda case: progress("reference", case),
                reference,
            ),
        )
    cases = make_cases(
        model.rewritten.program,
        model.eager,
        [model.eager.flatten(args, kwargs) for args, kwargs in model.source.example_sequence or ()],
        settings.skip_cases,
        lambda case: progress("reference", case),
        reference,
    )
    require_state_shown(cases, settings.allow_inconclusive)
    return replace(model, cases=[*cases, *answer_held_out(model, settings, progress)])


def answer_for_targets(
    models: Mapping[str, TargetModel], settings: ExportSettings, progress: Progress
) -> dict[str, TargetModel]:
    """`answer_cases` for every target; those that are compared with the same reference share its answers."""
    known: dict[tuple[int, str | None], Sequence[Case]] = {}

    def answer(model: TargetModel) -> TargetModel:
        reference = id(model.quantized_reference), model.source.method
        if reference not in known:
            cases = answer_cases(model, settings, progress).cases
            method = model.source.method
            known[reference] = cases if method is None else [replace(case, method=method) for case in cases]
        return replace(model, cases=known[reference], others=tuple(answer(other) for other in model.others))

    return {name: answer(model) for name, model in models.items()}


def prove(
    folder: Path,
    model: TargetModel,
    settings: ExportSettings,
    seal: Callable[[Sequence[Case]], None],
    progress: Progress,
    *,
    on_cpu: bool,
) -> Proof:
    """Have a fresh process load the artifact, run its cases and judge them.

    Args:
        folder: The artifact under its temporary name.
        model: What it was made of.
        settings: Say whether float32 is judged.
        seal: Writes cases with other limits into the folder.
        progress: Called with a stage and a detail.
        on_cpu: The engine's CPU stands in for a device that is not here.

    Raises:
        VerificationError: Its outputs are not eager's.
    """
    whose = "" if model.source.method is None else f", method {model.source.method}"
    progress("verify", f"{model.target}{whose}, in a fresh process")
    cases: Sequence[Case] = model.cases
    method = model.source.method
    warnings: tuple[str, ...] = ()
    try:
        verdict = verify_in_fresh_process(folder, cpu_reference=on_cpu, method=method)
    except VerificationError as error:
        # The process was killed. Where NaN and infinity did that, it is told like everything else about them.
        cases = [case.skip("the engine does not survive it") if case.kind == "report" else case for case in cases]
        seal(cases)
        verdict = verify_in_fresh_process(folder, cpu_reference=on_cpu, method=method)
        warnings = (f"NaN or infinity in the inputs: {error.what}",)
    if not verdict["passed"]:
        ranked = judge_by_values(cases, verdict, model.rewritten.program)
        ranked = judge_by_features(ranked, verdict, model.rewritten.program)
        if any(old is not new for old, new in zip(cases, ranked, strict=True)):
            progress("verify", f"{model.target}, once more: indices and rounded outputs by the values behind them")
            seal(cases := ranked)
            verdict = verify_in_fresh_process(folder, cpu_reference=on_cpu, method=method)
    if not verdict["passed"] and settings.judges_float32:
        judged = judge_by_float64(cases, verdict, model.eager, model.rewritten.program)
        if judged.sentences:
            progress("verify", f"{model.target}, once more: {len(judged.sentences)} stress cases enlarge rounding")
            seal(judged.cases)
            verdict = verify_in_fresh_process(folder, cpu_reference=on_cpu, method=method)
            cases, warnings = judged.cases, (*warnings, *judged.sentences)
    if not verdict["passed"]:
        raise explain_failure(verdict, model.target)
    verdict, told = describe_special_values(verdict, cases, model)
    return Proof(verdict, cases, (*warnings, *told, *describe_repeats(verdict["repeats"]), *warn_of_more(cases)))
