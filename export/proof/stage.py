"""The pipeline's stages of proof: eager's answers to every case, and the artifact that must give the same ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgex.errors import UsageError, VerificationError
from edgex.export.methods.sequences import make_shared_case, shared_state
from edgex.export.proof.held_out import warn_of_more
from edgex.export.proof.held_out_answers import answer_held_out
from edgex.export.proof.language_cases import make_language_cases
from edgex.export.proof.references.decisions import judge_by_decisions
from edgex.export.proof.references.discretized import judge_by_features
from edgex.export.proof.references.float64_errors import judge_by_float64
from edgex.export.proof.references.precision_errors import judge_by_precision
from edgex.export.proof.references.ranks import judge_by_values
from edgex.export.proof.references.undecided import FIX, fails_near_zero_only, find_undecided
from edgex.export.proof.sequences import STATE_NOT_SHOWN
from edgex.export.proof.special_values import describe_special_values
from edgex.export.proof.verification import (
    ProofTimedOut,
    explain_failure,
    make_cases,
    require_state_shown,
    verify_in_fresh_process,
)
from edgex.runtime.artifact.golden import Case
from edgex.runtime.session.repeats import describe_repeats
from edgex.runtime.support.machine.memory import give_back_memory

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgex.export.settings import ExportSettings
    from edgex.export.target_model import CapturedModel, Progress, TargetModel
    from edgex.runtime.execute.here.fresh_process import FreshProcess


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


def answer_cases(
    model: TargetModel,
    settings: ExportSettings,
    progress: Progress,
    *,
    shares_state: bool = False,
    encoder: TargetModel | None = None,
) -> TargetModel:
    """The model with what its artifact has to prove, and the answers.

    Args:
        model: One method.
        settings: Say what is left out.
        progress: Called with a stage and a detail.
        shares_state: Whether other methods write or read its state.
        encoder: The method that a language model's texts begin with.

    Raises:
        UsageError: A case to be left out does not exist.
        VerificationError: The inputs do not show the model's state.
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
                encoder,
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
    if model.source.method is not None and shares_state:
        # What it shares is shown with the other methods.
        cases = [case for case in cases if case.reason != STATE_NOT_SHOWN]
    require_state_shown(cases, model.rewritten.program.state, settings.allow_inconclusive)
    return replace(model, cases=[*cases, *answer_held_out(model, settings, progress)])


def require_values(model: CapturedModel, settings: ExportSettings) -> None:
    """Refuse an example without values that leaves nothing to compare: every run of the proof would have its sizes.

    Raises:
        UsageError: All inputs are empty, or one is and an output with it.
    """
    for one in (model, *model.others):
        program = one.capture.program
        empty = [spec for spec in program.inputs if 0 in spec.shape]
        void = [spec for spec in program.outputs if 0 in spec.shape and "float" in spec.dtype]
        nothing = len(empty) == len(program.inputs) and not program.state
        if not empty or settings.allow_inconclusive or not (void or nothing):
            continue
        whose = "" if one.source.method is None else f" of method {one.source.method!r}"
        left = f"; it leaves the output {void[0].name} without values too" if void else ""
        raise UsageError(
            f"the example input {empty[0].name}{whose} has no values, and nothing can be proved with it",
            one.source.description,
            "give an example whose sizes are 1 or more; a size that varies may be given with --dynamic",
            why=f"it is {empty[0]}, and an artifact is proved by its outputs at the example's sizes{left}",
        )


def answer_for_targets(
    models: Mapping[str, TargetModel], settings: ExportSettings, progress: Progress
) -> dict[str, TargetModel]:
    """`answer_cases` for every target; those that are compared with the same reference share its answers."""
    known: dict[tuple[int, str | None], Sequence[Case]] = {}

    def answer(model: TargetModel, sharing: Sequence[TargetModel]) -> TargetModel:
        reference = id(model.quantized_reference), model.source.method
        if reference not in known:
            shares = any(model is other for other in sharing)
            encoder = whole if model.source.language is not None and model is not whole else None
            answered = answer_cases(model, settings, progress, shares_state=shares, encoder=encoder)
            method = model.source.method
            known[reference] = [replace(case, method=case.method or method) for case in answered.cases]
            if sharing and model is sharing[0] and not speaks:
                progress("reference", "runs of several methods")
                given = whole.source.method_sequence
                known[reference] = [
                    *known[reference],
                    make_shared_case(sharing, given, allow_inconclusive=settings.allow_inconclusive),
                ]
        return replace(model, cases=known[reference])

    found = {}
    for name, whole in models.items():
        names = shared_state(whole.methods) if whole.others else ()
        # Texts of a language model go over its methods themselves.
        speaks = any(method.source.language is not None for method in whole.methods)
        sharing = [method for method in whole.methods if method.source.method in names]
        first, *others = [answer(method, sharing) for method in whole.methods]
        found[name] = replace(first, others=tuple(others))
    for whole in models.values():
        for method in whole.methods:
            if method.quantized_reference is not None:
                method.quantized_reference.model.release()
    give_back_memory()
    return found


