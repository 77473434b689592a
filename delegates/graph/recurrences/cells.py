"""One step of a recurrent layer: gates of one activation are computed together, and by slices of nothing but gates.

```
LSTM:  i, f, o = sigmoid(x @ Wi + h @ Ui), g = tanh(x @ Wg + h @ Ug), c = f * c + i * g, h = o * tanh(c)
GRU:   r, z = sigmoid(x @ Wr + h @ Ur), n = tanh(x @ Wn + r * (h @ Un)), h = n + z * (h - n)
```

What comes of the input is a product with all steps at once, given here as rows; what comes of `h` is one of each step.
The order of gates in PyTorch's weights: `i f g o` and `r z n` (documentation of `torch.nn.LSTM` and `torch.nn.GRU`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch.nn.functional import linear

# Hidden state, and for LSTM the memory.
State = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Weights:
    """Of one layer in one direction: `[gates * hidden, in]` and `[gates * hidden, hidden]`, `[gates * hidden]`."""

    of_input: torch.Tensor
    of_state: torch.Tensor
    input_bias: torch.Tensor | None
    state_bias: torch.Tensor | None
    projection: torch.Tensor | None = None

    def group(self, gates: Sequence[int], hidden: int) -> Weights:
        """Those of some gates, in that order."""

        def rows(tensor: torch.Tensor | None) -> torch.Tensor | None:
            if tensor is None:
                return None
            return torch.cat([tensor[gate * hidden : (gate + 1) * hidden] for gate in gates])

        of_input, of_state = rows(self.of_input), rows(self.of_state)
        assert of_input is not None and of_state is not None
        return Weights(of_input, of_state, rows(self.input_bias), rows(self.state_bias))

    def flatten(self) -> tuple[torch.Tensor, ...]:
        """What a step reads: the weights of the state, and the biases where there are any."""
        return (self.of_state,) if self.state_bias is None else (self.of_state, self.state_bias)

    @staticmethod
    def unflatten(tensors: Sequence[torch.Tensor], groups: int) -> list[Weights]:
        """The groups' weights, for `recur` alone, of what `flatten` gave of each, and a projection behind them all."""
        each = len(tensors) // groups
        projection = tensors[-1] if len(tensors) % groups else None
        of_groups = [tensors[at : at + each] for at in range(0, groups * each, each)]
        return [Weights(one[0], one[0], None, one[1] if each > 1 else None, projection) for one in of_groups]

    def project(self, x: torch.Tensor) -> torch.Tensor:
        """What comes of the input."""
        return linear(x, self.of_input, self.input_bias)

    def recur(self, h: torch.Tensor) -> torch.Tensor:
        """What comes of the hidden state."""
        return linear(h, self.of_state, self.state_bias)


@dataclass(frozen=True)
class Cell:
    """A kind of recurrent layer.

    Attributes:
        gates: How many rows of the weights there are, in hidden sizes.
        groups: The gates that are computed together.
        step: From what comes of the input by group, the state and the weights by group, to the next state.
    """

    gates: int
    groups: tuple[tuple[int, ...], ...]
    step: Callable[[Sequence[torch.Tensor], State, Sequence[Weights]], State]

    def advance(self, given: torch.Tensor, state: State, weights: Sequence[Weights]) -> State:
        """One step, projected at the end; what comes of the input is one tensor, `[..., gates * hidden]`, by groups."""
        hidden = given.shape[-1] // self.gates
        parts, at = [], 0
        for gates in self.groups:
            parts.append(given.narrow(-1, at, len(gates) * hidden))
            at += len(gates) * hidden
        made = self.step(parts, state, weights)
        projection = weights[0].projection
        return made if projection is None else (linear(made[0], projection), *made[1:])


def _lstm(given: Sequence[torch.Tensor], state: State, weights: Sequence[Weights]) -> State:
    h, c = state
    hidden = c.shape[-1]
    gates = torch.sigmoid(given[0] + weights[0].recur(h))
    i, f, o = (gates[..., at * hidden : (at + 1) * hidden] for at in range(3))
    c = f * c + i * torch.tanh(given[1] + weights[1].recur(h))
    return o * torch.tanh(c), c


def _gru(given: Sequence[torch.Tensor], state: State, weights: Sequence[Weights]) -> State:
    (h,) = state
    hidden = h.shape[-1]
    gates = torch.sigmoid(given[0] + weights[0].recur(h))
    n = torch.tanh(given[1] + gates[..., :hidden] * weights[1].recur(h))
    return (n + gates[..., hidden:] * (h - n),)


def _plain(activation: Callable[[torch.Tensor], torch.Tensor]) -> Cell:
    return Cell(1, ((0,),), lambda given, state, weights: (activation(given[0] + weights[0].recur(state[0])),))


LSTM = Cell(4, ((0, 1, 3), (2,)), _lstm)
GRU = Cell(3, ((0, 1), (2,)), _gru)
TANH = _plain(torch.tanh)
RELU = _plain(torch.relu)
# As an operator names them.
CELLS = {"lstm": LSTM, "gru": GRU, "tanh": TANH, "relu": RELU}
