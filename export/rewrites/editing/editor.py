"""Edit a copy of an exported program: its graph, signature, weights and constants, in step with each other.

The copy shares every tensor and every fake tensor (`meta["val"]`, and with them the fake mode and the shape
environment) with the original; only nodes are new. The original is never changed.

```
editor = ProgramEditor(program)
weight = editor.add_constant("conv.weight_folded", tensor, val, is_parameter=True)
editor.node(conv).update_arg(1, weight)             # conv is a node of the original
program = editor.finish()
```
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import operator
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram, ModuleCallEntry
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.fx import Graph, Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import is_tuple
from edgex.export.rewrites.editing.mutation import mutated_nodes
from edgex.export.rewrites.editing.strides import reshape_views

_WEIGHT_KINDS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


def constant_tensors(program: CapturedProgram) -> dict[Node, torch.Tensor]:
    """The placeholders whose value never changes, with that value: parameters, buffers and constants.

    A buffer that the program mutates, itself or through a view, is not among them.
    """
    exported = program.exported
    state = {spec.name for spec in program.state}
    mutated = mutated_nodes(exported)
    found: dict[Node, torch.Tensor] = {}
    for node, spec in placeholders(exported):
        if spec.kind in _WEIGHT_KINDS and spec.target not in state and node not in mutated:
            found[node] = tensor_of(exported, spec)
    return found


def placeholders(exported: ExportedProgram) -> list[tuple[Node, InputSpec]]:
    """Each placeholder with its entry in the signature, in order."""
    nodes = exported.graph.find_nodes(op="placeholder")
    return list(zip(nodes, exported.graph_signature.input_specs, strict=True))


def signature_of(exported: ExportedProgram) -> list[tuple[str, str, str]]:
    """Kind, dtype and shape of each user input and user output in the graph, in order; a dynamic size is its symbol."""
    results = exported.graph.output_node().args[0]
    outputs = zip(results, exported.graph_signature.output_specs, strict=True)
    nodes = [("input", node) for node, spec in placeholders(exported) if spec.kind is InputKind.USER_INPUT]
    nodes += [("output", node) for node, spec in outputs if spec.kind is OutputKind.USER_OUTPUT]
    found = []
    for kind, node in nodes:
        value = node.meta.get("val") if isinstance(node, Node) else node
        if isinstance(value, torch.Tensor):
            found.append((kind, str(value.dtype), str(list(value.shape))))
        else:
            found.append((kind, type(value).__name__, ""))
    return found


def input_values(program: CapturedProgram, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """What the placeholders of a program are given in one run; nothing that it writes to is the program's own."""
    exported = program.exported
    given = iter(inputs)
    return [
        next(given).clone()
        if spec.kind is InputKind.USER_INPUT
        else tensor_of(exported, spec).detach()
        if spec.kind is InputKind.PARAMETER
        else tensor_of(exported, spec).detach().clone()
        for _, spec in placeholders(exported)
    ]


def tensor_of(exported: ExportedProgram, spec: InputSpec) -> torch.Tensor:
    """The tensor behind a parameter's, buffer's or constant's entry in the signature."""
    name = str(spec.target)
    tensor: Any = exported.state_dict[name] if name in exported.state_dict else exported.constants[name]
    assert isinstance(tensor, torch.Tensor)
    return tensor


