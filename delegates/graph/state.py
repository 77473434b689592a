"""Mutated buffers become inputs and outputs, for formats without memory: ONNX, LiteRT, Core AI.

```
before   placeholders: weights…, cache (BUFFER), x (USER_INPUT)     outputs: cache' (BUFFER_MUTATION), y
after    placeholders: weights…, x, cache (both USER_INPUT)         outputs: y, cache' (both USER_OUTPUT)
```

Their converters alone drop the mutation without a word: the first run is right, the second is not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.retracing import retry_stale_symbols
from edgex.runtime.artifact.specs import StateSpec
from edgex.runtime.engines.state_file import STATE_FILE

if TYPE_CHECKING:
    from torch import Tensor
    from torch.export import ExportedProgram
    from torch.export.graph_signature import ExportGraphSignature

INPUT_PREFIX = "state_in."
OUTPUT_PREFIX = "state_out."


@dataclass(frozen=True)
class LiftedProgram:
    """A program without mutated buffers.

    Attributes:
        exported: Its user inputs are the model's, then one for each entry of `carried`; outputs likewise.
        state: All of the program's state, in the captured order; what is carried names its input and output.
        carried: The part of `state` that is carried, in the order of the added inputs and outputs; what is only read
            has no output.
        initial: The value of each carried tensor before the first run, by name.
    """

    exported: ExportedProgram
    state: tuple[StateSpec, ...]
    carried: tuple[StateSpec, ...]
    initial: dict[str, Tensor]


def lift_state(program: CapturedProgram, *, shared: bool = False) -> LiftedProgram:
    """Turn the program's state into user inputs and outputs; the program is not changed.

    Args:
        program: What has state.
        shared: Other methods may write what it only reads: that is an input, too, without an output.
    """
    if not program.state:
        return LiftedProgram(program.exported, (), (), {})
    # Only now do mutations show in the signature: a captured graph still holds `add_` and its like.
    functional = retry_stale_symbols(lambda: program.exported.run_decompositions({}))
    mutated = set(functional.graph_signature.buffers_to_mutate.values()) & {spec.name for spec in program.state}
    kept = _unchanged(functional)
    mutated -= set() if shared else kept
    # A buffer that the decomposed graph no longer writes keeps its value: it stays a constant of the model.
    state = tuple(
        StateSpec(s.name, s.dtype, s.shape, INPUT_PREFIX + s.name, None if s.name in kept else OUTPUT_PREFIX + s.name)
        if s.name in mutated
        else s
        for s in program.state
    )
    carried = tuple(spec for spec in state if spec.input is not None)
    source = {**functional.constants, **functional.state_dict}
    initial = {spec.name: source[spec.name] for spec in carried}
    return LiftedProgram(_rewrite(functional, carried), state, carried, initial)


def _unchanged(functional: ExportedProgram) -> set[str]:
    """Buffers whose new value is the old one: a method reads what another writes (see `edgex.export.methods.state`)."""
    signature = functional.graph_signature
    placeholders = {buffer: name for name, buffer in signature.inputs_to_buffers.items()}
    return {buffer for new, buffer in signature.buffers_to_mutate.items() if placeholders.get(buffer) == new}


def _rewrite(functional: ExportedProgram, carried: Sequence[StateSpec]) -> ExportedProgram:
    """The program with the carried buffers' placeholders and new values moved to the ends of inputs and outputs."""
    from torch.export import ExportedProgram

    names = [spec.name for spec in carried]
    signature = _lifted_signature(functional, names, [spec.name for spec in carried if spec.output is not None])
    module = functional.graph_module
    graph = module.graph
    nodes = {node.name: node for node in graph.nodes}
    body = next(node for node in graph.nodes if node.op != "placeholder")
    for spec in signature.input_specs:
        body.prepend(nodes[spec.arg.name])
    returned = dict(
        zip((s.arg.name for s in functional.graph_signature.output_specs), _output_args(graph), strict=True)
    )
    graph.output_node().args = (tuple(returned[spec.arg.name] for spec in signature.output_specs),)
    module.recompile()
    return ExportedProgram(
        module,
        graph,
        signature,
        {key: value for key, value in functional.state_dict.items() if key not in names},
        functional.range_constraints,
        [_flat_call(signature)],
        None,
        {key: value for key, value in functional.constants.items() if key not in names},
    )


def _output_args(graph: Any) -> tuple[Any, ...]:
    return tuple(graph.output_node().args[0])


def _lifted_signature(functional: ExportedProgram, names: list[str], changed: list[str]) -> ExportGraphSignature:
    from torch.export.graph_signature import ExportGraphSignature, InputKind, InputSpec, OutputKind, OutputSpec

    old = functional.graph_signature
    inputs = [s for s in old.input_specs if not (s.kind is InputKind.BUFFER and s.target in names)]
    outputs = [s for s in old.output_specs if s.kind is not OutputKind.BUFFER_MUTATION]
    placeholder_of = {s.target: s for s in old.input_specs if s.kind is InputKind.BUFFER}
    new_value_of = {s.target: s for s in old.output_specs if s.kind is OutputKind.BUFFER_MUTATION}
    inputs += [InputSpec(InputKind.USER_INPUT, placeholder_of[name].arg, None) for name in names]
    outputs += [OutputSpec(OutputKind.USER_OUTPUT, new_value_of[name].arg, None) for name in changed]
    return ExportGraphSignature(inputs, outputs)


def _flat_call(signature: ExportGraphSignature) -> Any:
    """The calling convention of a program that takes and returns a flat tuple of tensors."""
    from torch.export import ModuleCallEntry, ModuleCallSignature
    from torch.export.graph_signature import InputKind, OutputKind

    from edgex.delegates.graph.torch_internals import pytree

    inputs = sum(spec.kind is InputKind.USER_INPUT for spec in signature.input_specs)
    outputs = sum(spec.kind is OutputKind.USER_OUTPUT for spec in signature.output_specs)
    in_spec, out_spec = pytree.tree_structure(((0,) * inputs, {})), pytree.tree_structure((0,) * outputs)
    return ModuleCallEntry("", ModuleCallSignature([], [], in_spec, out_spec))


def write_state(initial: Mapping[str, Tensor], folder: Path) -> None:
    """Write the initial values of the carried state as `state.safetensors`."""
    from safetensors.torch import save_file

    save_file({name: _as_stored(tensor) for name, tensor in initial.items()}, folder / STATE_FILE)


def _as_stored(tensor: Tensor) -> Tensor:
    """A clone: buffers may share memory or be strided, which safetensors refuses. NumPy has no bfloat16."""
    import torch

    value = tensor.detach().cpu().contiguous()
    return value.float() if value.dtype == torch.bfloat16 else value.clone()
