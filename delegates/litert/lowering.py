"""From a captured program to `model.tflite`.

```
lift_state -> decompose -> every operator known? -> convert -> file, state, source map
```
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgex.delegates.base import CapturedProgram, LoweredModule
from edgex.delegates.graph.composite_operators import composites_listed_once
from edgex.delegates.graph.provenance import is_operator
from edgex.delegates.graph.source_map import build_source_map
from edgex.delegates.graph.state import LiftedProgram, lift_state, write_state
from edgex.delegates.litert import conversion
from edgex.delegates.plan import PartitionPlan
from edgex.delegates.whole_programs import (
    Refusal,
    has_varying_size,
    plan_whole,
    refuse_dynamic,
    refuse_program,
    refuse_signature,
)
from edgex.errors import LoweringError
from edgex.runtime.artifact.manifest import Method, Requirements
from edgex.runtime.engines.state_file import STATE_FILE

if TYPE_CHECKING:
    from torch.export import ExportedProgram

ENGINE = "litert"
MODEL_FILE = "model.tflite"
# The oldest runtime whose kernels were tried with what the converter writes.
OLDEST_RUNTIME = "2.1"
TAKER = "litert-torch"
STATIC_ONLY = (
    "litert-torch converts static shapes only: google-ai-edge/litert-torch issue #870 is open, its pull request #1024 "
    "was closed unmerged"
)


@dataclass(frozen=True)
class _Assessment:
    plan: PartitionPlan
    lifted: LiftedProgram | None = None
    decomposed: ExportedProgram | None = None


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
    assessed = _assess(program)
    refusal = refuse_signature(TAKER, (*program.inputs, *program.outputs))
    if refusal is not None:
        raise refusal
    if assessed.plan.fatal:
        varies = any(left.code == "dynamic_shape" for left in assessed.plan.fatal)
        if varies and not all(spec.is_static for spec in program.inputs):
            raise refuse_dynamic(TAKER, STATIC_ONLY, program.inputs)
        raise refuse_program(TAKER, assessed.plan)
    lifted, decomposed = assessed.lifted, assessed.decomposed
    assert lifted is not None and decomposed is not None
    method = program.method
    content = conversion.convert(
        decomposed,
        [*(spec.name for spec in method.inputs), *(str(spec.input) for spec in lifted.carried)],
        quantized=program.recipe is not None,
        source_root=program.source_root,
    )

    def write(folder: Path) -> None:
        (folder / MODEL_FILE).write_bytes(content)
        if lifted.carried:
            write_state(lifted, folder)

    return LoweredModule(
        files=(MODEL_FILE, *((STATE_FILE,) if lifted.carried else ())),
        write=write,
        methods=(Method(method.name, method.inputs, method.outputs, lifted.state),),
        plan=assessed.plan,
        requirements=Requirements(ENGINE, OLDEST_RUNTIME),
        debug=build_source_map(program),
    )


def _assess(program: CapturedProgram) -> _Assessment:
    operators = [node for node in program.exported.graph.nodes if is_operator(node)]
    varying = {node for node in operators if has_varying_size(node)}
    if varying:
        why = Refusal("dynamic_shape", f"its size varies, and {STATIC_ONLY}")
        return _Assessment(plan_whole(operators, dict.fromkeys(varying, why), program.source_root))
    try:
        lifted = lift_state(program)
        decomposed = conversion.decompose(lifted.exported, quantized=program.recipe is not None)
    except LoweringError:
        raise
    except Exception as error:  # torch's passes raise anything
        raise LoweringError(
            "the program cannot be decomposed into the operators that litert-torch lowers",
            fix="export to another target: -t onnx-cpu",
            why=conversion.first_sentence(str(error)),
        ) from error
    refused = {
        node: Refusal("not_in_delegate", "litert-torch has no lowering for it")
        for node in conversion.find_unknown(decomposed)
    }
    nodes = [node for node in decomposed.graph.nodes if is_operator(node)]
    return _Assessment(plan_whole(nodes, refused, program.source_root), lifted, decomposed)
