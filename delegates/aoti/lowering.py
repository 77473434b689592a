"""From a captured program to `model.pt2`, a package of AOTInductor."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from edgex.delegates.aoti.compilation import MODEL_FILE, compile_package
from edgex.delegates.aoti.refusals import TAKER, find_foreign, refuse_compilation
from edgex.delegates.base import CapturedProgram, LoweredModule
from edgex.delegates.plan import PartitionPlan
from edgex.delegates.whole_lowering import WholeProgram, assess_whole, pack_whole
from edgex.delegates.whole_programs import refuse_program
from edgex.runtime.artifact.manifest import Requirements
from edgex.runtime.engines.aoti.consent import ENGINE, trust_code
from edgex.runtime.engines.aoti.machine import INSTRUCTION_SETS
from edgex.runtime.support.entry_points import installed_version


def plan_program(program: CapturedProgram) -> PartitionPlan:
    """What `lower_program` would take and leave; weights may be fake tensors."""
    return _assess(program).plan


def lower_program(program: CapturedProgram, compiler: str, instruction_set: str) -> LoweredModule:
    """Compile the program.

    Args:
        program: The program.
        compiler: Path of the C++ compiler.
        instruction_set: A key of `INSTRUCTION_SETS`.

    Raises:
        LoweringError: An operator belongs to another library, or TorchInductor or the compiler fails.
    """
    whole = _assess(program)
    if whole.plan.fatal:
        raise refuse_program(TAKER, whole.plan)
    try:
        package = compile_package(whole.decomposed, compiler, instruction_set)
    except Exception as error:  # TorchInductor's own, C++ compilers' and sympy's, of no common kind
        raise refuse_compilation(error, whole.decomposed, program.source_root) from error

    def write(folder: Path) -> None:
        (folder / MODEL_FILE).write_bytes(package.content)
        # It was compiled here, from the user's own program.
        trust_code(folder / MODEL_FILE)

    requirements = Requirements(ENGINE, _torch_version(), (*INSTRUCTION_SETS[instruction_set], *package.extras))
    return replace(pack_whole(program, whole, requirements, [MODEL_FILE], write), options={"isa": instruction_set})


def _torch_version() -> str:
    """Compiled code calls functions of torch that an older one may lack: `2.13`."""
    return ".".join(str(installed_version("torch")).split(".")[:2])


def _assess(program: CapturedProgram) -> WholeProgram:
    """TorchInductor decomposes by itself, and calls torch's own kernels for what it has no code for."""
    return assess_whole(
        program,
        lambda exported: exported,
        find_foreign,
        why_unknown=f"{TAKER} would call the library that defines it, which the package cannot bring",
    )
