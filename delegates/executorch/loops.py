"""Recurrent layers as loops of ExecuTorch's, whose body is one step that the backend takes.

```
before:  h, c, y = edgex.lstm_steps(given, h0, c0, [w, b, …], "lstm")
after:   h, c, y = scan(step, [h0, c0], [given], ())
         step(h, c, x):  y, c = executorch_call_delegate(region, x, h, c);  return [y, c, y]
```

The step is lowered as a program of its own, with the weights as its constants, and put into the lowered program: within
a loop no partitioner looks, and a weight that the loop is given is a constant to nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

import torch

from edgex.delegates.executorch import exir
from edgex.delegates.executorch.constants import constant_readers
from edgex.delegates.graph.provenance import is_operator
from edgex.delegates.graph.recurrences.program import step_program
from edgex.delegates.graph.recurrences.steps import is_recurrence
from edgex.delegates.graph.schema import leaves_of

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import GraphModule, Node

# Of an exported step to its partitioner; the names are those of its operators that stay out of the backend.
MakeStepPartitioner = Callable[[frozenset[str]], Any]


def write_loops(edge: Any, make_partitioner: MakeStepPartitioner, excluded: Mapping[str, Collection[str]]) -> None:
    """Make a loop of every recurrence in a lowered program, in place.

    Args:
        edge: The EdgeProgramManager that `exir.lower_to_edge` returned.
        make_partitioner: Makes the target's partitioner for a step.
        excluded: By method, the captured nodes that stay out of the backend.
    """
    for method in sorted(edge.methods):
        program = edge.exported_program(method)
        found = [node for node in program.graph.nodes if is_recurrence(node)]
        readers = constant_readers(program) if found else {}
        for node in found:
            step = step_program(program, node, readers)
            inside = frozenset(inner.name for inner in step.graph.nodes if is_operator(inner))
            left = inside if exir.is_excluded(node, excluded[method]) else frozenset()
            lowered = exir.lower_to_edge(step, make_partitioner(left))
            exir.take_stored_data(edge, lowered)
            _put_in(program, node, lowered.exported_program())
        if found:
            exir.drop_unread_constants(program)
            program.graph_module.recompile()


def _put_in(program: ExportedProgram, node: Node, step: ExportedProgram) -> None:
    """Put the loop over a lowered step in the place of the recurrence."""
    graph, owner = program.graph, program.graph_module
    arguments: Any = node.args
    given, *state, weights, _cell = arguments
    body, read = _body_of(step)
    place = f"step_of_{node.name}"
    owner.add_submodule(place, body)
    with graph.inserting_before(node):
        attribute = graph.get_attr(place)
        others = tuple(weights[number] for number in read)
        loop = graph.call_function(torch.ops.higher_order.scan, (attribute, state, [given], others))
    loop.meta = {**node.meta, "val": list(node.meta["val"])}
    node.replace_all_uses_with(loop)
    name = node.name
    graph.erase_node(node)
    # The profile finds the operator by the name that it had.
    loop.name = name


def _body_of(step: ExportedProgram) -> tuple[GraphModule, list[int]]:
    """A lowered step as a loop's body, its results in a list, and which of the weights are inputs of it.

    Those are what no backend took: of a step that stays out of it, all.
    """
    body: GraphModule = step.graph_module
    *_, last = step.graph.find_nodes(op="placeholder")
    parameters = list(step.state_dict)
    read: list[int] = []
    for node in step.graph.find_nodes(op="placeholder"):
        parameter = step.graph_signature.inputs_to_parameters.get(node.name)
        if parameter is not None:
            last.append(node)
            last = node
            read.append(parameters.index(parameter))
    end = step.graph.output_node()
    end.args = (leaves_of(end.args[0]),)
    body.recompile()
    return body, read
