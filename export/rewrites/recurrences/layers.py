"""Recurrent layers of fixed lengths, one step after another, in operators that XNNPACK and oneDNN take.

```
before:  y, h = aten.gru.input(x, h0, [w_ih, w_hh, b_ih, b_hh], True, 1, 0.0, False, False, True)     # x: [1, 100, 64]
after:   x = x.reshape(100, 1, 64)
         rz, n = linear(x, w_ih[:128]), linear(x, w_ih[128:])                   # all steps at once
         h1 = the cell of `cells`, on rz[:1], n[:1] and h0; h2 = ...            # 100 times, each [1, 1, 64]
         y = cat([h1, ..., h100]).reshape(1, 100, 64); h = h100
```

ExecuTorch's own decomposition takes the steps apart with `unbind`, `squeeze` and `split` of gates that XNNPACK does not
have: a layer of 100 steps was 101 calls of XNNPACK, and lowering took three times as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rules, Write, static, substitute
from edgex.export.rewrites.recurrences.cells import GRU, LSTM, RELU, TANH, Cell, State, Weights

aten = torch.ops.aten


def write_recurrences(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such layer; the same program comes back without one."""
    detail = "{count} recurrent layer(s) ({operators}) became their steps"
    return substitute(program, "write_recurrences", _RULES, detail)


def _layers(cell: Cell) -> Write:
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
                steps, state = _run(cell, weights[at], x, state, backwards=direction == 1)
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


def _run(cell: Cell, weights: Weights, x: torch.Tensor, state: State, *, backwards: bool) -> tuple[torch.Tensor, State]:
    """The hidden states of all steps, `[time, batch, hidden]` as `x` has them, and the last state, of one step."""
    groups = [weights.group(gates, weights.of_state.shape[0] // cell.gates) for gates in cell.groups]
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
        weights = Weights(of_input, of_state, *(biases or (None, None)))
        groups = [weights.group(gates, of_state.shape[0] // cell.gates) for gates in cell.groups]
        state: State = tuple(start) if isinstance(start, (list, tuple)) else (start,)
        found = cell.step([group.project(x) for group in groups], state, groups)
        return found if len(found) > 1 else found[0]

    return write


_RULES: Rules = {
    aten.lstm.input: _layers(LSTM),
    aten.gru.input: _layers(GRU),
    aten.rnn_tanh.input: _layers(TANH),
    aten.rnn_relu.input: _layers(RELU),
    aten.lstm_cell.default: _cell(LSTM),
    aten.gru_cell.default: _cell(GRU),
    aten.rnn_tanh_cell.default: _cell(TANH),
    aten.rnn_relu_cell.default: _cell(RELU),
}
