"""Recurrent layers in operators that XNNPACK and oneDNN take: as a loop over one step, or one step after another.

```
before:  y, h = aten.gru.input(x, h0, [w_ih, w_hh, b_ih, b_hh], True, 1, 0.0, False, False, True)     # x: [1, 100, 64]

loop_recurrences
after:   x = x.reshape(100, 1, 64)
         h, y = edgex.recurrent_steps(linear(x, w_ih), h0[0], [w_hh[:128], b_hh[:128], w_hh[128:], b_hh[128:]], "gru")
         y = y.reshape(1, 100, 64); h = h.unsqueeze(0)

write_recurrences
after:   x = x.reshape(100, 1, 64)
         rz, n = linear(x, w_ih[:128]), linear(x, w_ih[128:])                   # all steps at once
         h1 = the cell of `cells`, on rz[:1], n[:1] and h0; h2 = ...            # 100 times, each [1, 1, 64]
         y = cat([h1, ..., h100]).reshape(1, 100, 64); h = h100
```

An engine packs the weights of every operator that it is given: a layer of 100 steps, written one after another, reads
100 copies of them in every call. So a loop is what is wanted, and the rest is for few steps, for weights that the model
computes, and for a batch that only a run knows, which ExecuTorch's loops do not gather (1.5: "Mismatch in shape between
copy_to and copy_from tensors"). Programs that read sizes from tensors (lengths of packed sequences) have no loops:
their symbols wait in the tracer where the step is traced apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.recurrences.cells import CELLS, Cell, State, Weights
from edgex.delegates.graph.recurrences.steps import steps_operator
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.editor import constant_tensors
from edgex.export.rewrites.editing.substitution import Rule, Rules, Write, static, substitute

aten = torch.ops.aten

# Fewer are quicker in one call of the engine than in one each.
_LEAST_STEPS = 4
_LAYERS = {
    "lstm": aten.lstm.input,
    "gru": aten.gru.input,
    "tanh": aten.rnn_tanh.input,
    "relu": aten.rnn_relu.input,
}
_ONE_STEP = {
    "lstm": aten.lstm_cell.default,
    "gru": aten.gru_cell.default,
    "tanh": aten.rnn_tanh_cell.default,
    "relu": aten.rnn_relu_cell.default,
}

# Name of the cell, weights, input `[time, batch, features]`, state of one direction `[1, batch, hidden]`, backwards: to
# the hidden states of all steps in the order of the input, and the last state.
_Run = Callable[[str, Weights, torch.Tensor, State, bool], tuple[torch.Tensor, State]]


def loop_recurrences(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Make loops of the layers whose weights are constants; the same program comes back without one."""
    nodes = program.exported.graph.nodes
    reads_sizes = any("unbacked_bindings" in node.meta for node in nodes)
    if reads_sizes or not any(node.target in _LAYERS.values() for node in nodes):
        return program, None
    constants = constant_tensors(program)

    def applies(node: torch.fx.Node) -> bool:
        return all(parameter in constants for parameter in node.args[2])  # type: ignore[union-attr]

    rules: Rules = {
        operator: Rule(_layers(name, _loop, _LEAST_STEPS), where=applies) for name, operator in _LAYERS.items()
    }
    detail = "{count} recurrent layer(s) ({operators}) became loops over one step"
    return substitute(program, "loop_recurrences", rules, detail)


