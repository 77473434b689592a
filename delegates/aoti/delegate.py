"""The target `aoti`: AOTInductor's `.pt2`, compiled for x86-64 PCs and servers, run by torch's own loader."""

from __future__ import annotations

from dataclasses import dataclass

from edgex.delegates.aoti.compilation import find_compiler
from edgex.delegates.base import Availability, CapturedProgram, LoweredModule
from edgex.delegates.plan import PartitionPlan
from edgex.delegates.recipes.quantizers import Quantizer
from edgex.errors import TargetUnavailable, nearest_name
from edgex.runtime.engines.aoti.machine import INSTRUCTION_SETS, check_machine
from edgex.runtime.engines.isa import missing_isa
from edgex.runtime.support.entry_points import installed_version

NATIVE = "native"


@dataclass(frozen=True)
class AotiOptions:
    """How to compile.

    Attributes:
        isa: `native`: the widest vectors of this machine; `avx2`: runs on any x86-64 processor since about 2015;
            `avx512`.
    """

    isa: str = NATIVE


class AotiDelegate:
    """Compiles the whole program with TorchInductor and the user's C++ compiler."""

    name = "aoti"
    engine = "aoti"
    options_type = AotiOptions
    precisions: tuple[str, ...] = ("fp32", "bf16")
    packages: tuple[str, ...] = ("torch",)
    recipes: tuple[str, ...] = ()

    def availability(self) -> Availability:
        """Whether torch, the machine and a C++ compiler are there; torch is not imported."""
        if installed_version("torch") is None:
            return Availability(False, "not installed: torch", "pip install 'edgex-toolchain[aoti]'")
        machine = check_machine()
        if machine.available and find_compiler() is None:
            return Availability(False, "no C++ compiler, which TorchInductor writes for", "sudo apt install g++")
        return machine

    def precision_refusal(self, precision: str) -> str:
        """Why a precision outside `precisions` is refused."""
        return f"TorchInductor's code for CPUs was proved in fp32 and bf16, not in {precision}; use one of these"

    def recipe_refusal(self, recipe: str) -> str:
        """Why every recipe is refused."""
        return (
            f"TorchInductor would run {recipe} in float, as it has kernels for the patterns of its own quantizer only, "
            "which edgex does not prove; use -t onnx-cpu or -t xnnpack for it"
        )

    def options_refusal(self, options: AotiOptions, precision: str, recipe: str | None) -> str | None:
        """Why there is no such instruction set, or not here."""
        if options.isa == NATIVE:
            return None
        if options.isa not in INSTRUCTION_SETS:
            return f"isa={options.isa} is unknown: {nearest_name(options.isa, (NATIVE, *INSTRUCTION_SETS))}"
        missing = missing_isa(INSTRUCTION_SETS[options.isa])
        if missing:
            return f"isa={options.isa} cannot be proved here: the processor lacks {', '.join(missing)}; use isa=avx2"
        return None

    def peak_memory_factor(self, recipe: str | None) -> float:
        """Measured on 134 MB of linear layers (5.5), compilers included; see `KnowsMemory`."""
        return 6.0

    def plan(self, program: CapturedProgram, options: AotiOptions) -> PartitionPlan:
        """All of it or nothing; see `Delegate.plan`. What TorchInductor fails on shows in `lower` only."""
        from edgex.delegates.aoti.lowering import plan_program

        return plan_program(program)

    def lower(self, program: CapturedProgram, options: AotiOptions) -> LoweredModule:
        """Compile to `model.pt2`, which takes ten seconds and more; see `Delegate.lower`.

        Raises:
            TargetUnavailable: There is no C++ compiler.
            LoweringError: Something in it does not compile.
        """
        from edgex.delegates.aoti.lowering import lower_program

        compiler = find_compiler()
        if compiler is None:
            missing = self.availability()
            raise TargetUnavailable(str(missing.reason), fix=missing.fix)
        return lower_program(program, compiler, _choose_isa(options.isa))

    def quantizer(self, recipe: str) -> Quantizer | None:
        """None: see `recipe_refusal`."""
        return None


def _choose_isa(wanted: str) -> str:
    if wanted != NATIVE:
        return wanted
    return next(name for name, needed in INSTRUCTION_SETS.items() if not missing_isa(needed))