def prove(
    folder: Path,
    model: TargetModel,
    settings: ExportSettings,
    seal: Callable[[Sequence[Case]], None],
    progress: Progress,
    process: FreshProcess,
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
        process: Runs the cases, each time anew.
        on_cpu: The engine's CPU stands in for a device that is not here.

    Raises:
        VerificationError: Its outputs are not eager's, or a simulator did not end.
    """
    whose = "" if model.source.method is None else f", method {model.source.method}"
    progress("verify", f"{model.target}{whose}, in a fresh process")
    cases: Sequence[Case] = model.cases
    methods: tuple[str, ...] = () if model.source.method is None else (model.source.method,)
    if methods and model.source.language is not None:
        methods = (model.source.language.prefill, model.source.language.decode)
    warnings: tuple[str, ...] = ()
    try:
        verdict = verify_in_fresh_process(folder, process, cpu_reference=on_cpu, methods=methods)
    except ProofTimedOut:
        raise
    except VerificationError as error:
        # The process was killed. Where NaN and infinity did that, it is told like everything else about them.
        cases = [case.skip("the engine does not survive it") if case.kind == "report" else case for case in cases]
        seal(cases)
        verdict = verify_in_fresh_process(folder, process, cpu_reference=on_cpu, methods=methods)
        warnings = (f"NaN or infinity in the inputs: {error.what}",)
    if not verdict["passed"]:
        ranked = judge_by_values(cases, verdict, model.rewritten.program)
        ranked = judge_by_features(ranked, verdict, model.rewritten.program)
        if any(old is not new for old, new in zip(cases, ranked, strict=True)):
            progress("verify", f"{model.target}, once more: indices and rounded outputs by the values behind them")
            seal(cases := ranked)
            verdict = verify_in_fresh_process(folder, process, cpu_reference=on_cpu, methods=methods)
    if not verdict["passed"] and settings.judges_float32:
        judged = judge_by_decisions(cases, verdict, model.eager)
        if judged.sentences:
            progress("verify", f"{model.target}, once more: integers that rounding decides by what eager may have")
            seal(judged.cases)
            verdict = verify_in_fresh_process(folder, process, cpu_reference=on_cpu, methods=methods)
            cases, warnings = judged.cases, (*warnings, *judged.sentences)
    if not verdict["passed"] and settings.judges_float32:
        judged = judge_by_float64(cases, verdict, model.eager, model.rewritten.program)
        if judged.sentences:
            progress("verify", f"{model.target}, once more: {len(judged.sentences)} cases enlarge rounding")
            seal(judged.cases)
            verdict = verify_in_fresh_process(folder, process, cpu_reference=on_cpu, methods=methods)
            cases, warnings = judged.cases, (*warnings, *judged.sentences)
    undecided: tuple[str, ...] = ()
    # Once what is no stress, then the stress that is left; zeros are not the user's: it is enough to name them.
    for _ in range(2 if settings.judges_float32 and not verdict["passed"] else 0):
        judged = find_undecided(cases, verdict, model.eager, model.rewritten.program)
        undecided = judged.sentences
        if verdict["passed"] or not undecided or not (settings.allow_inconclusive or fails_near_zero_only(verdict)):
            break
        progress("verify", f"{model.target}, once more: without what rounding decides")
        # Those that it has given a limit keep it.
        others = [
            found
            for found in verdict["cases"]
            if any(old is new and old.name == found["name"] for old, new in zip(cases, judged.cases, strict=True))
        ]
        eased = judge_by_float64(judged.cases, {**verdict, "cases": others}, model.eager, model.rewritten.program)
        seal(eased.cases)
        verdict = verify_in_fresh_process(folder, process, cpu_reference=on_cpu, methods=methods)
        # What an earlier step held such a case to holds no more.
        changed = tuple(f"{new.name}: " for old, new in zip(cases, judged.cases, strict=True) if old is not new)
        warnings = tuple(text for text in warnings if not text.startswith(changed))
        cases, warnings = eased.cases, (*warnings, *undecided, *eased.sentences)
    if not verdict["passed"] and settings.precision != "fp32" and settings.tolerance is None:
        judged = judge_by_precision(cases, verdict, model.eager, model.rewritten.program)
        if judged.sentences:
            progress("verify", f"{model.target}, once more: by PyTorch's own error in {settings.precision}")
            seal(judged.cases)
            verdict = verify_in_fresh_process(folder, process, cpu_reference=on_cpu, methods=methods)
            cases, warnings = judged.cases, (*warnings, *judged.sentences)
    if not verdict["passed"]:
        failure = explain_failure(verdict, model.target)
        if undecided:
            failure.why, failure.fix, failure.undecided = "\n".join((str(failure.why), *undecided)), FIX, True
        raise failure
    verdict, told = describe_special_values(verdict, cases, model)
    return Proof(verdict, cases, (*warnings, *told, *describe_repeats(verdict["repeats"]), *warn_of_more(cases)))
