"""For targets whose converter takes a program whole: what it gets of a captured program, and what is made of its files.

```
lift_state -> decompose -> every operator known? -> convert (the target's own) -> files, state, source map
```
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgex.delegates.base import CapturedProgram, LoweredModule
from edgex.delegates.graph.provenance import is_operator
from edgex.delegates.graph.source_map import build_source_map
from edgex.delegates.graph.state import LiftedProgram, lift_state, write_state
from edgex.delegates.plan import PartitionPlan
from edgex.delegates.whole_programs import Refusal, first_sentence, plan_whole
from edgex.errors import LoweringError
from edgex.runtime.artifact.manifest import Method, Requirements
from edgex.runtime.engines.state_file import STATE_FILE

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node


@dataclass(frozen=True)
class WholeProgram:
    """A program in the operators that a converter knows.

    Attributes:
        lifted: Mutated buffers are inputs and outputs after the user's own.
        decomposed: What the converter reads.
        plan: All of it, or nothing and why.
    """

    lifted: LiftedProgram
    decomposed: ExportedProgram
    plan: PartitionPlan

    def input_names(self, method: Method) -> list[str]:
        """Names of the program's inputs in order, those of the state last."""
        return [*(spec.name for spec in method.inputs), *(str(spec.input) for spec in self.lifted.carried)]

    def output_names(self, method: Method) -> list[str]:
        """Names of the program's outputs in order, those of the state last."""
        return [*(spec.name for spec in method.outputs), *(str(spec.output) for spec in self.lifted.carried)]


def assess_whole(
    program: CapturedProgram,
    decompose: Callable[[ExportedProgram], ExportedProgram],
    find_unknown: Callable[[ExportedProgram], Sequence[Node]],
    *,
    why_unknown: str,
) -> WholeProgram:
    """Bring a program into a converter's operators, and ask which of them it does not know.

    Args:
        program: The captured program; weights may be fake tensors.
        decompose: Into the operators that the converter reads.
        find_unknown: Those of them that it does not convert.
        why_unknown: The reason for each of these, for example `litert-torch has no lowering for it`.

    Raises:
        LoweringError: The program cannot be decomposed.
    """
    try:
        lifted = lift_state(program)
        decomposed = decompose(lifted.exported)
    except LoweringError:
        raise
    except Exception as error:  # torch's passes raise anything
        raise LoweringError(
            f"the program cannot be decomposed into the operators that {why_unknown.partition(' ')[0]} converts",
            fix="export to another target: -t onnx-cpu",
            why=first_sentence(str(error)),
        ) from error
    refused = {node: Refusal("not_in_delegate", why_unknown) for node in find_unknown(decomposed)}
    nodes = [node for node in decomposed.graph.nodes if is_operator(node)]
    return WholeProgram(lifted, decomposed, plan_whole(nodes, refused, program.source_root))


def pack_whole(
    program: CapturedProgram,
    whole: WholeProgram,
    requirements: Requirements,
    files: Sequence[str],
    write_model: Callable[[Path], None],
    warnings: tuple[str, ...] = (),
) -> LoweredModule:
    """The converter's files with the state, the methods and the source map beside them.

    Args:
        program: What was converted.
        whole: Its form for the converter.
        requirements: The engine and its oldest version.
        files: Paths that `write_model` writes, inside the artifact.
        write_model: Writes them into a folder.
        warnings: What the user should know, a sentence each.
    """
    method, lifted = program.method, whole.lifted

    def write(folder: Path) -> None:
        write_model(folder)
        if lifted.carried:
            write_state(lifted.initial, folder)

    return LoweredModule(
        files=(*files, *((STATE_FILE,) if lifted.carried else ())),
        write=write,
        methods=(Method(method.name, method.inputs, method.outputs, lifted.state),),
        plan=whole.plan,
        requirements=requirements,
        debug=build_source_map(program),
        warnings=warnings,
    )
