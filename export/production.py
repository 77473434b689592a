"""One target's artifact: lowered, written under a temporary name, proved in a fresh process, published."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from edgex.errors import LoweringError, VerificationError
from edgex.export.packaging.debug_files import write_debug
from edgex.export.packaging.manifest import make_manifest
from edgex.export.packaging.package import hashing, list_files, publish, staged, write_manifest
from edgex.export.prepared import Prepared, Progress
from edgex.export.proof.float_limits import ease_limits
from edgex.export.proof.verification import carried_cases, explain_failure, verify_in_fresh_process
from edgex.export.quantization.budget.artifact import (
    check_speed,
    describe_outcome,
    describe_prepared,
    meet_budget,
    over_budget,
)
from edgex.export.result import ExportedArtifact, StageClock, peak_rss_bytes
from edgex.export.settings import ExportSettings, Job
from edgex.runtime.artifact.golden import replace_golden, write_golden

if TYPE_CHECKING:
    from edgex.delegates.base import CapturedProgram, LoweredModule
    from edgex.delegates.plan import PartitionPlan
    from edgex.export.quantization.budget.search import BudgetSearch
    from edgex.export.quantization.budget.speed import SpeedCheck

# Below this share of delegated work an artifact is written with a warning; --min-delegation makes it an error.
WARN_BELOW_DELEGATION = 0.9


def plan_artifact(
    job: Job, prepared: Prepared, settings: ExportSettings, clock: StageClock, progress: Progress
) -> ExportedArtifact:
    """A dry run's answer: what the target would take."""
    program = prepared.program(job.delegate.name)
    with clock.stage("plan"):
        progress("plan", job.delegate.name)
        plan = job.delegate.plan(program, job.options)
        warnings = (*prepared.warnings(job.delegate.name), *_check_delegation(plan, settings, job.delegate.name))
    return ExportedArtifact(
        job.delegate.name,
        "planned",
        program.inputs,
        program.outputs,
        plan,
        clock.seconds,
        rewrites=prepared.rewrites(job.delegate.name),
        peak_rss_bytes=peak_rss_bytes(),
        warnings=warnings,
        quantization=prepared.describe_quantization(job.delegate.name),
    )


def make_artifact(
    job: Job, prepared: Prepared, settings: ExportSettings, clock: StageClock, progress: Progress
) -> ExportedArtifact:
    """Lower, write under a temporary name, prove in a fresh process, publish."""
    target = job.delegate.name
    search: BudgetSearch | None = None
    if settings.max_drop is not None:
        with clock.stage("budget"):
            prepared, search = meet_budget(job, prepared, settings, progress)
    program, cases = prepared.program(target), prepared.cases[target]
    with clock.stage("lower"):
        progress("lower", target)
        lowered = job.delegate.lower(program, job.options)
        _check_lowered_signature(program, lowered)
        warnings = (*prepared.warnings(target), *lowered.warnings, *_check_delegation(lowered.plan, settings, target))
        if lowered.assembled_reason is not None:
            warnings = (*warnings, f"assembled, not verified: {lowered.assembled_reason}; proved on the CPU instead")
    with staged(job.destination) as folder:
        with clock.stage("package"):
            progress("package", target)
            lowered.write(folder)
            compression = describe_prepared(prepared, target)
            write_debug(folder, lowered.debug, program, compression)
            write_golden(folder, cases)
            manifest = make_manifest(job, prepared, lowered, settings, search)
            write_manifest(folder, replace(manifest, files=list_files(folder, hashed=False)))
        memory = peak_rss_bytes()
        with clock.stage("verify"), hashing(folder, lowered.files) as wait_for_hashes:
            progress("verify", f"{target}, in a fresh process")
            verdict = verify_in_fresh_process(folder, cpu_reference=lowered.assembled_reason is not None)
            if not verdict["passed"] and settings.judges_float32:
                eased, sentences = ease_limits(cases, verdict, prepared.eager)
                if sentences:
                    progress("verify", f"{target}, once more: {len(sentences)} stress cases enlarge rounding")
                    replace_golden(folder, cases, eased)
                    write_manifest(folder, replace(manifest, files=list_files(folder, hashed=False)))
                    verdict = verify_in_fresh_process(folder, cpu_reference=lowered.assembled_reason is not None)
                    cases, warnings = eased, (*warnings, *sentences)
            if not verdict["passed"]:
                raise explain_failure(verdict, target)
            hashes = wait_for_hashes()
        speed: SpeedCheck | None = None
        if settings.recipe is not None and (settings.speed_check or settings.require_speedup):
            with clock.stage("time"):
                speed, doubts = check_speed(job, prepared, settings, folder, lowered, progress)
                warnings = (*warnings, *doubts)
        with clock.stage("package"):
            replace_golden(folder, cases, carried_cases(cases))
            proof = {**verdict, "allow_inconclusive": settings.allow_inconclusive}
            manifest = replace(
                manifest,
                verification=proof,
                status="verified" if lowered.assembled_reason is None else "assembled",
                status_reason=lowered.assembled_reason,
                files=list_files(folder, hashes),
            )
            write_manifest(folder, manifest)
            size = sum(entry.bytes for entry in manifest.files)
            publish(folder, job.destination)
    return ExportedArtifact(
        target,
        manifest.status,
        program.inputs,
        program.outputs,
        lowered.plan,
        clock.seconds,
        job.destination.path,
        size,
        verdict,
        prepared.rewrites(target),
        memory,
        warnings,
        describe_outcome(manifest.quantization, compression, search, speed),
        None if search is None or search.chosen.holds else over_budget(target, search),
    )


def _check_lowered_signature(program: CapturedProgram, lowered: LoweredModule) -> None:
    """A delegate keeps the signature too, and every state tensor."""
    method = lowered.methods[0]
    if method.inputs != program.inputs or method.outputs != program.outputs:
        raise AssertionError(f"the delegate changed the signature of the program to {method}")
    if {state.name for state in method.state} != {state.name for state in program.state}:
        raise LoweringError(
            "the delegate dropped state that the model keeps between runs",
            why=f"the model has {[s.name for s in program.state]}, the result {[s.name for s in method.state]}",
        )


def _check_delegation(plan: PartitionPlan, settings: ExportSettings, target: str) -> tuple[str, ...]:
    """The gate of --min-delegation, or the warning that stands in for it."""
    share = plan.fraction if plan.work_fraction is None else plan.work_fraction
    kind = "operators" if plan.work_fraction is None else "work"
    left = ", ".join(f"{f.count} x {f.op} ({f.code}, {f.source or 'no line'})" for f in plan.fallbacks[:4])
    if settings.min_delegation is not None and share < settings.min_delegation:
        raise VerificationError(
            f"{target} takes {share:.0%} of the {kind}, --min-delegation asks for {settings.min_delegation:.0%}",
            why=f"left out: {left}",
            fix="try another --target, or lower --min-delegation",
        )
    if share < WARN_BELOW_DELEGATION:
        return (f"{target} takes {share:.0%} of the {kind}; left out: {left}",)
    return ()
