"""State that the methods of an artifact share: one name for each tensor, and known to whoever reads it.

A method that writes a buffer shows that in its program. One that only reads it does not: there it looks like a weight,
which an engine may fold or pack. So it gets a write of its own that changes nothing:

```
prefill:  self.keys[:, places] = keys                      writes `keys`, which is state
decode:   scores = query @ self.keys.transpose(1, 2)       before
          self.keys.copy_(self.keys)                       added; no engine executes it
```
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch.export.graph_signature import InputKind

from edgex.runtime.artifact.specs import StateSpec

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from edgex.export.target_model import CapturedModel


def share_state(models: Sequence[CapturedModel]) -> tuple[CapturedModel, ...]:
    """The methods, with state of one name where it is one tensor, and of two where it is not.

    Args:
        models: As they were captured; their programs are changed.
    """
    tensors = [_buffers_of(model) for model in models]
    kept = {
        id(own[spec.name]): spec
        for own, model in zip(tensors, models, strict=True)
        for spec in model.capture.program.state
    }
    if not kept:
        return tuple(models)
    names = _name_state(models, tensors)
    shared = []
    for model, own in zip(models, tensors, strict=True):
        exported = model.capture.program.exported
        written = {spec.name for spec in model.capture.program.state}
        state = []
        renamed = {}
        for name, read in list(_read_buffers(exported)):
            spec = kept.get(id(own.get(name)))
            if spec is None or not (name in written or read):
                continue
            renamed[name] = names[id(own[name])]
            if name not in written:
                _write_back(exported, name)
            state.append(StateSpec(renamed[name], spec.dtype, spec.shape))
        _rename(exported, renamed)
        capture = replace(model.capture, program=replace(model.capture.program, state=tuple(state)))
        capture.eager.reset_with([other.capture.eager for other in models])
        shared.append(replace(model, capture=capture))
    return tuple(shared)


def _buffers_of(model: CapturedModel) -> Mapping[str, torch.Tensor]:
    """All buffers of a method's module, by each of their names."""
    module = model.capture.eager.module
    return dict(module.named_buffers(remove_duplicate=False)) if isinstance(module, torch.nn.Module) else {}


def _read_buffers(exported: ExportedProgram) -> Iterator[tuple[str, bool]]:
    """The program's buffers, and whether something reads or writes each."""
    nodes = {node.name: node for node in exported.graph.nodes}
    for spec in exported.graph_signature.input_specs:
        if spec.kind is InputKind.BUFFER:
            yield str(spec.target), bool(nodes[spec.arg.name].users)


def _name_state(models: Sequence[CapturedModel], tensors: Sequence[Mapping[str, torch.Tensor]]) -> dict[int, str]:
    """A name for each state tensor that means no other tensor in any method: the first method's, or one after it."""
    signatures = [model.capture.program.exported.graph_signature for model in models]
    taken: list[dict[str, torch.Tensor | None]] = [
        {**{str(spec.target): None for spec in signature.input_specs}, **own}
        for signature, own in zip(signatures, tensors, strict=True)
    ]
    names: dict[int, str] = {}
    for model, buffers in zip(models, tensors, strict=True):
        for spec in model.capture.program.state:
            tensor = buffers[spec.name]
            if id(tensor) in names:
                continue
            wanted = spec.name
            while wanted in names.values() or any(own[wanted] is not tensor for own in taken if wanted in own):
                wanted = f"{model.source.method}.{wanted}"
            names[id(tensor)] = wanted
    return names


def _write_back(exported: ExportedProgram, name: str) -> None:
    """Write a buffer's own value into it, at the end of the program; and own the value."""
    placeholder = _placeholder_of(exported, name)
    with exported.graph.inserting_before(exported.graph.output_node()):
        written = exported.graph.call_function(torch.ops.aten.copy_.default, (placeholder, placeholder))
    written.meta = {key: value for key, value in placeholder.meta.items() if key in ("val", "tensor_meta")}
    exported.graph_module.recompile()
    home = exported.state_dict if name in exported.state_dict else exported.constants
    # Running eager must not change what is lowered.
    home[name] = home[name].clone()


def _placeholder_of(exported: ExportedProgram, name: str) -> torch.fx.Node:
    (found,) = [spec.arg.name for spec in exported.graph_signature.input_specs if spec.target == name]
    node: torch.fx.Node = next(node for node in exported.graph.nodes if node.name == found)
    return node


def _rename(exported: ExportedProgram, names: Mapping[str, str]) -> None:
    """Give buffers other names in the program's signature and among its tensors."""
    changed = {old: new for old, new in names.items() if old != new}
    signature = exported.graph_signature
    for spec in (*signature.input_specs, *signature.output_specs):
        if spec.target in changed and (spec.kind is InputKind.BUFFER or spec in signature.output_specs):
            spec.target = changed[spec.target]
    for home in (exported.state_dict, exported.constants):
        moved = {changed[name]: home.pop(name) for name in list(home) if name in changed}
        home.update(moved)
