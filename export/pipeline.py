"""The whole flow on one screen.

```
find -> capture -> rewrite -> quantize -> answer      once, for all targets
  -> lower -> package -> prove -> publish             for each target
```

Every stage is one call in the folder of its name, from values to values; none goes back into an earlier one.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from edgex.errors import EdgexError, RunError, UsageError, VerificationError
from edgex.export.result import ArtifactSizes, ExportedArtifact, ExportReport, Failure, StageClock, peak_rss_bytes
from edgex.export.settings import ExportSettings, Job, check_settings
from edgex.export.target_model import CapturedModel, Progress, TargetModel
from edgex.runtime.execute.here.fresh_process import FreshProcess
from edgex.runtime.support.dependency_messages import quiet_dependencies, quiet_loggers

if TYPE_CHECKING:
    from edgex.export.quantization.budget.search import BudgetSearch
    from edgex.export.quantization.budget.speed import SpeedCheck
    from edgex.export.source.source import ModelSource


def export_to_targets(
    find: Callable[[], ModelSource],
    settings: ExportSettings,
    *,
    name: str,
    progress: Progress = lambda _stage, _detail: None,
    stop_at_failure: bool = False,
    dry_run: bool = False,
) -> ExportReport:
    """Export one model to several targets; one that fails does not stop the others.

    Args:
        find: Gives the model; called after the settings were checked.
        settings: What the user asked for.
        name: The artifacts' NAME.
        progress: Called with a stage and a detail as work goes on.
        stop_at_failure: Raise the first target's failure instead of reporting it.
        dry_run: Stop at each target's plan and write nothing.

    Raises:
        EdgexError: A flag is wrong, or the model cannot be found or captured.
    """
    clock = StageClock()
    with clock.stage("check"):
        if dry_run and settings.max_drop is not None:
            raise UsageError("--dry-run measures nothing", fix="leave --max-drop or --dry-run out")
        jobs = check_settings(settings, name)
    captured, models, refused = prepare_models(find, settings, jobs, clock, progress)
    if not dry_run:
        from edgex.export.proof.stage import answer_for_targets

        with clock.stage("reference"):
            models = answer_for_targets(models, settings, progress)
    artifacts: list[ExportedArtifact] = []
    failures: list[Failure] = []
    defects: list[Exception] = []
    notices = captured.notices
    for job in jobs:
        target = job.delegate.name
        if target in refused and target in settings.optional and captured.source.method is not None:
            notices += (f"-t all leaves out {target}: {refused[target].what}",)
            continue
        try:
            if target in refused:
                raise refused[target]
            with quiet_dependencies(), _loaded_frozen(), FreshProcess() as process:
                if dry_run:
                    artifact = _plan_artifact(models[target], settings, clock.copy(), progress)
                else:
                    # What is lowered is proved in it; it takes seconds to import an engine.
                    process.prepare(job.delegate.engine)
                    artifact = _make_artifact(models[target], settings, clock.copy(), process, progress)
            artifacts.append(artifact)
            if artifact.shortfall is not None:
                failures.append(Failure(target, artifact.shortfall))
        except EdgexError as error:
            if stop_at_failure:
                raise
            failures.append(Failure(target, error))
        except Exception as error:  # a defect of edgex: told with its traceback once the other targets are done
            if stop_at_failure:
                raise
            defects.append(error)
    if defects:
        raise defects[0]
    source = captured.source
    return ExportReport(source.description, source.parameters, tuple(artifacts), tuple(failures), notices)


@contextmanager
def _loaded_frozen() -> Iterator[None]:
    """Within it, the garbage collector leaves out what there is: modules, and the captured program.

    Lowering makes and drops graphs, which are made of cycles, and the collector would look through all of that each
    time: a tenth of an export.
    """
    gc.collect(1)
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def prepare_models(
    find: Callable[[], ModelSource],
    settings: ExportSettings,
    jobs: Sequence[Job],
    clock: StageClock,
    progress: Progress,
) -> tuple[CapturedModel, dict[str, TargetModel], dict[str, EdgexError]]:
    """The stages that come once, for all targets: find, capture, rewrite, quantize.

    Returns:
        The captured model, each target's, and why some targets cannot take or quantize it.

    Raises:
        EdgexError: The model cannot be found or captured.
    """
    with clock.stage("import"):
        progress("import", "torch")
        from edgex.export.capture.stage import capture_source
        from edgex.export.excluding import exclude_operators
        from edgex.export.methods.refusals import refuse_targets
        from edgex.export.proof.stage import require_values
        from edgex.export.quantization.stage import quantize_for_targets
        from edgex.export.rewrites.stage import rewrite_for_targets
        from edgex.export.source.stage import find_source
    with clock.stage("find"):
        progress("find", "the model and its example inputs")
        with quiet_loggers():  # the user's file may be the first to import one of them
            source = find_source(find, settings, [job.delegate for job in jobs])
        refused: dict[str, EdgexError] = dict(refuse_targets(source, [job.delegate for job in jobs]))
        jobs = [job for job in jobs if job.delegate.name not in refused]
    with clock.stage("capture"):
        progress("capture", source.description)
        captured = capture_source(source, settings.dynamic, progress)
        require_values(captured, settings)
    with clock.stage("rewrite"):
        models = exclude_operators(rewrite_for_targets(captured, jobs, settings, progress), settings.exclude)
    if settings.recipe is None:
        return captured, models, refused
    with clock.stage("quantize"):
        models, unquantized = quantize_for_targets(models, captured, settings.recipe, settings, progress)
    return captured, models, {**refused, **unquantized}


def _plan_artifact(
    model: TargetModel, settings: ExportSettings, clock: StageClock, progress: Progress
) -> ExportedArtifact:
    """A dry run's answer: what the target would take."""
    from edgex.export.gains import with_gains
    from edgex.export.lowering import check_delegation, plan_model

    with clock.stage("plan"):
        progress("plan", model.target)
        plan = plan_model(model)
        model = with_gains(model, plan, settings)
        warnings = (*model.warnings, *check_delegation(plan, settings.min_delegation, model.target))
    return ExportedArtifact(
        model.target,
        "planned",
        model.program.inputs,
        model.program.outputs,
        plan,
        clock.seconds,
        rewrites=model.rewrites,
        peak_rss_bytes=peak_rss_bytes(),
        warnings=warnings,
        quantization=model.quantization,
    )


