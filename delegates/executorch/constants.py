"""Which inputs of an exported graph are constants: parameters, buffers that nothing changes, and lifted tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram


def constant_readers(program: ExportedProgram) -> dict[str, Callable[[], torch.Tensor]]:
    """For each placeholder that is a constant, by name, what gives its tensor; nothing is read yet."""
    signature = program.graph_signature
    changed = set(signature.buffers_to_mutate.values())
    names = {
        **signature.inputs_to_parameters,
        **{name: buffer for name, buffer in signature.inputs_to_buffers.items() if buffer not in changed},
        **signature.inputs_to_lifted_tensor_constants,
    }

    def reader(key: str) -> Callable[[], Any]:
        def read() -> Any:
            return program.state_dict[key] if key in program.state_dict else program.constants[key]

        return read

    return {name: reader(key) for name, key in names.items()}
