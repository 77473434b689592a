"""One step of a recurrence as a program of its own.

```
h, c, y = edgex.lstm_steps(given, h0, c0, [w, b, …], "lstm")                # given: [100, 1, 512]
step_program:  weight_0, weight_1, … (parameters), state_0, state_1, x      # x: [1, 512]
               -> h, c, h
```
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch.export import ExportedProgram, ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.fx.experimental.proxy_tensor import make_fx

from edgex.delegates.graph.recurrences.steps import advance
from edgex.delegates.graph.retracing import retry_stale_symbols
from edgex.delegates.graph.torch_internals import pytree

if TYPE_CHECKING:
    from torch.fx import Graph, Node


def step_program(
    program: ExportedProgram, node: Node, readers: Mapping[str, Callable[[], torch.Tensor]]
) -> ExportedProgram:
    """The step: the weights are its parameters, the state and what is given its inputs.

    Args:
        program: Where the recurrence stands.
        node: The recurrence.
        readers: For each constant of the program, by its node's name, what gives its tensor.
    """
    arguments: Any = node.args
    given, *state, weights, cell = arguments
    graph = _trace(cell, [weight.meta["val"] for weight in weights], [one.meta["val"] for one in state], given)
    parameters = [f"weight_{number}" for number in range(len(weights))]
    inputs = [*(f"state_{number}" for number in range(len(state))), "x"]
    for placeholder, name in zip(graph.find_nodes(op="placeholder"), (*parameters, *inputs), strict=True):
        placeholder.name = placeholder.target = name
    results: Any = graph.output_node().args[0]
    tree = ModuleCallSignature(
        [], [], pytree.tree_structure((tuple(inputs), {})), pytree.tree_structure(tuple(results))
    )
    return ExportedProgram(
        root=torch.nn.Module(),
        graph=graph,
        graph_signature=ExportGraphSignature(
            [InputSpec(InputKind.PARAMETER, TensorArgument(name), name) for name in parameters]
            + [InputSpec(InputKind.USER_INPUT, TensorArgument(name), None) for name in inputs],
            [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(made.name), None) for made in results],
        ),
        state_dict={name: readers[weight.name]() for name, weight in zip(parameters, weights, strict=True)},
        range_constraints=dict(program.range_constraints),
        module_call_graph=[ModuleCallEntry("", tree)],
        constants={},
        verifiers=program.verifiers,
    )


def _trace(cell: str, weights: list[Any], state: list[Any], given: Node) -> Graph:
    """The step's operators, of fake tensors in the program's own mode."""
    values = given.meta["val"]

    def step(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return advance(cell, tensors[: len(weights)], tensors[len(weights) : -1], tensors[-1])

    with torch.no_grad(), values.fake_mode:
        traced = make_fx(step, pre_dispatch=True)
        # In this mode a pass before may have left symbols of unknown sizes elsewhere in the program.
        graph: Graph = retry_stale_symbols(lambda: traced(*weights, *state, values.select(0, 0)).graph)
    end = graph.output_node()
    end.args = (tuple(end.args[0]),)  # type: ignore[arg-type]
    return graph