def write_recurrences(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such layer of fixed sizes step by step; the same program comes back without one."""
    rules: Rules = {
        **{operator: _layers(name, _unroll) for name, operator in _LAYERS.items()},
        **{operator: _cell(CELLS[name]) for name, operator in _ONE_STEP.items()},
    }
    detail = "{count} recurrent layer(s) ({operators}) became their steps"
    return substitute(program, "write_recurrences", rules, detail)


def _layers(name: str, run: _Run, least_steps: int = 1) -> Write:
    """Of `lstm.input` and the like: several layers, in one direction or both."""

    def write(
        x: torch.Tensor,
        start: Any,
        parameters: Sequence[torch.Tensor],
        has_biases: bool,
        num_layers: int,
        _dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> Any:
        if train or x.dim() != 3 or not static(*x.shape) or 0 in x.shape:
            return NotImplemented
        if batch_first:
            x = _exchanged(x)
        if x.shape[0] < least_steps:
            return NotImplemented
        starts: State = tuple(start) if isinstance(start, (list, tuple)) else (start,)
        directions = 2 if bidirectional else 1
        each = len(parameters) // (num_layers * directions)
        weights = [_weights(parameters[at : at + each], has_biases) for at in range(0, len(parameters), each)]
        ends: list[State] = []
        for layer in range(num_layers):
            found = []
            for direction in range(directions):
                at = layer * directions + direction
                state = tuple(part.narrow(0, at, 1) for part in starts)
                steps, state = run(name, weights[at], x, state, direction == 1)
                found.append(steps)
                ends.append(state)
            x = found[0] if directions == 1 else torch.cat(found, -1)
        # What an operator gives is never an input of it: a layer of one step has its state twice.
        states = (torch.cat(parts) if len(parts) > 1 else parts[0].clone() for parts in zip(*ends, strict=True))
        return (_exchanged(x) if batch_first else x), *states

    return write


def _weights(parameters: Sequence[torch.Tensor], has_biases: bool) -> Weights:
    biases = parameters[2:4] if has_biases else (None, None)
    rest = parameters[4 if has_biases else 2 :]
    return Weights(parameters[0], parameters[1], *biases, *rest)


def _exchanged(x: torch.Tensor) -> torch.Tensor:
    """Time and batch in each other's place; of one sequence, or of one step, nothing is moved."""
    if 1 in x.shape[:2]:
        return x.reshape(x.shape[1], x.shape[0], x.shape[2])
    return x.transpose(0, 1)


def _grouped(cell: Cell, weights: Weights) -> list[Weights]:
    return [weights.group(gates, weights.of_state.shape[0] // cell.gates) for gates in cell.groups]


def _loop(name: str, weights: Weights, x: torch.Tensor, state: State, backwards: bool) -> tuple[torch.Tensor, State]:
    cell = CELLS[name]
    gates = [gate for group in cell.groups for gate in group]
    ordered = weights.group(gates, weights.of_state.shape[0] // cell.gates)
    given = ordered.project(_turned(x) if backwards else x)
    flat = [tensor for group in _grouped(cell, weights) for tensor in group.flatten()]
    projection = [] if weights.projection is None else [weights.projection]
    start = [part.reshape(part.shape[1:]) for part in state]
    *end, steps = steps_operator(len(state))(given, *start, [*flat, *projection], name)
    return (_turned(steps) if backwards else steps), tuple(part.unsqueeze(0) for part in end)


def _turned(x: torch.Tensor) -> torch.Tensor:
    """The steps in the other order."""
    return torch.index_select(x, 0, torch.arange(x.shape[0] - 1, -1, -1))


def _unroll(name: str, weights: Weights, x: torch.Tensor, state: State, backwards: bool) -> tuple[torch.Tensor, State]:
    cell = CELLS[name]
    groups = _grouped(cell, weights)
    given = [group.project(x) for group in groups]
    steps: dict[int, torch.Tensor] = {}
    order = range(x.shape[0])
    for at in reversed(order) if backwards else order:
        state = cell.step([values.narrow(0, at, 1) for values in given], state, groups)
        if weights.projection is not None:
            state = torch.nn.functional.linear(state[0], weights.projection), *state[1:]
        steps[at] = state[0]
    return torch.cat([steps[at] for at in order]), state


def _cell(cell: Cell) -> Write:
    """Of `lstm_cell` and the like: one step."""

    def write(x: torch.Tensor, start: Any, *parameters: Any) -> Any:
        of_input, of_state, *biases = parameters
        groups = _grouped(cell, Weights(of_input, of_state, *(biases or (None, None))))
        state: State = tuple(start) if isinstance(start, (list, tuple)) else (start,)
        found = cell.step([group.project(x) for group in groups], state, groups)
        return found if len(found) > 1 else found[0]

    return write
