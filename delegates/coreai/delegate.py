"""The target `coreai`: an `.aimodel` for Apple's Core AI, proved by its local runtime, which is a beta."""

from __future__ import annotations

from dataclasses import dataclass

from edgex.delegates.base import Availability, CapturedProgram, LoweredModule
from edgex.delegates.plan import PartitionPlan
from edgex.delegates.recipes.quantizers import Quantizer
from edgex.delegates.whole_programs import WHOLE_REWRITES
from edgex.runtime.support.entry_points import installed_version

INSTALL_COMMAND = "pip install --pre 'edgex-toolchain[coreai]'"


@dataclass(frozen=True)
class CoreAiOptions:
    """The target `coreai` has no options."""


class CoreAiDelegate:
    """Converts with coreai-torch."""

    name = "coreai"
    engine = "coreai"
    options_type = CoreAiOptions
    precisions: tuple[str, ...] = ("fp32", "fp16")
    packages: tuple[str, ...] = ("torch", "coreai-torch")
    recipes: tuple[str, ...] = ()
    rewrites: tuple[str, ...] = WHOLE_REWRITES

    def availability(self) -> Availability:
        """Whether torch, coreai-torch and coreai-core are installed; none of them is imported."""
        missing = [name for name in (*self.packages, "coreai-core") if installed_version(name) is None]
        if missing:
            return Availability(False, f"not installed: {', '.join(missing)}", INSTALL_COMMAND)
        return Availability(True)

    def precision_refusal(self, precision: str) -> str:
        """Why a precision outside `precisions` is refused."""
        return f"Core AI's runtime on CPUs was proved in fp32 and fp16, not in {precision}; use one of these"

    def recipe_refusal(self, recipe: str) -> str:
        """Why every recipe is refused."""
        return (
            f"{recipe} is written in operators that coreai-torch does not convert: it quantizes by its own package, "
            "whose results edgex does not prove; use --precision fp16"
        )

    def peak_memory_factor(self, recipe: str | None) -> float:
        """Measured on 134 MB of linear layers (6.5); see `KnowsMemory`."""
        return 7.0

    def import_planner(self) -> None:
        """See `ImportsSlowly`."""
        from edgex.delegates.coreai.conversion import quiet

        with quiet():
            pass

    def plan(self, program: CapturedProgram, options: CoreAiOptions) -> PartitionPlan:
        """Which operators coreai-torch converts; see `Delegate.plan`.

        Raises:
            LoweringError: The program cannot be decomposed.
        """
        from edgex.delegates.coreai.lowering import plan_program

        return plan_program(program)

    def lower(self, program: CapturedProgram, options: CoreAiOptions) -> LoweredModule:
        """Convert to `model.aimodel`; see `Delegate.lower`.

        Raises:
            LoweringError: Operators are not converted; all are named.
        """
        from edgex.delegates.coreai.lowering import lower_program

        return lower_program(program)

    def quantizer(self, recipe: str) -> Quantizer | None:
        """None: see `recipe_refusal`."""
        return None
