"""The target `litert`: a `.tflite` model with static shapes, run by LiteRT on its XNNPACK delegate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edgex.delegates.base import Availability, CapturedProgram, LoweredModule
from edgex.delegates.plan import PartitionPlan
from edgex.delegates.recipes.quantizers import Quantizer, shared_quantizer
from edgex.delegates.whole_programs import WHOLE_REWRITES
from edgex.runtime.support.entry_points import installed_version

INSTALL_COMMAND = "pip install 'edgex-toolchain[litert]'"


@dataclass(frozen=True)
class LiteRtOptions:
    """The target `litert` has no options."""


class LiteRtDelegate:
    """Converts with litert-torch."""

    name = "litert"
    engine = "litert"
    options_type = LiteRtOptions
    precisions: tuple[str, ...] = ("fp32",)
    packages: tuple[str, ...] = ("torch", "litert-torch")
    recipes: tuple[str, ...] = ("int8",)
    # litert-torch writes no transposed convolution with padding.
    rewrites: tuple[str, ...] = (*WHOLE_REWRITES, "crop_transposed")

    def availability(self) -> Availability:
        """Whether torch, litert-torch and ai-edge-litert are installed; none of them is imported."""
        missing = [name for name in (*self.packages, "ai-edge-litert") if installed_version(name) is None]
        if missing:
            return Availability(False, f"not installed: {', '.join(missing)}", INSTALL_COMMAND)
        return Availability(True)

    def precision_refusal(self, precision: str) -> str:
        """Why a precision outside `precisions` is refused."""
        return (
            f"LiteRT's kernels on CPUs compute in float32: weights in {precision} would be converted back as they are "
            "loaded; use --precision fp32, or --quantize int8"
        )

    def recipe_refusal(self, recipe: str) -> str:
        """Why a recipe outside `recipes` is refused."""
        return f"{recipe} is written in operators that litert-torch does not lower; use --quantize int8"

    def peak_memory_factor(self, recipe: str | None) -> float:
        """Measured on 134 MB of linear layers: 3.4; `int8` is calibrated in PyTorch first; see `KnowsMemory`."""
        return 4.0 if recipe is None else 6.0

    def import_planner(self) -> None:
        """See `ImportsSlowly`."""
        from edgex.delegates.litert.conversion import quiet

        with quiet():
            pass

    def plan(self, program: CapturedProgram, options: LiteRtOptions) -> PartitionPlan:
        """Which operators litert-torch lowers; see `Delegate.plan`.

        Raises:
            LoweringError: The program cannot be decomposed.
        """
        from edgex.delegates.litert.lowering import plan_program

        return plan_program(program)

    def lower(self, program: CapturedProgram, options: LiteRtOptions) -> LoweredModule:
        """Convert to `model.tflite`; see `Delegate.lower`.

        Raises:
            LoweringError: Operators are not converted; all are named.
        """
        from edgex.delegates.litert.lowering import lower_program

        return lower_program(program)

    def lower_methods(self, programs: Mapping[str, CapturedProgram], options: LiteRtOptions) -> LoweredModule:
        """Convert each method to a signature of `model.tflite`; see `LowersMethods`.

        Raises:
            LoweringError: Operators of one of them are not converted; all are named.
        """
        from edgex.delegates.litert.lowering import lower_methods

        return lower_methods(programs)

    def quantizer(self, recipe: str) -> Quantizer | None:
        """The shared one for `int8`."""
        return shared_quantizer(recipe) if recipe in self.recipes else None
