"""Recurrent layers step by step: the numbers of PyTorch's own kernels, on every target that asks for it."""

from __future__ import annotations

import pytest
import torch
from rewriting import Untouched, capture_program, check_rewrite, operators
from torch import nn

from benchmarks.operators.proof import prove
from edgex.export.rewrites.recurrences.layers import write_recurrences

X = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(0))
LAYERS = {
    "gru": lambda: nn.GRU(4, 6, batch_first=True),
    "gru, two ways, two layers": lambda: nn.GRU(4, 6, 2, bidirectional=True, batch_first=True),
    "gru, time first, no bias": lambda: nn.GRU(4, 6, bias=False),
    "lstm": lambda: nn.LSTM(4, 6, batch_first=True),
    "lstm, two ways, two layers": lambda: nn.LSTM(4, 6, 2, bidirectional=True),
    "lstm, projected": lambda: nn.LSTM(4, 6, 2, proj_size=3, bidirectional=True, batch_first=True),
    "lstm, projected, no bias": lambda: nn.LSTM(4, 6, proj_size=3, bias=False),
    "tanh": lambda: nn.RNN(4, 6, batch_first=True),
    "relu": lambda: nn.RNN(4, 6, 2, nonlinearity="relu", bidirectional=True),
}


class Layer(nn.Module):
    """All results of a layer, from zeros and from a state."""

    def __init__(self, layer, x, start=None):
        super().__init__()
        self.layer = layer
        self.start = start

    def forward(self, x):
        return torch.utils._pytree.tree_leaves(self.layer(x, self.start))


def starts(layer, batch):
    count = layer.num_layers * (2 if layer.bidirectional else 1)
    h = torch.randn(count, batch, getattr(layer, "proj_size", 0) or layer.hidden_size)
    return (h, torch.randn(count, batch, layer.hidden_size)) if isinstance(layer, nn.LSTM) else h


@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_layers(name, started):
    layer = LAYERS[name]()
    start = starts(layer, 3 if layer.batch_first else 5) if started else None
    before = capture_program(Layer(layer, X, start), X)
    untouched = Untouched(before, X)
    after, rewrite = write_recurrences(before)
    check_rewrite(before, after, X, untouched=untouched)
    assert rewrite.count == 1
    assert not [operator for operator in operators(after) if ".input" in operator]


@pytest.mark.parametrize(
    "cell", [nn.GRUCell(4, 6), nn.LSTMCell(4, 6), nn.RNNCell(4, 6), nn.RNNCell(4, 6, False, "relu")]
)
def test_cells(cell):
    class Steps(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = cell

        def forward(self, x):
            state = None
            for at in range(3):
                state = self.cell(x[:, at], state)
            return state

    before = capture_program(Steps(), X)
    untouched = Untouched(before, X)
    after, rewrite = write_recurrences(before)
    check_rewrite(before, after, X, untouched=untouched)
    assert rewrite.count == 3
    assert not [operator for operator in operators(after) if "cell" in operator]


@pytest.mark.parametrize("shape", [(1, 5, 4), (3, 1, 4)], ids=["one sequence", "one step"])
def test_one_sequence_and_one_step_move_nothing(shape):
    x = torch.randn(shape)
    before = capture_program(Layer(nn.GRU(4, 6, batch_first=True), x), x)
    untouched = Untouched(before, x)
    after, _ = write_recurrences(before)
    check_rewrite(before, after, x, untouched=untouched)
    assert not [operator for operator in operators(after) if "transpose" in operator or "unbind" in operator]


@pytest.mark.parametrize("target", ["xnnpack", "onednn"])
def test_a_layer_is_one_call_of_the_engine(target):
    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.LSTM(4, 6, 2, bidirectional=True, batch_first=True)
            self.head = nn.Linear(12, 3)

        def forward(self, x):
            return self.head(self.layer(x)[0])

    x = torch.randn(2, 70, 4)
    proved = prove(Tagger(), (x,), target)
    assert proved.exit_code == 0, proved.reason
    assert not [warning for warning in proved.warnings if "is called" in warning]
