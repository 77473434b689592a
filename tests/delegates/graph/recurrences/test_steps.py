"""The operator of a recurrent layer's steps: PyTorch's own numbers, shapes and dtypes, and the work that it does."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from edgex.delegates.graph.recurrences.cells import CELLS, Weights
from edgex.delegates.graph.recurrences.steps import advance, is_recurrence, steps_operator
from edgex.delegates.graph.work import count_flops

TIME, BATCH, FEATURES, HIDDEN = 5, 3, 4, 6
LAYERS = {
    "lstm": lambda: nn.LSTM(FEATURES, HIDDEN),
    "gru": lambda: nn.GRU(FEATURES, HIDDEN),
    "tanh": lambda: nn.RNN(FEATURES, HIDDEN),
    "relu": lambda: nn.RNN(FEATURES, HIDDEN, nonlinearity="relu"),
}


def arguments(name: str, *, dtype: torch.dtype = torch.float32):
    """A layer, its input, and the operator's arguments for it."""
    torch.manual_seed(0)
    layer, cell = LAYERS[name]().to(dtype), CELLS[name]
    x = torch.randn(TIME, BATCH, FEATURES, dtype=dtype)
    weights = Weights(*(tensor.detach() for tensor in layer.all_weights[0]))
    order = [gate for group in cell.groups for gate in group]
    given = weights.group(order, HIDDEN).project(x)
    flat = [tensor for gates in cell.groups for tensor in weights.group(gates, HIDDEN).flatten()]
    state = [torch.randn(BATCH, HIDDEN, dtype=dtype) for _ in range(2 if name == "lstm" else 1)]
    return layer, x, (given, *state, flat, name)


@pytest.mark.parametrize("name", LAYERS)
def test_it_gives_what_the_layer_gives(name):
    layer, x, (given, *state, flat, cell) = arguments(name)
    start = [part.unsqueeze(0) for part in state]
    with torch.no_grad():
        y, end = layer(x, tuple(start) if len(start) > 1 else start[0])
        *found, steps = steps_operator(len(state))(given, *state, flat, cell)
    for one, other in zip((steps, *found), (y, *([end] if len(state) == 1 else end)), strict=True):
        torch.testing.assert_close(one, other.reshape(one.shape), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", LAYERS)
def test_operator_checks(name, dtype):
    _, _, (given, *state, flat, cell) = arguments(name, dtype=dtype)
    torch.library.opcheck(
        steps_operator(len(state)), (given, *state, flat, cell), test_utils=("test_schema", "test_faketensor")
    )


@pytest.mark.parametrize("name", LAYERS)
def test_no_step_leaves_the_state_and_gives_none(name):
    _, _, (given, *state, flat, cell) = arguments(name)
    *found, steps = steps_operator(len(state))(given[:0], *state, flat, cell)
    assert steps.shape == (0, BATCH, HIDDEN)
    assert all(
        torch.equal(one, other) and one.data_ptr() != other.data_ptr() for one, other in zip(found, state, strict=True)
    )


def test_a_step_gives_the_hidden_state_twice():
    _, _, (given, *state, flat, cell) = arguments("lstm")
    hidden, _memory, again = advance(cell, flat, tuple(state), given[0])
    assert hidden is again


@pytest.mark.parametrize(("name", "gates"), [("lstm", 4), ("gru", 3), ("tanh", 1)])
def test_work_is_that_of_the_products(name, gates):
    _, _, (given, *state, flat, cell) = arguments(name)

    class Steps(nn.Module):
        def forward(self, given, state, flat):
            return steps_operator(len(state))(given, *state, flat, cell)

    program = torch.export.export(Steps(), (given, state, flat))
    (node,) = [node for node in program.graph.nodes if is_recurrence(node)]
    assert count_flops(node) == 2 * TIME * BATCH * gates * HIDDEN * HIDDEN
