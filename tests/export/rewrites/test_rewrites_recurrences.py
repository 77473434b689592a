"""Recurrent layers step by step: the numbers of PyTorch's own kernels, on every target that asks for it."""

from __future__ import annotations

import pytest
import torch
from rewriting import Untouched, capture_program, check_rewrite, operators
from torch import nn

from benchmarks.operators.proof import prove
from edgex.export.rewrites.recurrences.layers import loop_recurrences, write_recurrences

X = torch.randn(4, 5, 4, generator=torch.Generator().manual_seed(0))
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


@pytest.mark.parametrize("write", [loop_recurrences, write_recurrences])
@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_layers(name, started, write):
    layer = LAYERS[name]()
    start = starts(layer, 4 if layer.batch_first else 5) if started else None
    before = capture_program(Layer(layer, X, start), X)
    untouched = Untouched(before, X)
    after, rewrite = write(before)
    check_rewrite(before, after, X, untouched=untouched)
    assert rewrite.count == 1
    loops = [operator for operator in operators(after) if "_steps" in operator]
    directions = layer.num_layers * (2 if layer.bidirectional else 1)
    assert len(loops) == (directions if write is loop_recurrences else 0)
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


class Computed(nn.Module):
    """A layer whose weights an input changes."""

    def __init__(self):
        super().__init__()
        self.layer = nn.GRU(4, 6, batch_first=True)

    def forward(self, x):
        weights = [weight * x.mean() for weight in self.layer._flat_weights]
        return torch.gru(x, x.new_zeros(1, x.shape[0], 6), weights, True, 1, 0.0, False, False, True)


@pytest.mark.parametrize(
    ("module", "x"),
    [(Layer(nn.GRU(4, 6, batch_first=True), X), X[:, :3]), (Computed(), X)],
    ids=["three steps", "weights that are computed"],
)
def test_what_is_no_loop_is_written_out(module, x):
    before = capture_program(module, x)
    untouched = Untouched(before, x)
    assert loop_recurrences(before) == (before, None)
    after, rewrite = write_recurrences(before)
    check_rewrite(before, after, x, untouched=untouched)
    assert rewrite.count == 1


def test_a_dynamic_batch_is_left_alone():
    before = capture_program(
        Layer(nn.GRU(4, 6, batch_first=True), X), X, dynamic_shapes={"x": {0: torch.export.Dim("batch", max=8)}}
    )
    assert loop_recurrences(before) == (before, None)
    assert write_recurrences(before) == (before, None)


@pytest.mark.parametrize("target", ["xnnpack", "onednn"])
def test_a_layer_of_few_steps_is_one_call_of_the_engine(target):
    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.LSTM(4, 6, 2, bidirectional=True, batch_first=True)
            self.head = nn.Linear(12, 3)

        def forward(self, x):
            return self.head(self.layer(x)[0])

    x = torch.randn(2, 3, 4)
    proved = prove(Tagger(), (x,), target)
    assert proved.exit_code == 0, proved.reason
    assert not [warning for warning in proved.warnings if "is called" in warning]
