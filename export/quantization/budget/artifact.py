"""What is said of a quantized artifact beside its proof: its speed beside float32, and a report of what it became."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from edgex.errors import EdgexError, VerificationError
from edgex.export.packaging.package import trial_folder
from edgex.export.packaging.stage import Package, write_native

if TYPE_CHECKING:
    from edgex.export.quantization.budget.search import BudgetSearch
    from edgex.export.quantization.budget.speed import SpeedCheck
    from edgex.export.settings import ExportSettings
    from edgex.export.target_model import Progress, TargetModel


def check_speed(
    package: Package, settings: ExportSettings, progress: Progress
) -> tuple[SpeedCheck | None, tuple[str, ...]]:
    """Time the artifact beside the same model lowered in floating point; the warnings that follow.

    Raises:
        VerificationError: The user requires that it is faster, and it is not, or that cannot be timed here.
    """
    from edgex.export.quantization.budget.speed import time_against_float

    model = package.model
    if package.lowered.assembled_reason is not None:
        return _untimed(model.target, settings, f"not timed against float32: {package.lowered.assembled_reason}")
    if package.lowered.simulator is not None:
        return _untimed(model.target, settings, "not timed against float32: a simulator's times are not the device's")
    if model.others:
        which = "sizes" if model.source.by_size else "methods"
        return _untimed(model.target, settings, f"not timed against float32: the artifact has several {which}")
    progress("time", f"{model.target} against its float32 sibling")
    program = replace(model.rewritten.program, recipe=None, float_modules=frozenset())
    plain = replace(model, rewritten=replace(model.rewritten, program=program), quantized=None)
    with trial_folder(model.job.destination) as sibling:
        try:
            other = model.job.delegate.lower(program, model.job.options)
        except EdgexError as error:
            reason = f"not timed against float32, which {model.target} does not take: {error.what}"
            return _untimed(model.target, settings, reason)
        write_native(sibling, plain, other, replace(settings, quantize=None, group_size=None), None)
        speed = time_against_float(package.folder, sibling, model.cases[0].steps[0].inputs)
    if settings.require_speedup and speed.verdict != "faster":
        raise VerificationError(
            f"{model.target}: the quantized artifact is not faster than float32",
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


def report_compression(model: TargetModel) -> dict[str, Any] | None:
    """The compression report; None where the delegate quantizes as it lowers, nothing is, or for several methods."""
    if model.quantized is None or model.others:
        return None
    from edgex.export.quantization.budget.compression import describe_compression

    held_out = [sample for _, sample in model.quantized.reference.held_out]
    return describe_compression(model.quantized.quantized, [model.eager.example, *held_out])


def with_accuracy(quantization: Mapping[str, Any] | None, search: BudgetSearch | None) -> Mapping[str, Any] | None:
    """The manifest's `quantization` with what a budget came to."""
    if quantization is None or search is None:
        return quantization
    return {**quantization, "accuracy": search.to_manifest()}


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
