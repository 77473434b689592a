"""`edgex bisect`: a model or an artifact, on the proof's cases or the user's own inputs."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from edgex.delegates.registry import get_delegate
from edgex.errors import RunError, TargetUnavailable, UsageError, VerificationError, nearest_name
from edgex.export.bisect.feeds import cases_for, find_method, method_at_fault
from edgex.export.bisect.subject import Subject, wrong_cases
from edgex.export.language_model.request import LanguageRequest
from edgex.export.next_commands import repeat_flags
from edgex.export.pipeline import prepare_models
from edgex.export.result import StageClock
from edgex.export.settings import ExportSettings, check_settings
from edgex.export.source.naming import command_name
from edgex.runtime.artifact.artifact import Artifact, hash_file, open_artifact
from edgex.runtime.artifact.golden import Case
from edgex.runtime.execute.here.fresh_process import FreshProcess
from edgex.runtime.session.signature import Signature
from edgex.runtime.support.disk.scratch import scratch_folder

if TYPE_CHECKING:
    from edgex.delegates.base import LoweredModule
    from edgex.export.bisect.report import Bisection
    from edgex.export.packaging.stage import Package
    from edgex.export.source.source import ModelSource
    from edgex.export.target_model import Progress, TargetModel

# Reads the user's inputs by name, for an artifact that says what it takes.
ReadInputs = Callable[[Artifact], Mapping[str, np.ndarray]]


@dataclass(frozen=True)
class Question:
    """What the user asks.

    Attributes:
        find: Gives the model.
        settings: Of an export to one target.
        read_inputs: Reads `-i`; None asks about the proof's own cases.
        artifact: The artifact that was named instead of a model.
        repro: Folder for a repro of the first fault; None writes none.
        limit_seconds: After this time no further part is looked at.
        method: The one that is looked at, of several; None looks at all that are wrong.
    """

    find: Callable[[], ModelSource]
    settings: ExportSettings
    read_inputs: ReadInputs | None = None
    artifact: Artifact | None = None
    repro: Path | None = None
    limit_seconds: float = 600.0
    method: str | None = None


def answer_question(question: Question, progress: Progress) -> tuple[Bisection, tuple[str, ...]]:
    """Lower the model as an export would, run its cases, and find the operators at fault.

    Returns:
        The answer, and what the user should know, a sentence each.

    Raises:
        EdgexError: The model cannot be found, captured or lowered; the inputs do not fit it.
        TargetUnavailable: Nothing here runs what the target makes.
    """
    with scratch_folder("bisect") as home:
        settings = replace(question.settings, output=home / "whole")
        clock = StageClock()
        jobs = check_settings(settings, "model")
        captured, models, refused = prepare_models(question.find, settings, jobs, clock, progress)
        for error in refused.values():
            raise error
        (model,) = models.values()
        return _answer(model, replace(question, settings=settings), home, progress, captured.notices)


def settings_of(artifact: Artifact) -> ExportSettings:
    """What an artifact was exported with, as far as its manifest tells."""
    manifest = artifact.manifest
    recipe = manifest.quantization or {}
    # The manifest's options hold what follows from the delegate's, too.
    fields = {field.name for field in dataclasses.fields(get_delegate(manifest.target).options_type)}
    known = {key: value for key, value in manifest.options.items() if key in fields and value is not None}
    settings = manifest.settings
    return ExportSettings(
        targets=(manifest.target,),
        precision=manifest.precision,
        quantize=recipe.get("recipe"),
        group_size=recipe.get("group_size"),
        options=known,
        rewrite=settings.get("rewrite", True),
        exclude=tuple(settings.get("exclude", ())),
        language=_language_of(artifact),
    )


def _language_of(artifact: Artifact) -> LanguageRequest | None:
    """What was asked of the language model that an artifact holds."""
    llm, recipe = artifact.manifest.llm, artifact.manifest.quantization or {}
    if llm is None:
        return None
    settings = artifact.manifest.settings
    head, table = recipe.get("head", "recipe"), recipe.get("embedding", "float")
    return LanguageRequest(
        llm.context, llm.chunk, settings.get("source"), head, table, "int8" if settings.get("kv") == "int8" else "fp32"
    )


def model_of(artifact: Artifact) -> str:
    """The model that an artifact says it is of, as `edgex export` takes it: a file here, or beside the artifact.

    Raises:
        UsageError: It is not there; artifacts hold no path.
    """
    source = str(artifact.manifest.model.get("source") or "")
    file, _, name = source.partition(":")
    target = artifact.manifest.target
    if file.endswith((".py", ".pt2")):
        home = artifact.path.resolve().parent
        for folder in dict.fromkeys([Path.cwd(), home, *list(home.parents)[:2]]):
            if (folder / file).is_file():
                return command_name(f"{folder / file}:{name}") if name else str(folder / file)
    elif source and ":" in source:
        return source
    raise UsageError(
        f"{artifact.path.name} does not hold the model that it was made of, which is {source or 'unknown'}",
        why="bisect runs it in PyTorch; an artifact keeps no path to it, and it is not here nor beside the artifact",
        fix=f"edgex bisect {command_name(source) or 'MODEL'} -t {target}, from the model's folder",
    )


def _check_method(model: TargetModel, method: str | None) -> None:
    """Refuse a method that the model does not have.

    Raises:
        UsageError: It is none of them.
    """
    llm = model.source.language
    decoders = [] if llm is None else [llm.prefill, llm.decode]
    known = list(dict.fromkeys([*decoders, *(own.source.method for own in model.methods if own.source.method)]))
    if method is not None and method not in known:
        why = nearest_name(method, known) if known else "it has one, forward"
        raise UsageError(f"{model.source.description} has no method {method!r}", why=why)


def _with_cases(
    model: TargetModel, lowered: LoweredModule, question: Question, home: Path, progress: Progress
) -> TargetModel:
    """The model with what its methods have to give; of inputs that were given, one method alone."""
    from edgex.export.packaging.stage import write_native
    from edgex.export.proof.stage import answer_for_targets
    from edgex.export.proof.verification import answer_inputs

    if question.read_inputs is None:
        return answer_for_targets({model.target: model}, question.settings, progress)[model.target]
    write_native(home / "bare", model, lowered, question.settings, model.quantization)
    given = question.read_inputs(open_artifact(home / "bare", "size").select(question.method))
    own = find_method(model, question.method)
    try:
        inputs = Signature(own.program.inputs).prepare_named(**given)
    except RunError as error:
        error.what = f"-i does not fit the model: {error.what}"
        raise
    progress("reference", "the given inputs")
    quantized = None if own.quantized is None else own.quantized.reference
    cases = answer_inputs(own.rewritten.program, own.eager, inputs, "given inputs", quantized)
    method = own.source.method if question.method is None else question.method
    answered = replace(own, cases=[replace(case, method=method) for case in cases], others=())
    first, *others = [answered if method is own else replace(method, others=()) for method in model.methods]
    return replace(first, others=tuple(others))


def _answer(
    model: TargetModel, question: Question, home: Path, progress: Progress, notices: tuple[str, ...]
) -> tuple[Bisection, tuple[str, ...]]:
    from edgex.export.lowering import lower_model
    from edgex.export.packaging.stage import write_package
    from edgex.runtime.support.dependency_messages import quiet_dependencies

    _check_method(model, question.method)
    progress("lower", model.target)
    with quiet_dependencies():
        lowered = lower_model(model)
    if lowered.assembled_reason is not None:
        name = command_name(model.source.description, model.source.source_root)
        flags = repeat_flags(question.settings)
        raise TargetUnavailable(
            f"bisect runs every part of the model, and nothing here runs what {model.target} makes",
            why=lowered.assembled_reason,
            fix=f"edgex bisect {name} -t onnx-cpu{flags} looks at the same graph on the CPU",
        )
    model = _with_cases(model, lowered, question, home, progress)
    package = write_package(home / "artifact", model, lowered, question.settings, model.quantization, None)
    notices += _changed(question.artifact, home / "artifact", lowered.files)
    deadline = time.monotonic() + question.limit_seconds
    asked = [own for own in model.methods if own.cases]
    if question.method is not None:
        asked = [find_method(model, question.method)]
    answers: list[Bisection] = []
    for own in asked:
        if own.source.method in {found.method for found in answers if found.born}:
            continue  # runs of several methods have shown its fault
        subject = Subject(own, question.settings, lowered, cases_for(model, own), (), None, model)
        found, said = _look_at(subject, package, question, deadline - time.monotonic(), progress)
        answers.append(found)
        notices += said
        if found.repro is not None:  # one fault is enough to report
            question = replace(question, repro=None)
    # What is wrong comes first.
    first, *others = sorted(answers, key=lambda found: (not found.born, found.judged == 0))
    return replace(first, others=tuple(others)), notices


def _look_at(
    subject: Subject, package: Package, question: Question, seconds: float, progress: Progress
) -> tuple[Bisection, tuple[str, ...]]:
    """Prove one method, and look for the operators at fault where that fails."""
    from edgex.export.bisect.report import Bisection, CaseFigure
    from edgex.export.bisect.repro.folder import write_repro
    from edgex.export.bisect.stage import bisect
    from edgex.export.proof.stage import prove
    from edgex.export.proof.verification import ProofFailed

    model = subject.model

    def seal(changed: Sequence[Case]) -> None:
        others = (case for own in subject.methods if own is not model for case in own.cases)
        package.seal([*changed, *others])

    try:
        with FreshProcess() as process:
            proof = prove(package.folder, model, question.settings, seal, progress, process, on_cpu=False)
        verdict = proof.verdict
    except ProofFailed as error:
        verdict, proof = error.verdict, None
        wrong = tuple(one for one in wrong_cases(verdict) if question.method in (None, one.method))
        subject = replace(subject, wrong=wrong)
        if not wrong and not wrong_cases(verdict):
            if len(subject.methods) == 1:
                raise
            # Another method may be at fault; of this one it is said that nothing was proved.
            limit = subject.tolerance.min_sqnr_db
            answer = Bisection(model.source.description, model.target, (), limit, ruled_out=(str(error.why),))
            return replace(answer, method=model.source.method), ()
    except (VerificationError, RunError) as error:
        subject = replace(subject, broken=error.what)
    if subject.broken is None and not subject.wrong:
        figures = tuple(
            CaseFigure(str(case["name"]), case["sqnr_db"], case["reason"], case.get("method"))
            for case in verdict["cases"]
            if case["verdict"] != "skipped" and question.method in (None, case.get("method"))
        )
        said = f"the artifact is right on all of its {len(figures)} outputs and cases: no operator is at fault on these"
        warnings = () if proof is None else proof.warnings
        known = ("inputs on which it is wrong can be given: -i data.npz", *warnings)
        method = question.method if model.source.language is not None else model.source.method
        limit = subject.tolerance.min_sqnr_db
        answer = Bisection(model.source.description, model.target, figures, limit, ruled_out=(said, *known))
        return replace(answer, method=method), ()
    at_fault = method_at_fault(subject.whole, subject.wrong) if subject.wrong else model
    subject = replace(subject, model=at_fault, cases=cases_for(subject.whole, at_fault))
    answer, search = bisect(subject, seconds, progress)
    notices: tuple[str, ...] = ()
    if question.repro is not None and answer.born:
        progress("repro", str(question.repro))
        notices = write_repro(question.repro, search, search.found.born[0], answer.born[0])
        answer = replace(answer, repro=str(question.repro))
    return answer, notices


def _changed(artifact: Artifact | None, folder: Path, files: Sequence[str]) -> tuple[str, ...]:
    """A sentence where the named artifact is not what its model gives now."""
    if artifact is None:
        return ()
    known = {entry.path: entry.sha256 for entry in artifact.manifest.files}
    changed = [name for name in files if known.get(name) != hash_file(folder / name)]
    if not changed or artifact.manifest.target == "reference":
        return ()
    return (
        f"{artifact.path.name} is not what its model gives now ({', '.join(changed)} differs): the model, its "
        "calibration data or a version changed; what follows is about the model as it is",
    )
