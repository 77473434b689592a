"""A captured program as the graph module that PT2E works on, and back.

```
program   constants, state and inputs are placeholders         what torch.export makes
module    constants are attributes, state and inputs placeholders
```

Constants become attributes, since PT2E finds and folds weights there. State stays a placeholder: as an attribute, the
quantized value of a buffer that the model changes would be folded into a constant.
"""

from __future__ import annotations

import dataclasses
import operator
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram, ModuleCallEntry
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputSpec,
    TensorArgument,
)
from torch.fx import Graph, GraphModule, Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.provenance import is_conversion, module_path_of
from edgex.delegates.graph.schema import is_tuple, leaves_of
from edgex.export.rewrites.editing.editor import (
    FakeMode,
    constant_tensors,
    first_free_name,
    placeholders,
    tensor_of,
)

_CONSTANT = "edgex_constant_{}"
_ORDER = list(dict.fromkeys([InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR, *InputKind]))


def open_program(program: CapturedProgram) -> GraphModule:
    """A graph module with the program's constants as attributes `edgex_constant_<n>`.

    Args:
        program: It is not changed; tensors are shared.

    Returns:
        A module whose placeholders are those that are no constant, in the program's order.
    """
    exported = program.exported
    constants = constant_tensors(program)
    root = torch.nn.Module()
    for name, module in exported.graph_module.named_children():
        root.add_module(name, module)
    graph = Graph()
    copies: dict[Node, Node] = {}
    for node in exported.graph.nodes:
        if node in constants:
            target = _CONSTANT.format(len(copies))
            root.register_buffer(target, constants[node].detach())
            copies[node] = graph.get_attr(target)
            copies[node].meta = dict(node.meta)
        else:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    _keep_names(copies)
    return GraphModule(root, graph)


def close_program(program: CapturedProgram, module: GraphModule) -> CapturedProgram:
    """The program of a changed graph module.

    Args:
        program: From which `open_program` made the module; it is not changed.
        module: Its placeholders and outputs are still the program's, in order.

    Returns:
        The program with the same signature and state, `meta["val"]` on every node. New constants are buffers, named
        after the module that reads them.
    """
    old = program.exported
    constants = constant_tensors(program)
    mode = FakeMode(value for node in old.graph.nodes for value in leaves_of(node.meta.get("val")))
    lifted = _lift_constants(program, module)
    kept = [(node, spec) for node, spec in placeholders(old) if node not in constants]
    for (original, spec), node in zip(kept, module.graph.find_nodes(op="placeholder"), strict=True):
        tensor = None if spec.kind is InputKind.USER_INPUT else tensor_of(old, spec)
        lifted.append(
            _Lifted(spec.kind, original.name, spec.target, spec.persistent, tensor, [node], original.meta["val"])
        )
    # A signature's order is parameters, buffers, constants, user inputs.
    lifted.sort(key=lambda item: _ORDER.index(item.kind))
    graph = Graph()
    copies: dict[Node, Node] = {}
    specs: list[InputSpec] = []
    homes: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    for item in lifted:
        made = graph.placeholder(item.node_name)
        made.name, made.target = item.node_name, item.node_name
        made.meta = dict(item.nodes[0].meta) if item.kind is InputKind.USER_INPUT else {}
        made.meta["val"] = _as_fake(mode, item.tensor) if item.val is None else item.val
        copies.update(dict.fromkeys(item.nodes, made))
        specs.append(InputSpec(item.kind, TensorArgument(made.name), item.name, item.persistent))
        if item.name is not None:
            homes[item.name in old.constants][item.name] = _typed(item)
    for node in module.graph.nodes:
        if node not in copies:
            copies[node] = graph.node_copy(node, copies.__getitem__)
            if node.op != "output":
                copies[node].name = node.name
    _fill_values(graph, mode)
    _fill_provenance(graph)
    calls = [ModuleCallEntry(call.fqn, None if call.fqn else call.signature) for call in old.module_call_graph]
    new = ExportedProgram(
        root={str(n.target): attribute_of(module, str(n.target)) for n in graph.find_nodes(op="get_attr")},
        graph=graph,
        graph_signature=ExportGraphSignature(specs, _output_specs(old, graph)),
        state_dict=homes[0],
        range_constraints=dict(old.range_constraints),
        module_call_graph=calls,
        example_inputs=old.example_inputs,
        constants=homes[1],
        verifiers=old.verifiers,
    )
    new.graph_module.meta.update(old.graph_module.meta)
    return dataclasses.replace(program, exported=new)


@dataclass(frozen=True)
class _Lifted:
    """A placeholder to make: its entry in the signature, its value, and the nodes that it stands for."""

    kind: InputKind
    node_name: str
    name: str | None
    persistent: bool | None
    tensor: torch.Tensor | None
    nodes: list[Node]
    val: Any = None


