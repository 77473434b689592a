"""From a captured program to `model.pt2`, a package of AOTInductor.

```
lift_state -> every operator torch's own? -> compile -> package, state, source map
```
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edgex.delegates.aoti.compilation import MODEL_FILE, compile_package
from edgex.delegates.aoti.refusals import TAKER, find_foreign, refuse_compilation
from edgex.delegates.base import CapturedProgram, LoweredModule
from edgex.delegates.graph.provenance import is_operator
from edgex.delegates.graph.source_map import build_source_map
from edgex.delegates.graph.state import LiftedProgram, lift_state, write_state
from edgex.delegates.plan import PartitionPlan
from edgex.delegates.whole_programs import plan_whole, refuse_program
from edgex.errors import LoweringError
from edgex.runtime.artifact.manifest import Method, Requirements
from edgex.runtime.engines.aoti.consent import ENGINE, trust_code
from edgex.runtime.engines.aoti.machine import INSTRUCTION_SETS
from edgex.runtime.engines.state_file import STATE_FILE
from edgex.runtime.support.entry_points import installed_version


@dataclass(frozen=True)
class _Assessment:
    plan: PartitionPlan
    lifted: LiftedProgram


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
    assessed = _assess(program)
    method, lifted = program.method, assessed.lifted
    if assessed.plan.fatal:
        raise refuse_program(TAKER, assessed.plan)
    try:
        package = compile_package(lifted.exported, compiler, instruction_set)
    except Exception as error:  # TorchInductor's own, C++ compilers' and sympy's, of no common kind
        raise refuse_compilation(error, lifted.exported, program.source_root) from error

    def write(folder: Path) -> None:
        (folder / MODEL_FILE).write_bytes(package.content)
        # It was compiled here, from the user's own program.
        trust_code(folder / MODEL_FILE)
        if lifted.carried:
            write_state(lifted, folder)

    return LoweredModule(
        files=(MODEL_FILE, *((STATE_FILE,) if lifted.carried else ())),
        write=write,
        methods=(Method(method.name, method.inputs, method.outputs, lifted.state),),
        plan=assessed.plan,
        requirements=Requirements(ENGINE, _torch_version(), (*INSTRUCTION_SETS[instruction_set], *package.extras)),
        debug=build_source_map(program),
        options={"isa": instruction_set},
    )


def _torch_version() -> str:
    """Compiled code calls functions of torch that an older one may lack: `2.13`."""
    return ".".join(str(installed_version("torch")).split(".")[:2])


def _assess(program: CapturedProgram) -> _Assessment:
    try:
        lifted = lift_state(program)
    except LoweringError:
        raise
    except Exception as error:  # torch's passes raise anything
        raise refuse_compilation(error, program.exported, program.source_root) from error
    nodes = [node for node in lifted.exported.graph.nodes if is_operator(node)]
    return _Assessment(plan_whole(nodes, find_foreign(lifted.exported), program.source_root), lifted)
