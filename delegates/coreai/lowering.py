"""From a captured program to `model.aimodel`.

```
lift_state -> decompose -> every operator known? -> convert -> files, state, source map
```
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgex.delegates.base import CapturedProgram, LoweredModule
from edgex.delegates.coreai import conversion
from edgex.delegates.graph.composite_operators import composites_listed_once
from edgex.delegates.graph.provenance import is_operator
from edgex.delegates.graph.source_map import build_source_map
from edgex.delegates.graph.state import LiftedProgram, lift_state, write_state
from edgex.delegates.plan import PartitionPlan
from edgex.delegates.whole_programs import Refusal, plan_whole, refuse_program, refuse_signature
from edgex.errors import LoweringError
from edgex.runtime.artifact.manifest import Method, Requirements
from edgex.runtime.engines.state_file import STATE_FILE

if TYPE_CHECKING:
    from torch.export import ExportedProgram

ENGINE = "coreai"
MODEL_FOLDER = "model.aimodel"
# The only one whose files and runtime were tried: the format is a beta.
OLDEST_RUNTIME = "1.0.0b3"
TAKER = "coreai-torch"


@dataclass(frozen=True)
class _Assessment:
    plan: PartitionPlan
    lifted: LiftedProgram
    decomposed: ExportedProgram


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
    method, lifted = program.method, assessed.lifted
    refusal = refuse_signature(TAKER, (*method.inputs, *method.outputs), ("float64",))
    if refusal is not None:
        raise refusal
    if assessed.plan.fatal:
        raise refuse_program(TAKER, assessed.plan)
    files = conversion.convert(
        assessed.decomposed,
        [*(spec.name for spec in method.inputs), *(str(spec.input) for spec in lifted.carried)],
        [*(spec.name for spec in method.outputs), *(str(spec.output) for spec in lifted.carried)],
    )

    def write(folder: Path) -> None:
        (folder / MODEL_FOLDER).mkdir()
        for name, content in files.items():
            (folder / MODEL_FOLDER / name).write_bytes(content)
        if lifted.carried:
            write_state(lifted, folder)

    return LoweredModule(
        files=(*(f"{MODEL_FOLDER}/{name}" for name in files), *((STATE_FILE,) if lifted.carried else ())),
        write=write,
        methods=(Method(method.name, method.inputs, method.outputs, lifted.state),),
        plan=assessed.plan,
        requirements=Requirements(ENGINE, OLDEST_RUNTIME),
        debug=build_source_map(program),
        warnings=_warn_of_integers(method),
    )


def _warn_of_integers(method: Method) -> tuple[str, ...]:
    """What 64-bit integers become."""
    wide = [spec.name for spec in (*method.inputs, *method.outputs) if spec.dtype == "int64"]
    if not wide:
        return ()
    return (f"Core AI has no 64-bit integers: {', '.join(wide)} cross as int32, and an input beyond it is refused",)


def _assess(program: CapturedProgram) -> _Assessment:
    try:
        lifted = lift_state(program)
        decomposed = conversion.decompose(lifted.exported)
    except LoweringError:
        raise
    except Exception as error:  # torch's passes raise anything
        raise LoweringError(
            "the program cannot be decomposed into the operators that coreai-torch converts",
            fix="export to another target: -t onnx-cpu",
            why=conversion.first_sentence(str(error)),
        ) from error
    refused = {
        node: Refusal("not_in_delegate", "coreai-torch has no conversion for it")
        for node in conversion.find_unknown(decomposed)
    }
    nodes = [node for node in decomposed.graph.nodes if is_operator(node)]
    return _Assessment(plan_whole(nodes, refused, program.source_root), lifted, decomposed)