def _make_artifact(
    model: TargetModel, settings: ExportSettings, clock: StageClock, process: FreshProcess, progress: Progress
) -> ExportedArtifact:
    """Lower, write under a temporary name, prove in a fresh process, publish."""
    from edgex.export.bisect.failed_proof import name_operators
    from edgex.export.gains import with_gains
    from edgex.export.lowering import check_delegation, lower_model
    from edgex.export.methods.proof import prove_methods
    from edgex.export.next_commands import commands_for
    from edgex.export.packaging.package import hashing, publish, staged
    from edgex.export.packaging.stage import asked_of_proof, finish_package, warn_of_constants, write_package
    from edgex.export.proof.stage import answer_cases
    from edgex.export.proof.verification import ProofTimedOut
    from edgex.export.quantization.budget import artifact as quantized
    from edgex.export.quantization.budget.stage import meet_budget, over_budget
    from edgex.runtime.artifact.artifact import Artifact
    from edgex.runtime.support.machine.memory import give_back_memory

    target, destination = model.target, model.job.destination
    search: BudgetSearch | None = None
    speed: SpeedCheck | None = None
    if settings.max_drop is not None:
        with clock.stage("budget"):
            model, search = meet_budget(model, settings, progress)
            model = answer_cases(model, settings, progress) if search.kept else model
    with clock.stage("lower"):
        progress("lower", target)
        lowered = lower_model(model)
        model = with_gains(model, lowered.plan, settings)
        warnings = (*model.warnings, *lowered.warnings)
        warnings += check_delegation(lowered.plan, settings.min_delegation, target)
        if lowered.assembled_reason is not None:
            warnings += (f"assembled, not verified: {lowered.assembled_reason}; proved on the CPU instead",)
    missed = None if search is None or search.chosen.holds else over_budget(target, search, destination.path)
    warnings += () if missed is None else (f"--max-drop {settings.max_drop:g} is missed: {missed.why}",)
    with staged(destination) as folder:
        with clock.stage("package"):
            progress("package", target)
            quantization = quantized.with_accuracy(model.quantization, search)
            compression = quantized.report_compression(model)
            package = write_package(folder, model, lowered, settings, quantization, compression)
        memory = peak_rss_bytes()
        give_back_memory()  # the process that proves the artifact holds its weights too
        with clock.stage("verify"), hashing(folder, lowered.files) as wait_for_hashes:
            on_cpu = lowered.assembled_reason is not None
            try:
                proof = prove_methods(folder, model, settings, package.seal, progress, process, on_cpu=on_cpu)
            except (VerificationError, RunError) as error:
                # Parts of what a simulator does not end are not run one by one either.
                if isinstance(error, ProofTimedOut):
                    raise
                raise name_operators(error, model, settings, lowered, progress) from error.__cause__
            hashes = wait_for_hashes()
        warnings += (*proof.warnings, *warn_of_constants(package.manifest))
        if settings.recipe is not None and (settings.speed_check or settings.require_speedup):
            with clock.stage("time"):
                speed, slower = quantized.check_speed(package, settings, progress)
                warnings += slower
        with clock.stage("package"):
            verification = {**proof.verdict, **asked_of_proof(package.manifest)}
            manifest = finish_package(package, proof.cases, verification, hashes)
            publish(folder, destination)
    return ExportedArtifact(
        target,
        manifest.status,
        model.program.inputs,
        model.program.outputs,
        lowered.plan,
        clock.seconds,
        destination.path,
        ArtifactSizes(manifest.total_bytes, manifest.model_bytes, manifest.golden_bytes),
        proof.verdict,
        model.rewrites,
        memory,
        warnings,
        quantized.describe_outcome(manifest.quantization, compression, search, speed),
        missed,
        commands_for(Artifact(destination.path, manifest)),
    )
