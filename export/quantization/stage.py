"""The pipeline's fourth stage: one quantized program for all targets that ask for the same, and what is said of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from edgex.delegates.recipes.recipes import describe_recipe
from edgex.errors import QuantizationError
from edgex.export.proof.verification import QuantizedReference
from edgex.export.quantization.calibration import FEW_SAMPLES, Samples, find_calibration
from edgex.export.quantization.quantize import Calibrated
from edgex.export.quantization.quantized import Quantized
from edgex.export.quantization.running import GraphRunner
from edgex.export.rewrites.stage import check_signature

if TYPE_CHECKING:
    from edgex.delegates.recipes.quantizers import Quantizer
    from edgex.export.settings import ExportSettings
    from edgex.export.source.eager import EagerModel
    from edgex.export.source.source import ModelSource
    from edgex.export.target_model import CapturedModel, Progress, TargetModel

DEFAULT_OBSERVER = "histogram"


@dataclass(frozen=True)
class QuantizedModel:
    """What a target lowers under a recipe, and what is known about it.

    Attributes:
        calibrated: Converts again, with other modules in floating point.
        quantized: What it made first.
        reference: PyTorch running the quantized program, for the proof.
        warnings: What the user should know, a sentence each.
    """

    calibrated: Calibrated
    quantized: Quantized
    reference: QuantizedReference
    warnings: tuple[str, ...]

    def keeping(self, modules: frozenset[str]) -> QuantizedModel:
        """The same with these modules in floating point; nothing is calibrated again."""
        return _quantize(self.calibrated, modules)

    def to_json(self) -> dict[str, Any]:
        """The manifest's `quantization`."""
        samples = self.calibrated.samples
        return {
            **describe_recipe(self.calibrated.recipe),
            "observer": self.calibrated.observer if samples is not None else None,
            "calibration": None
            if samples is None
            else {
                "origin": samples.data.origin,
                "samples": samples.used,
                "held_out": len(samples.held_out),
                "random": samples.data.random,
            },
            "unquantized": [operator.to_json() for operator in self.quantized.unquantized],
        }


def quantize_for_targets(
    models: Mapping[str, TargetModel], captured: CapturedModel, settings: ExportSettings, progress: Progress
) -> tuple[dict[str, TargetModel], dict[str, QuantizationError]]:
    """Quantize for the targets whose delegate gives a quantizer; the others do it themselves while they lower.

    Args:
        models: The float model of each target.
        captured: The program of which all of these are rewrites.
        settings: Names recipe, observer, data, and number of samples.
        progress: Called with a stage and a detail.

    Returns:
        The models of the targets that can quantize this model, and why the others cannot. Without a recipe, what came.

    Raises:
        UsageError: The calibration data is missing or wrong.
    """
    recipe = settings.recipe
    if recipe is None:
        return dict(models), {}
    quantizers = {name: model.job.delegate.quantizer(recipe.name) for name, model in models.items()}
    observed = any(quantizer is not None and quantizer.observed for quantizer in quantizers.values())
    eager = captured.capture.eager
    samples = _open_samples(captured.source, eager, settings, progress) if observed else None
    common_values = frozenset(node.name for node in captured.capture.program.exported.graph.nodes)
    made: dict[tuple[int, Quantizer], QuantizedModel] = {}
    found: dict[str, TargetModel] = {}
    failed: dict[str, QuantizationError] = {}
    # Targets that share a program share what is wrong with it.
    errors: dict[tuple[int, Quantizer], QuantizationError] = {}
    for name, quantizer in quantizers.items():
        model = models[name]
        program = model.rewritten.program
        under_recipe = replace(model.rewritten, program=replace(program, recipe=recipe))
        if quantizer is None:
            found[name] = replace(model, rewritten=under_recipe)
            continue
        key = (id(program), quantizer)
        if key not in made and key not in errors:
            own = samples if quantizer.observed else None
            observer = settings.observer or DEFAULT_OBSERVER
            calibrated = Calibrated(program, recipe, quantizer, observer, own, progress=progress)
            # Targets ask for rewrites of their own. What these left alone has the range that was seen before.
            for (_, other), quantized in made.items():
                if other == quantizer:
                    ranges = quantized.calibrated.ranges
                    calibrated.ranges.update({value: ranges[value] for value in ranges.keys() & common_values})
            progress("quantize", recipe.name)
            try:
                made[key] = _quantize(calibrated)
                check_signature(program, made[key].quantized.program)
            except QuantizationError as error:
                errors[key] = error
        if key in errors:
            failed[name] = errors[key]
        else:
            found[name] = replace(model, rewritten=under_recipe, quantized=made[key])
    return found, failed


def _open_samples(source: ModelSource, eager: EagerModel, settings: ExportSettings, progress: Progress) -> Samples:
    data = find_calibration(settings.calibration, source, eager)

    def tell(number: int | None, samples: Samples) -> None:
        if number is not None:
            progress("calibrate", f"{data.origin}: sample {number}")
        else:
            # A stage of its own: a log shows one line a stage, and the number is known only now.
            held_out = f", {len(samples.held_out)} held out for the proof" if samples.held_out else ""
            progress("calibrated", f"on {samples.used} samples{held_out}")

    return Samples(data, eager, source.source_root, settings.calibration_samples, tell)


def _quantize(calibrated: Calibrated, keep_float: frozenset[str] = frozenset()) -> QuantizedModel:
    quantized = calibrated.quantize(keep_float)
    samples = calibrated.samples
    held_out = () if samples is None else tuple(samples.held_out)
    reference = QuantizedReference(GraphRunner(quantized.program), held_out)
    return QuantizedModel(calibrated, quantized, reference, _warnings(samples, quantized))


def _warnings(samples: Samples | None, quantized: Quantized) -> tuple[str, ...]:
    warnings = []
    if samples is not None and samples.data.random:
        warnings.append(
            "calibrated on random data: ranges are not those of real inputs, and the accuracy on these is unknown"
        )
    if samples is not None and samples.unbatched:
        names = ", ".join(samples.unbatched)
        warnings.append(f"the samples of {names} have no batch dimension: each row was taken as a batch of 1")
    if samples is not None and samples.used < FEW_SAMPLES:
        warnings.append(
            f"calibrated on {samples.used} samples: below {FEW_SAMPLES}, ranges depend on which ones they are"
        )
    # Products of two computed values are floating point in every model with attention: listed, but no news.
    if unusual := [item for item in quantized.unquantized if item.unusual]:
        first = unusual[0]
        more = f" and {len(unusual) - 1} more" if len(unusual) > 1 else ""
        warnings.append(
            f"left in floating point: {first.op} in {first.module or 'the model'} ({first.reason}){more}; "
            "the manifest lists all"
        )
    return tuple(warnings)
