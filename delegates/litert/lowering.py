"""From a captured program to `model.tflite`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from edgex.delegates.base import CapturedProgram, LoweredModule
from edgex.delegates.graph.composite_operators import composites_listed_once
from edgex.delegates.graph.provenance import is_operator
from edgex.delegates.graph.source_map import build_source_map
from edgex.delegates.litert import conversion
from edgex.delegates.plan import PartitionPlan, merge_plans
from edgex.delegates.whole_lowering import WholeProgram, assess_whole, pack_whole
from edgex.delegates.whole_programs import (
    Refusal,
    has_varying_size,
    plan_whole,
    refuse_dynamic,
    refuse_program,
    refuse_signature,
)
from edgex.runtime.artifact.manifest import Requirements

ENGINE = "litert"
MODEL_FILE = "model.tflite"
# The oldest runtime whose kernels were tried with what the converter writes.
OLDEST_RUNTIME = "2.1"
TAKER = "litert-torch"
STATIC_ONLY = (
    "litert-torch converts static shapes only: google-ai-edge/litert-torch issue #870 is open, its pull request #1024 "
    "was closed unmerged"
)


def plan_program(program: CapturedProgram) -> PartitionPlan:
    """What `lower_program` would take and leave; weights may be fake tensors.

    Raises:
        LoweringError: The program cannot be decomposed.
    """
    with conversion.quiet(), composites_listed_once():
        return _plan_varying(program) or _assess(program).plan


def lower_program(program: CapturedProgram) -> LoweredModule:
    """Convert the program.

    Raises:
        LoweringError: Something in it is not converted; all of it is named.
    """
    with conversion.quiet():
        return _lower(program)


def lower_methods(programs: Mapping[str, CapturedProgram]) -> LoweredModule:
    """Convert the methods of an artifact to one file, a signature each; LiteRT keeps equal weights once.

    Raises:
        LoweringError: Something in one of them is not converted; all of it is named.
    """
    with conversion.quiet():
        wholes = {name: _take(program) for name, program in programs.items()}
        quantized = any(program.recipe is not None for program in programs.values())
        content = conversion.convert(
            {name: (whole.decomposed, whole.input_names(programs[name].method)) for name, whole in wholes.items()},
            quantized=quantized,
            source_root=next(iter(programs.values())).source_root,
        )

    def write(folder: Path) -> None:
        (folder / MODEL_FILE).write_bytes(content)

    return LoweredModule(
        files=(MODEL_FILE,),
        write=write,
        methods=tuple(replace(program.method, name=name) for name, program in programs.items()),
        plan=merge_plans([whole.plan for whole in wholes.values()]),
        requirements=Requirements(ENGINE, OLDEST_RUNTIME),
        method_debug={name: build_source_map(program) for name, program in programs.items()},
    )


def _lower(program: CapturedProgram) -> LoweredModule:
    whole = _take(program)
    content = conversion.convert(
        {conversion.SIGNATURE: (whole.decomposed, whole.input_names(program.method))},
        quantized=program.recipe is not None,
        source_root=program.source_root,
    )

    def write(folder: Path) -> None:
        (folder / MODEL_FILE).write_bytes(content)

    return pack_whole(program, whole, Requirements(ENGINE, OLDEST_RUNTIME), [MODEL_FILE], write)


def _take(program: CapturedProgram) -> WholeProgram:
    """The program for the converter.

    Raises:
        LoweringError: Something in it is not converted; all of it is named.
    """
    refusal = refuse_signature(TAKER, (*program.inputs, *program.outputs))
    if refusal is not None:
        raise refusal
    varying = _plan_varying(program)
    if varying is not None:
        dynamic = not all(spec.is_static for spec in program.inputs)
        raise refuse_dynamic(TAKER, STATIC_ONLY, program.inputs) if dynamic else refuse_program(TAKER, varying)
    whole = _assess(program)
    if whole.plan.fatal:
        raise refuse_program(TAKER, whole.plan)
    return whole


def _plan_varying(program: CapturedProgram) -> PartitionPlan | None:
    """The plan of a program with sizes that vary, which is not even decomposed; None where all are fixed."""
    operators = [node for node in program.exported.graph.nodes if is_operator(node)]
    varying = {node for node in operators if has_varying_size(node)}
    if not varying:
        return None
    why = Refusal("dynamic_shape", f"its size varies, and {STATIC_ONLY}")
    return plan_whole(operators, dict.fromkeys(varying, why), program.source_root)


def _assess(program: CapturedProgram) -> WholeProgram:
    return assess_whole(
        program,
        partial(conversion.decompose, quantized=program.recipe is not None),
        conversion.find_unknown,
        why_unknown=f"{TAKER} has no lowering for it",
    )
