"""What is asked of a quantized artifact beside its proof: an accuracy budget, speed beside float32, a report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgex.errors import EdgexError, VerificationError
from edgex.export.packaging.manifest import make_manifest
from edgex.export.packaging.package import list_files, scratch_folder, write_manifest
from edgex.export.prepared import Prepared, Progress
from edgex.export.settings import ExportSettings, Job

if TYPE_CHECKING:
    from edgex.delegates.base import CapturedProgram, LoweredModule
    from edgex.export.quantization.budget.search import BudgetSearch
    from edgex.export.quantization.budget.speed import SpeedCheck


def meet_budget(
    job: Job, prepared: Prepared, settings: ExportSettings, progress: Progress
) -> tuple[Prepared, BudgetSearch]:
    """The target's program with as many layers in floating point as its accuracy budget needs.

    Raises:
        VerificationError: Nothing meets the budget, and the best is not to be kept.
    """
    from edgex.export.quantization.budget.budget import SearchSteps
    from edgex.export.quantization.budget.metric import choose_metric

    assert settings.max_drop is not None
    target = job.delegate.name
    proved, model = prepared.programs[target], prepared.quantized.get(target)
    held_out = () if model is None else [sample for _, sample in model.reference.held_out]
    progress("budget", f"{target}, eager float32")
    metric, baseline = choose_metric(prepared.source, prepared.eager, held_out)

    def assemble(program: CapturedProgram, folder: Path) -> None:
        lowered = job.delegate.lower(program, job.options)
        folder.mkdir(parents=True)
        lowered.write(folder)
        manifest = make_manifest(job, prepared, lowered, settings)
        write_manifest(folder, replace(manifest, files=list_files(folder, hashed=False)))

    example = prepared.cases[target][0].steps[0].inputs
    steps = SearchSteps(target, proved.program, model, prepared.eager, example, metric, baseline, assemble)
    with scratch_folder(job.destination) as scratch:
        search = steps.find_fewest(settings.max_drop, scratch, progress)
    if not search.chosen.holds and not settings.keep_best:
        raise over_budget(target, search)
    if search.kept:
        program, model = steps.keeping(frozenset(search.kept))
        if model is None:
            prepared = replace(prepared, programs={**prepared.programs, target: replace(proved, program=program)})
        else:
            prepared = replace(prepared, quantized={**prepared.quantized, target: model})
        prepared = replace(prepared, cases={**prepared.cases, target: prepared.cases_of(target, settings, progress)})
    return prepared, search


def over_budget(target: str, search: BudgetSearch) -> VerificationError:
    """The failure of a budget that nothing met."""
    from edgex.export.quantization.budget.budget import describe_shortfall

    return VerificationError(
        f"{target}: no artifact meets --max-drop {search.max_drop:g}",
        why=describe_shortfall(search),
        fix="allow more with --max-drop, use another --quantize recipe or --observer, give more calibration data, or "
        "save the best with --keep-best",
    )


def check_speed(
    job: Job,
    prepared: Prepared,
    settings: ExportSettings,
    folder: Path,
    lowered: LoweredModule,
    progress: Progress,
) -> tuple[SpeedCheck | None, tuple[str, ...]]:
    """Time the artifact against the same model lowered in floating point; the warnings that follow.

    Raises:
        VerificationError: The user requires that it is faster, and it is not, or that cannot be timed here.
    """
    from edgex.export.quantization.budget.speed import time_against_float

    target = job.delegate.name
    if lowered.assembled_reason is not None:
        return _untimed(target, settings, f"not timed against float32: {lowered.assembled_reason}")
    progress("time", f"{target} against its float32 sibling")
    program = replace(prepared.programs[target].program, recipe=None, float_modules=frozenset())
    plain = replace(settings, quantize=None, group_size=None)
    example = prepared.cases[target][0].steps[0].inputs
    with scratch_folder(job.destination) as sibling:
        try:
            other = job.delegate.lower(program, job.options)
        except EdgexError as error:
            return _untimed(target, settings, f"not timed against float32, which {target} does not take: {error.what}")
        sibling.mkdir(parents=True)
        other.write(sibling)
        manifest = replace(make_manifest(job, prepared, other, plain), quantization=None)
        write_manifest(sibling, replace(manifest, files=list_files(sibling, hashed=False)))
        speed = time_against_float(folder, sibling, example)
    if settings.require_speedup and speed.verdict != "faster":
        raise VerificationError(
            f"{target}: the quantized artifact is not faster than float32",
            why=speed.text,
            fix="leave --require-speedup out, or use another --quantize recipe",
        )
    return speed, ((speed.text,) if speed.verdict == "slower" else ())


def _untimed(target: str, settings: ExportSettings, reason: str) -> tuple[None, tuple[str, ...]]:
    """A warning; what nobody timed is not known to be faster."""
    if settings.require_speedup:
        raise VerificationError(
            f"{target}: nobody knows whether the quantized artifact is faster than float32",
            why=reason,
            fix="leave --require-speedup out",
        )
    return None, (reason,)


def describe_prepared(prepared: Prepared, target: str) -> dict[str, Any] | None:
    """The compression report; None where the delegate quantizes while it lowers, or nothing is quantized."""
    model = prepared.quantized.get(target)
    if model is None:
        return None
    from edgex.export.quantization.budget.compression import describe_compression

    held_out = [sample for _, sample in model.reference.held_out]
    return describe_compression(model.quantized, [prepared.eager.example, *held_out])


def describe_outcome(
    quantization: Mapping[str, Any] | None,
    compression: Mapping[str, Any] | None,
    search: BudgetSearch | None,
    speed: SpeedCheck | None,
) -> dict[str, Any] | None:
    """The report's `quantization`: the manifest's, with what was measured; times never enter an artifact."""
    if quantization is None:
        return None
    return {
        **quantization,
        "compression": compression,
        "budget": None if search is None else search.to_json(),
        "speed": None if speed is None else speed.to_json(),
    }
