"""`edgex::recurrent_steps`: a recurrent layer in one direction over all its steps, from what comes of its inputs.

```
lstm_steps(given, hidden, memory, weights, cell) -> hidden, memory, steps
recurrent_steps(given, hidden, weights, cell)    -> hidden, steps

    for t in range(len(given)):
        hidden, memory = cell(given[t], hidden, memory)             # as `cells` has it
        steps[t] = hidden
```

Delegates whose engine can run a loop ask for the rewrite `loop_recurrences`. One step is lowered then, not all of them:
an engine packs the weights of every operator that it is given, and of 100 steps that is 100 times.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.graph.recurrences.cells import CELLS, State, Weights
from edgex.delegates.graph.schema import operator_name

NAMESPACE = "edgex"
# By the number of tensors in the state.
_NAMES = {1: "recurrent_steps", 2: "lstm_steps"}
_STATES = {1: "Tensor hidden", 2: "Tensor hidden, Tensor memory"}
_STEPS = frozenset(f"{NAMESPACE}::{name}" for name in _NAMES.values())


def is_recurrence(node: Node) -> bool:
    """Whether a node, of the captured program or an edge graph, is such an operator."""
    return operator_name(node) in _STEPS


@cache
def steps_operator(states: int) -> Any:
    """The operator for cells with so many tensors of state, registered with PyTorch when it is first asked for.

    Given `[time, batch, gates * hidden]`, the gates in the order of the cell's groups; state `[batch, hidden]` each;
    weights as `Weights.flatten` gives them, all of one floating-point dtype. Results: the state after the last step,
    and the hidden states of all, `[time, batch, hidden]`.
    """
    name = f"{NAMESPACE}::{_NAMES[states]}"
    results = ", ".join(["Tensor"] * (states + 1))
    torch.library.define(name, f"(Tensor given, {_STATES[states]}, Tensor[] weights, str cell) -> ({results})")
    torch.library.impl(name, "CPU", _compute)
    torch.library.register_fake(name, _infer)
    return getattr(torch.ops.edgex, _NAMES[states]).default


def advance(cell: str, weights: Sequence[torch.Tensor], state: State, given: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """One step of the operator, as a loop's body has it: to the next state, and the hidden state once more.

    Args:
        cell: Name of the cell in `CELLS`.
        weights: As the operator has them.
        state: Before the step, `[batch, hidden]` each.
        given: Of the step, `[batch, gates * hidden]`.
    """
    made = CELLS[cell].advance(given, state, Weights.unflatten(weights, len(CELLS[cell].groups)))
    return (*made, made[0])


def _compute(given: torch.Tensor, *rest: Any) -> tuple[torch.Tensor, ...]:
    *start, weights, cell = rest
    state, steps = list(start), []
    for one in given.unbind(0):
        *state, hidden = advance(cell, weights, tuple(state), one)
        steps.append(hidden)
    # No result is memory of another, nor of an input.
    return (*(part.clone() for part in state), torch.stack(steps) if steps else given.new_empty((0, *start[0].shape)))


def _infer(given: torch.Tensor, *rest: Any) -> tuple[torch.Tensor, ...]:
    *state, _weights, _cell = rest
    return (*(torch.empty_like(part) for part in state), given.new_empty((given.shape[0], *state[0].shape)))