def _lift_constants(program: CapturedProgram, module: GraphModule) -> list[_Lifted]:
    """The attributes that the module's graph reads: old ones under their old names."""
    old = program.exported
    origins = dict(zip(_attribute_names(program), constant_tensors(program), strict=True))
    specs = dict(placeholders(old))
    readers: dict[str, list[Node]] = {}
    for node in module.graph.find_nodes(op="get_attr"):
        if isinstance(attribute_of(module, str(node.target)), torch.Tensor):
            readers.setdefault(str(node.target), []).append(node)
    taken = {str(spec.target) for spec in specs.values()}
    lifted = []
    for target, nodes in readers.items():
        tensor = attribute_of(module, target)
        origin = origins.get(target)
        if origin is not None:
            spec = specs[origin]
            same = tensor.shape == origin.meta["val"].shape and tensor.dtype == origin.meta["val"].dtype
            val = origin.meta["val"] if same else None
            lifted.append(_Lifted(spec.kind, origin.name, str(spec.target), spec.persistent, tensor, nodes, val))
        else:
            name = first_free_name(_name_constant(nodes[0]), taken)
            taken.add(name)
            lifted.append(_Lifted(InputKind.BUFFER, "b_" + name.replace(".", "_"), name, True, tensor, nodes))
    return lifted


def _attribute_names(program: CapturedProgram) -> list[str]:
    """The attribute that `open_program` makes of each constant, in the order of `constant_tensors`."""
    constants = constant_tensors(program)
    return [_CONSTANT.format(at) for at, node in enumerate(program.exported.graph.nodes) if node in constants]


def _name_constant(node: Node) -> str:
    """For example `layers.0.linear.weight_scale`: by the module that reads it and the place where it is read."""
    user = next(iter(node.users))
    roles = {0: "weight_quantized", 1: "weight_scale", 2: "weight_zero_point"}
    is_conversion = str(user.target).startswith(("quantized_decomposed.dequantize", "torchao."))
    role = roles.get(user.args.index(node), "constant") if is_conversion and node in user.args else "constant"
    served = _walk(user, forwards=True) or user
    # A part of a sequence is called like `model.slice(None, 11, None).0`, and torch makes variables of names.
    path = ".".join(re.sub(r"\W+", "_", part).strip("_") for part in (module_path_of(served) or "").split("."))
    return f"{path}.{role}" if path else role


def _typed(item: _Lifted) -> Any:
    """A parameter where the signature says so; what it holds is shared."""
    if item.kind is InputKind.PARAMETER and item.tensor is not None:
        return torch.nn.Parameter(item.tensor.detach(), requires_grad=False)
    return item.tensor


def _output_specs(old: ExportedProgram, graph: Graph) -> list[OutputSpec]:
    results = graph.output_node().args[0]
    assert is_tuple(results)
    return [
        OutputSpec(
            spec.kind, TensorArgument(value.name) if isinstance(spec.arg, TensorArgument) else spec.arg, spec.target
        )
        for spec, value in zip(old.graph_signature.output_specs, results, strict=True)
    ]


def _fill_values(graph: Graph, mode: FakeMode) -> None:
    """Give nodes that were inserted the fake tensor that they make."""
    for node in graph.nodes:
        if node.op == "call_function" and "val" not in node.meta:
            args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda arg: arg.meta["val"])
            with torch.no_grad(), mode:
                node.meta["val"] = node.target(*args, **kwargs)


def _fill_provenance(graph: Graph) -> None:
    """Conversions count as part of what they serve: the reader of a dequantized value, the maker of a quantized one."""
    for node in graph.nodes:
        if node.op == "call_function" and _is_between(node) and "nn_module_stack" not in node.meta:
            forwards = ".dequantize" in str(node.target)
            served = _walk(node, forwards=forwards) or _walk(node, forwards=not forwards)
            for key in ("nn_module_stack", "stack_trace"):
                if served is not None and key in served.meta and (key == "nn_module_stack" or key not in node.meta):
                    node.meta[key] = served.meta[key]


def _walk(node: Node, *, forwards: bool) -> Node | None:
    """The first operator of the model in one direction."""
    near: Node | None = node
    while near is not None and _is_between(near):
        near = next(iter(near.users if forwards else near.all_input_nodes), None)
    return near if near is not None and near.op == "call_function" else None


def _is_between(node: Node) -> bool:
    return node.target is operator.getitem or is_conversion(str(node.target))


def _as_fake(mode: FakeMode, tensor: torch.Tensor | None) -> Any:
    return None if tensor is None else mode.convert(tensor.detach())


def _keep_names(copies: Mapping[Node, Node]) -> None:
    """Node names reach the artifact's debug files; a copied graph renames what is called like a builtin."""
    for original, made in copies.items():
        if original.op not in ("placeholder", "output"):
            made.name = original.name


def attribute_of(module: torch.nn.Module, target: str) -> Any:
    """What a `get_attr` node with this target reads."""
    return operator.attrgetter(target)(module)
