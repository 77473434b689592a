"""A captured program with a flat signature: tensors in call order in, tensors out, nothing else.

```
before  forward(x, batch={"mask": m, "scale": 2}, flag=True) -> {"y": a, "z": None}
after   forward(x, batch_mask) -> (a,)
```
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch.export import ExportedProgram, ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import ExportGraphSignature, InputKind, OutputKind, TensorArgument
from torch.fx import Graph, GraphModule, Node

from edgex.delegates.graph.torch_internals import pytree
from edgex.export.capture.mutation import find_written_placeholders
from edgex.export.capture.shape_sources import rename_shape_sources
from edgex.export.source.weights import shorten

if TYPE_CHECKING:
    from edgex.export.capture.example_run import ExampleRun
    from edgex.export.source.leaves import Leaf


def flatten_program(program: ExportedProgram, inputs: Sequence[Leaf]) -> tuple[ExportedProgram, tuple[str, ...]]:
    """Give a program its flat signature.

    Non-tensor inputs are constants already and their placeholders go; so do outputs that are None. Writes to
    inputs are kept inside: the program works on a copy.

    Args:
        program: As torch.export or torch.export.load made it; its shape environment is adapted to the new signature.
        inputs: All leaves of the call, constants too, in the order of the program's user inputs.

    Returns:
        The program, which shares weights with the old one, and the names of the inputs that the old one wrote to.
    """
    graph = Graph()
    copies: dict[Node, Node] = {}
    outputs = graph.graph_copy(program.graph, copies)
    for old, new in copies.items():
        new.name = old.name  # copying renames what Python has a word for, `input` for one
    graph.output(outputs)
    graph.output_node().meta.update(program.graph.output_node().meta)
    placeholders = graph.find_nodes(op="placeholder")
    user = [s.kind == InputKind.USER_INPUT for s in program.graph_signature.input_specs]
    user_nodes = [node for node, is_user in zip(placeholders, user, strict=True) if is_user]
    kept = {node for node, leaf in zip(user_nodes, inputs, strict=True) if leaf.is_tensor}
    names = {node.name: leaf.name for node, leaf in zip(user_nodes, inputs, strict=True)}
    rename_shape_sources(
        [node.meta["val"] for node in user_nodes if node in kept],
        # The second form is what strict capture calls the same leaf.
        {
            source: str(node.target)
            for at, (node, leaf) in enumerate(zip(user_nodes, inputs, strict=True))
            for source in (leaf.source, f"L['flat_args'][{at}]")
        },
    )
    changed = _copy_written_inputs(graph, program.graph_module, kept)
    output_specs, results = [], []
    for spec, value in zip(program.graph_signature.output_specs, graph.output_node().args[0], strict=True):  # type: ignore[arg-type]
        if spec.kind == OutputKind.USER_INPUT_MUTATION:
            changed.append(str(spec.target))
        elif isinstance(spec.arg, TensorArgument):
            # What was edited since torch.export may have put another node in its place.
            output_specs.append(replace(spec, arg=TensorArgument(value.name)))
            results.append(value)
        elif spec.kind != OutputKind.USER_OUTPUT:
            output_specs.append(spec)
            results.append(value)
    graph.output_node().args = (tuple(results),)
    input_specs = []
    for spec, node, is_user in zip(program.graph_signature.input_specs, placeholders, user, strict=True):
        if is_user and node not in kept:
            graph.erase_node(node)
        else:
            input_specs.append(spec)
    flat = _rebuild(program, graph, ExportGraphSignature(input_specs, output_specs), _example_of(inputs))
    return flat, tuple(dict.fromkeys(names[name] for name in changed))


def _example_of(inputs: Sequence[Leaf]) -> tuple[torch.Tensor, ...]:
    return tuple(leaf.value for leaf in inputs if leaf.is_tensor)


def _rebuild(
    program: ExportedProgram, graph: Graph, signature: ExportGraphSignature, example: tuple[torch.Tensor, ...]
) -> ExportedProgram:
    """A program of the new graph whose calling convention is positional tensors in, a tuple of tensors out."""
    arguments = [spec.arg.name for spec in signature.input_specs if spec.kind == InputKind.USER_INPUT]
    count = sum(spec.kind == OutputKind.USER_OUTPUT for spec in signature.output_specs)
    in_spec = pytree.tree_structure((example, {}))
    out_spec = pytree.tree_structure(tuple(range(count)))
    call = ModuleCallSignature([], [], in_spec, out_spec, arguments)
    return ExportedProgram(
        root=program.graph_module,
        graph=graph,
        graph_signature=signature,
        state_dict=dict(program.state_dict),
        range_constraints=dict(program.range_constraints),
        module_call_graph=[ModuleCallEntry("", call), *program.module_call_graph[1:]],
        example_inputs=(example, {}),
        constants=dict(program.constants),
        verifiers=program.verifiers,
    )


def _copy_written_inputs(graph: Graph, module: GraphModule, inputs: set[Node]) -> list[str]:
    """Let operators that write to an input write to a copy of it; names of the inputs that needed one."""
    written = find_written_placeholders(graph, module)
    last = graph.find_nodes(op="placeholder")[-1] if inputs else None
    changed = []
    for node in graph.find_nodes(op="placeholder"):
        if node not in inputs or node.name not in written:
            continue
        changed.append(node.name)
        with graph.inserting_after(last):
            copy = graph.call_function(torch.ops.aten.clone.default, (node,))
        copy.meta.update({key: value for key, value in written[node.name].meta.items() if key != "val"})
        copy.meta["val"] = node.meta["val"]
        node.replace_all_uses_with(copy, lambda user, copy=copy: user is not copy)
    return changed


def describe_signature(example: ExampleRun, written: Sequence[str]) -> list[str]:
    """What the flat signature leaves out or fixes."""
    notices = []
    constants = [leaf for leaf in example.inputs if not leaf.is_tensor]
    if constants:
        listed = ", ".join(f"{leaf.name}={leaf.value!r}" for leaf in constants)
        notices.append(f"inputs that are not tensors are fixed in the program: {listed}")
    dropped = sum(leaf.value is None for leaf in example.outputs)
    if dropped:
        notices.append(f"{dropped} of the {len(example.outputs)} outputs are None and are left out")
    fixed = [f"{leaf.name}={leaf.value!r}" for leaf in example.outputs if not leaf.is_tensor and leaf.value is not None]
    if fixed:
        notices.append(f"outputs that are the same whatever the inputs are left out: {shorten(fixed)}")
    if written:
        notices.append(f"forward writes to its input {', '.join(written)}: the artifact writes to a copy")
    return notices
