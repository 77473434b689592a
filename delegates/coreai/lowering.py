"""From a captured program to `model.aimodel`."""

from __future__ import annotations

from pathlib import Path

from edgex.delegates.base import CapturedProgram, LoweredModule
from edgex.delegates.coreai import conversion
from edgex.delegates.graph.composite_operators import composites_listed_once
from edgex.delegates.plan import PartitionPlan
from edgex.delegates.whole_lowering import WholeProgram, assess_whole, pack_whole
from edgex.delegates.whole_programs import refuse_program, refuse_signature
from edgex.runtime.artifact.manifest import Method, Requirements

ENGINE = "coreai"
MODEL_FOLDER = "model.aimodel"
# The only one whose files and runtime were tried: the format is a beta.
OLDEST_RUNTIME = "1.0.0b3"
TAKER = "coreai-torch"


def plan_program(program: CapturedProgram) -> PartitionPlan:
    """What `lower_program` would take and leave; weights may be fake tensors.

    Raises:
        LoweringError: The program cannot be decomposed.
    """
    with conversion.quiet(), composites_listed_once():
        return _assess(program).plan


def lower_program(program: CapturedProgram) -> LoweredModule:
    """Convert the program.

    Raises:
        LoweringError: Something in it is not converted; all of it is named.
    """
    with conversion.quiet():
        return _lower(program)


def _lower(program: CapturedProgram) -> LoweredModule:
    whole, method = _assess(program), program.method
    refusal = refuse_signature(TAKER, (*method.inputs, *method.outputs), ("float64",))
    if refusal is not None:
        raise refusal
    if whole.plan.fatal:
        raise refuse_program(TAKER, whole.plan)
    files = conversion.convert(whole.decomposed, whole.input_names(method), whole.output_names(method))

    def write(folder: Path) -> None:
        (folder / MODEL_FOLDER).mkdir()
        for name, content in files.items():
            (folder / MODEL_FOLDER / name).write_bytes(content)

    return pack_whole(
        program,
        whole,
        Requirements(ENGINE, OLDEST_RUNTIME),
        [f"{MODEL_FOLDER}/{name}" for name in files],
        write,
        _warn_of_integers(method),
    )


def _warn_of_integers(method: Method) -> tuple[str, ...]:
    """What 64-bit integers become."""
    wide = [spec.name for spec in (*method.inputs, *method.outputs) if spec.dtype == "int64"]
    if not wide:
        return ()
    return (f"Core AI has no 64-bit integers: {', '.join(wide)} cross as int32, and an input beyond it is refused",)


def _assess(program: CapturedProgram) -> WholeProgram:
    return assess_whole(
        program,
        conversion.decompose,
        conversion.find_unknown,
        why_unknown=f"{TAKER} has no conversion for it",
    )
