"""One model at several fixed sizes, quantized with one set of ranges: those of the size that the calibration data has.

A range belongs to a value of the model and not to a size, and values have the same names at all sizes. So weights,
biases included, are the same bytes in every method, and nobody has to collect data of each size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from edgex.errors import QuantizationError, UsageError
from edgex.export.quantization.calibration.samples import find_calibration, read_sample
from edgex.export.quantization.model import quantize_once
from edgex.export.rewrites.stage import check_signature

if TYPE_CHECKING:
    from edgex.delegates.recipes.recipes import Recipe
    from edgex.export.settings import ExportSettings
    from edgex.export.target_model import CapturedModel, Progress, TargetModel


def find_calibrated_size(methods: Sequence[CapturedModel], settings: ExportSettings) -> int:
    """Which of the methods takes the calibration data's first sample; all samples must have its size.

    Raises:
        UsageError: None does.
    """
    source, eager = methods[0].source, methods[0].capture.eager
    data = find_calibration(settings.calibration, source, eager)
    sample = None if data.random else next(iter(data.open()), None)
    if sample is None:  # random data has any size, and no data is refused where it is gone through
        return 0
    label, refused = f"calibration sample 1 of {data.origin}", None
    for place, method in enumerate(methods):
        try:
            read_sample(sample, data.flat, label, method.capture.eager, {})
            return place
        except UsageError as error:
            refused = refused or error
    assert refused is not None
    raise UsageError(
        "the calibration data has none of the sizes",
        source.description,
        "name its size among --sizes too: all sizes take the ranges that are measured at it",
        why=refused.what,
    )


def quantize_other_size(model: TargetModel, calibrated: TargetModel, recipe: Recipe, progress: Progress) -> TargetModel:
    """A method with the ranges of another.

    Args:
        model: At its size, in floating point.
        calibrated: The same model at the size of the data, quantized.
        recipe: What it is quantized to.
        progress: Called with a stage and a detail.

    Raises:
        QuantizationError: It computes values at this size that it does not at the other.
    """
    program = model.rewritten.program
    rewritten = replace(model.rewritten, program=replace(program, recipe=recipe))
    if calibrated.quantized is None:
        return replace(model, rewritten=rewritten)
    progress("quantize", f"{recipe.name}, method {model.source.method}")
    made = calibrated.quantized.calibrated
    try:
        quantized = quantize_once(replace(made, program=program, ranges=dict(made.ranges), borrowed=True))
        check_signature(program, quantized.quantized.program)
    except QuantizationError as error:
        error.what = f"method {model.source.method}: {error.what}"
        raise
    return replace(model, rewritten=rewritten, quantized=quantized)


def join_sizes(
    methods: Sequence[Mapping[str, TargetModel]], calibrated: int, recipe: Recipe, progress: Progress
) -> tuple[dict[str, TargetModel], dict[str, QuantizationError]]:
    """All methods of each target, of which one is quantized already.

    Args:
        methods: By method, then by target.
        calibrated: Which method is quantized; targets that it could not be quantized for are not in it.
        recipe: What it is quantized to.
        progress: Called with a stage and a detail.

    Returns:
        The targets' models, the first method with the others; and why some cannot be quantized.
    """
    found: dict[str, TargetModel] = {}
    failed: dict[str, QuantizationError] = {}
    for target, own in methods[calibrated].items():
        try:
            first, *others = [
                own if place == calibrated else quantize_other_size(models[target], own, recipe, progress)
                for place, models in enumerate(methods)
            ]
        except QuantizationError as error:
            failed[target] = error
        else:
            found[target] = replace(first, others=tuple(others))
    return found, failed