class FakeMode:
    """The fake mode of the first fake tensor among some values, for `with`, any number of times; else nothing.

    What operators ask of dynamic sizes within it is answered for the example's, and nothing is concluded from it: a
    convolution asks for the batch, to choose a kernel of the tracing machine, and a range of 2 to 64 would end at 15.
    """

    def __init__(self, values: Iterable[Any]) -> None:
        self._mode = next((mode for value in values if (mode := getattr(value, "fake_mode", None)) is not None), None)
        self._open: list[contextlib.ExitStack] = []

    def convert(self, tensor: torch.Tensor) -> torch.Tensor:
        """A fake tensor of the same sizes and dtype; the tensor itself where nothing is fake."""
        if self._mode is None:
            return tensor
        fake: torch.Tensor = self._mode.from_tensor(tensor, static_shapes=True)
        return fake

    def __enter__(self) -> Any:
        with contextlib.ExitStack() as stack:
            if self._mode is not None:
                if self._mode.shape_env is not None:
                    stack.enter_context(self._mode.shape_env.suppress_guards())
                stack.enter_context(self._mode)
            self._open.append(stack.pop_all())
        return self._mode

    def __exit__(self, *raised: Any) -> None:
        self._open.pop().__exit__(*raised)


class ProgramEditor:
    """A copy of a program's graph under edit.

    Attributes:
        graph: The copy; edit it freely. Its nodes have the names of the original's.
    """

    def __init__(self, program: CapturedProgram) -> None:
        exported = program.exported
        self._program = program
        self.graph: Graph = copy.deepcopy(exported.graph)
        self._copies: dict[Node, Node] = dict(zip(exported.graph.nodes, self.graph.nodes, strict=True))
        for original, node in self._copies.items():
            # A copy may not be called like a builtin (`input`), torch.export's placeholders may.
            node.name = original.name
            if node.op == "placeholder":
                node.target = original.target
        self._specs = {node.name: spec for node, spec in placeholders(exported)}
        self._state_dict = dict(exported.state_dict)
        self._constants = dict(exported.constants)
        self._attributes = {
            str(node.target): operator.attrgetter(str(node.target))(exported.graph_module)
            for node in self.graph.find_nodes(op="get_attr")
        }

    def node(self, original: Node) -> Node:
        """The copy of a node of the original graph."""
        return self._copies[original]

    def spec(self, placeholder: Node) -> InputSpec:
        """The signature's entry for a placeholder of the copy."""
        return self._specs[placeholder.name]

    def add_constant(self, name: str, tensor: torch.Tensor, val: Any, *, is_parameter: bool) -> Node:
        """Add a placeholder for a new tensor.

        Args:
            name: Wished name in the state dict; a suffix is added where it is taken, and where it is the name of a
                method of modules (`to`): torch registers the tensor as a module's attribute.
            tensor: Its value, kept as it is.
            val: Its fake tensor, in the program's fake mode.
            is_parameter: Whether parameters went into it; else it becomes a lifted constant.
        """
        name = self._free_name(name)
        kind = InputKind.PARAMETER if is_parameter else InputKind.CONSTANT_TENSOR
        if is_parameter:
            self._state_dict[name] = torch.nn.Parameter(tensor.detach(), requires_grad=False)
        else:
            self._constants[name] = tensor.detach()
        # The signature's order is parameters, buffers, constants, user inputs.
        before = (InputKind.PARAMETER,) if is_parameter else _WEIGHT_KINDS
        successor = next(
            (n for n in self.graph.nodes if n.op != "placeholder" or self._specs[n.name].kind not in before),
        )
        with self.graph.inserting_before(successor):
            # A module's name may hold anything (`block1-0`), a variable in torch's code may not.
            node = self.graph.placeholder(f"{'p' if is_parameter else 'c'}_{re.sub(r'[^0-9A-Za-z_]', '_', name)}")
        node.meta["val"] = val.detach()
        self._specs[node.name] = InputSpec(kind, TensorArgument(node.name), name)
        return node

    def new_constants(self) -> frozenset[str]:
        """Names of the lifted constants that were added."""
        return frozenset(self._constants) - frozenset(self._program.exported.constants)

    def add_attribute(self, name: str, value: Any) -> str:
        """Give the graph module an attribute (a submodule); returns the name that `get_attr` must use."""
        name = first_free_name(name, {target.split(".")[0] for target in self._attributes})
        self._attributes[name] = value
        return name

    def attribute(self, node: Node) -> Any:
        """What a `get_attr` node of the copy refers to."""
        return self._attributes[str(node.target)]

    def replace_tensors(self, new: Mapping[int, torch.Tensor]) -> None:
        """Give weights other values under their old names; `meta["val"]` is the caller's.

        Args:
            new: By the identity (`id`) of the old tensor, which tied weights share.
        """
        for store in (self._state_dict, self._constants):
            for name, old in store.items():
                if id(old) in new:
                    tensor = new[id(old)].detach()
                    is_parameter = isinstance(old, torch.nn.Parameter)
                    store[name] = torch.nn.Parameter(tensor, requires_grad=False) if is_parameter else tensor

    def finish(self, **changes: Any) -> CapturedProgram:
        """Drop what nothing uses any more, and build and check the new program.

        Args:
            changes: Other fields of the CapturedProgram that change.
        """
        exported = self._program.exported
        reshape_views(self._copies, functools.cache(lambda: mutated_nodes(self._program.exported)))
        self.graph.eliminate_dead_code()  # leaves what writes, draws random numbers or checks
        removed = self._drop_unused()
        output_specs = self._output_specs(exported.graph_signature)
        # A submodule's own signature names inner nodes, which may be gone; the model's is that of the program.
        calls = [ModuleCallEntry(call.fqn, None if call.fqn else call.signature) for call in exported.module_call_graph]
        input_specs = [self._specs[node.name] for node in self.graph.find_nodes(op="placeholder")]
        new = ExportedProgram(
            root=self._attributes,
            graph=self.graph,
            graph_signature=ExportGraphSignature(input_specs, output_specs),
            state_dict={name: tensor for name, tensor in self._state_dict.items() if id(tensor) not in removed},
            range_constraints=dict(exported.range_constraints),
            module_call_graph=calls,
            example_inputs=exported.example_inputs,
            constants={name: tensor for name, tensor in self._constants.items() if id(tensor) not in removed},
            verifiers=exported.verifiers,
        )
        new.graph_module.meta.update(exported.graph_module.meta)
        return dataclasses.replace(self._program, exported=new, **changes)

    def _drop_unused(self) -> set[int]:
        """Erase placeholders of weights that nothing uses; the ids of the tensors that went with them.

        Identity is compared, not names: tied weights have several names in the state dict.
        """
        kept: set[int] = set()
        dropped: set[int] = set()
        carried = {spec.name for spec in self._program.state}
        carried |= {
            str(spec.target)
            for spec in self._program.exported.graph_signature.output_specs
            if spec.kind in (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION)
        }
        for node in self.graph.find_nodes(op="placeholder"):
            spec = self._specs[node.name]
            if spec.kind not in _WEIGHT_KINDS:
                continue
            name = str(spec.target)
            tensor = self._state_dict[name] if name in self._state_dict else self._constants[name]
            if node.users or name in carried:
                kept.add(id(tensor))
            else:
                dropped.add(id(tensor))
                self.graph.erase_node(node)
                del self._specs[node.name]
        return dropped - kept

    def _output_specs(self, signature: ExportGraphSignature) -> list[OutputSpec]:
        """The old entries, each with the name of the node that gives it now."""
        specs = []
        values = self.graph.output_node().args[0]
        assert is_tuple(values)
        for spec, value in zip(signature.output_specs, values, strict=True):
            arg = TensorArgument(value.name) if isinstance(spec.arg, TensorArgument) else copy.copy(spec.arg)
            specs.append(OutputSpec(spec.kind, arg, spec.target))
        return specs

    def _free_name(self, name: str) -> str:
        taken = self._state_dict.keys() | self._constants.keys()
        return first_free_name(f"{name}_0" if hasattr(torch.fx.GraphModule, name.split(".")[-1]) else name, taken)


def first_free_name(name: str, taken: Collection[str]) -> str:
    """The name, with a number behind it where it is taken."""
    candidate, number = name, 0
    while candidate in taken:
        number += 1
        candidate = f"{name}_{number}"
    return candidate
