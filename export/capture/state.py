"""The state of a program: the buffers that it changes from run to run."""

from __future__ import annotations

from pathlib import Path

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from edgex.errors import CaptureError
from edgex.export.capture.diagnosis import causes as diagnosis
from edgex.export.capture.example_run import ExampleRun
from edgex.export.capture.mutation import find_written_placeholders
from edgex.runtime.artifact.specs import NUMPY_DTYPES, StateSpec


def find_state(program: ExportedProgram, example: ExampleRun, source_root: Path) -> tuple[StateSpec, ...]:
    """The buffers that the program changes, in the order in which the module declares them.

    The operators that write, and the buffers that eager's run touched, are two views of the same thing. Only where
    they differ is the program decomposed, which takes seconds on a large one, to know for sure.

    Raises:
        CaptureError: Something else than a buffer is changed, or torch.export lost a change that eager makes.
    """
    signature = program.graph_signature
    specs = {s.arg.name: s for s in signature.input_specs if s.kind != InputKind.USER_INPUT}
    written = find_written_placeholders(program.graph, program.graph_module)
    changed = [spec for name, spec in specs.items() if name in written]
    for spec in changed:
        if spec.kind != InputKind.BUFFER:
            raise diagnosis.explain_changed_constant(str(spec.target), spec.kind, written[spec.arg.name], source_root)
    found = {str(spec.target) for spec in changed} | set(signature.buffers_to_mutate.values())
    # A buffer shared by two modules has two names; the program knows it by one of them.
    first_names = {name: first for first, names in example.touched.items() for name in names}
    touched = set(example.touched)
    if {first_names.get(name, name) for name in found} != touched:
        with torch.no_grad():
            found = set(program.run_decompositions({}).graph_signature.buffers_to_mutate.values())
    lost = touched - {first_names.get(name, name) for name in found}
    if lost:
        raise diagnosis.explain_lost_state(sorted(lost), example.module, source_root)
    homes = {**program.constants, **program.state_dict}
    declared = [str(s.target) for s in specs.values() if s.kind == InputKind.BUFFER and s.target in found]
    return tuple(_spec_of(name, homes[name]) for name in declared)


def own_initial_values(program: ExportedProgram, state: tuple[StateSpec, ...], example: ExampleRun) -> None:
    """Give the program its own copy of the initial values: running eager must not change what is lowered."""
    for spec in state:
        home = program.state_dict if spec.name in program.state_dict else program.constants
        saved = example.buffers.value_of(spec.name)
        home[spec.name] = home[spec.name].clone() if saved is None else saved


def _spec_of(name: str, tensor: torch.Tensor) -> StateSpec:
    dtype = str(tensor.dtype).removeprefix("torch.")
    if dtype not in NUMPY_DTYPES:
        raise CaptureError(f"buffer {name} changes and has dtype {dtype}", fix=f"possible: {', '.join(NUMPY_DTYPES)}")
    return StateSpec(name, dtype, tuple(int(size) for size in tensor.shape))
