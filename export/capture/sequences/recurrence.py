"""Recurrent layers over sequences of different lengths, in PyTorch's operators for sequences of one length.

```
forwards:   y = gru(x);  h = y[length - 1]             # what comes behind a sequence's end never reaches its steps
backwards:  x[t] becomes x[length - 1 - t], so that each sequence begins with its own end; then y likewise
```

The memory of an LSTM is nowhere among its steps' results. So its input has one more feature, 1 behind the end, whose
weights close the input gate and open the forget gate: there the memory stays exactly as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

# `sigmoid(-1000)` is 0 and `sigmoid(1000)` is 1 in every float type, whatever else is added to a gate.
_CLOSED = 1000.0

Layer = Callable[..., Any]


def run_layers(
    layer: Layer,
    x: torch.Tensor,
    lengths: torch.Tensor,
    start: Sequence[torch.Tensor],
    parameters: Sequence[torch.Tensor],
    has_biases: bool,
    num_layers: int,
    bidirectional: bool,
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """What a recurrent layer gives for packed sequences.

    Args:
        layer: `torch.lstm` or one of its kin.
        x: `[time, batch, features]`, with anything behind the sequences' ends.
        lengths: `int64[batch]`, from 1 to time.
        start: The state before the first step: `[layers * directions, batch, hidden]`, for an LSTM two.
        parameters: The layer's flat weights.
        has_biases: Whether biases are among them.
        num_layers: One upon another.
        bidirectional: Whether each has a second direction.

    Returns:
        The hidden states, `[time, batch, directions * hidden]`, with anything behind the sequences' ends, and each
        sequence's state after its own last step, like `start`.
    """
    times = torch.arange(x.shape[0]).reshape(-1, 1)
    last = lengths.reshape(1, -1) - 1
    behind = times > last
    mirrored = torch.where(behind, times, last - times)
    directions = 2 if bidirectional else 1
    each = len(parameters) // (num_layers * directions)
    ends: list[Sequence[torch.Tensor]] = []
    for at in range(num_layers):
        found = []
        for place in range(at * directions, (at + 1) * directions):
            weights = list(parameters[place * each : (place + 1) * each])
            state = [part.narrow(0, place, 1) for part in start]
            backwards = place % directions == 1
            given = _picked(x, mirrored) if backwards else x
            if len(start) == 2:
                given = torch.cat((given, behind.to(x.dtype).unsqueeze(-1)), -1)
                weights[0] = _frozen(weights[0], state[1].shape[-1])
            states = state if len(start) == 2 else state[0]
            y, _, *memory = layer(given, states, weights, has_biases, 1, 0.0, False, False, False)
            steps = _picked(y, mirrored) if backwards else y
            found.append(steps)
            ends.append((steps[:1] if backwards else _picked(y, last), *memory))
        x = found[0] if directions == 1 else torch.cat(found, -1)
    return x, [torch.cat(parts) if len(parts) > 1 else parts[0] for parts in zip(*ends, strict=True)]


def _picked(x: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
    """`x[times[t, b], b]` for every t and b."""
    return x.gather(0, times.unsqueeze(-1).expand(-1, -1, x.shape[-1]))


def _frozen(of_input: torch.Tensor, hidden: int) -> torch.Tensor:
    """An LSTM's weights of its input, `[4 * hidden, features]`, with the feature that keeps its memory."""
    gates = ((hidden, -_CLOSED), (hidden, _CLOSED), (2 * hidden, 0.0))  # i, f, and g with o
    column = torch.cat([of_input.new_full((rows, 1), value) for rows, value in gates])
    return torch.cat((of_input, column), -1)
