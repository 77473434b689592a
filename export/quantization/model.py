"""A quantized program with what converts it again, what it is compared with, and what is said of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from edgex.delegates.recipes.recipes import describe_recipe
from edgex.export.proof.verification import QuantizedReference
from edgex.export.quantization.calibration.samples import FEW_SAMPLES, Samples
from edgex.export.quantization.quantize import Calibrated
from edgex.export.quantization.quantized import Quantized
from edgex.export.quantization.running import GraphRunner
from edgex.runtime.report.figures import count


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
        return quantize_once(self.calibrated, modules)

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


def quantize_once(calibrated: Calibrated, keep_float: frozenset[str] = frozenset()) -> QuantizedModel:
    """Convert a calibrated program, some modules left in floating point.

    Raises:
        QuantizationError: The recipe does not fit the program.
    """
    quantized = calibrated.quantize(keep_float)
    samples = calibrated.samples
    held_out = () if samples is None or calibrated.borrowed else tuple(samples.held_out)
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
            f"calibrated on {count(samples.used, 'sample')}: below {FEW_SAMPLES}, ranges depend on which ones they are"
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
