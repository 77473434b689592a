"""Packed sequences: eager's numbers for other lengths than the example's, on every target; else refused by line."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch
from rewriting import randomise_weights
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pack_sequence, pad_packed_sequence

import edgex
from benchmarks.operators.proof import prove
from edgex.errors import CaptureError
from edgex.export.capture.program import capture

HERE = Path(__file__).parent
X = torch.randn(3, 7, 4, generator=torch.Generator().manual_seed(0))
LENGTHS = torch.tensor([4, 7, 2])


class Layer(nn.Module):
    """All results of a layer between packing and padding."""

    def __init__(
        self, kind, layers=2, *, two_ways=True, batch_first=True, in_order=False, more=None, started=True, **of
    ):
        super().__init__()
        self.layer = getattr(nn, kind)(4, 6, layers, bidirectional=two_ways, batch_first=batch_first, **of)
        self.batch_first, self.in_order, self.more, self.started = batch_first, in_order, more, started
        count = layers * (2 if two_ways else 1)
        self.register_buffer("h", torch.zeros(count, 3, of.get("proj_size", 6)))
        self.register_buffer("c", torch.zeros(count, 3, 6))

    def forward(self, x, lengths):
        x = x if self.batch_first else x.transpose(0, 1)
        packed = pack_padded_sequence(x, lengths, self.batch_first, enforce_sorted=not self.in_order)
        start = ((self.h, self.c) if isinstance(self.layer, nn.LSTM) else self.h) if self.started else None
        y, ends = self.layer(packed, start)
        total = None if self.more is None else x.size(1 if self.batch_first else 0) + self.more
        y, lengths = pad_packed_sequence(y, self.batch_first, padding_value=-1.5, total_length=total)
        return y, lengths, *(ends if isinstance(ends, tuple) else (ends,))


def assert_eagers(module, example, *others):
    randomise_weights(module)
    captured = capture(module.eval(), example, source_root=HERE)
    program = captured.program.exported.module()
    for inputs in (example, *others):
        found, expected = program(*inputs), torch.utils._pytree.tree_leaves(module(*inputs))
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other)
    return captured


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("started, batch_first", [*itertools.product([False, True], repeat=2)])
def test_lengths_that_a_run_finds(kind, started, batch_first):
    module = Layer(kind, started=started, batch_first=batch_first, in_order=True)
    others = [(X, torch.tensor(lengths)) for lengths in ([3, 6, 2], [1, 1, 1], [7, 7, 7])]
    captured = assert_eagers(module, (X, LENGTHS), *others)
    assert any("as many steps as the longest" in notice for notice in captured.notices)


@pytest.mark.parametrize("more", [0, 2])
def test_a_total_length_is_a_fixed_size(more):
    module = Layer("LSTM", 1, two_ways=False, more=more)
    captured = assert_eagers(module, (X, torch.tensor([7, 5, 2])), (X, torch.tensor([5, 5, 1])))
    assert captured.program.outputs[0].static_shape == (3, 7 + more, 6)
    assert not any("as many steps as the longest" in notice for notice in captured.notices)


def test_projections():
    assert_eagers(Layer("LSTM", proj_size=3, in_order=True), (X, LENGTHS), (X, torch.tensor([1, 3, 6])))


class Words(nn.Module):
    """What models do with packed sequences, by name."""

    def __init__(self, forward):
        super().__init__()
        self.words, self.layer, self.head = nn.Embedding(9, 4), nn.GRU(4, 6, batch_first=True), nn.Linear(6, 3)
        self._forward = forward

    def forward(self, *inputs):
        return self._forward(self, *inputs)


def _numbers(self, x, lengths):
    packed = pack_padded_sequence(x, lengths.tolist(), batch_first=True, enforce_sorted=False)
    return pad_packed_sequence(self.layer(packed)[0])[0]


def _masked(self, x, lengths):
    mask = torch.arange(x.size(1)) < lengths[:, None]
    y, _ = self.layer(pack_padded_sequence(x, mask.sum(1).cpu(), batch_first=True, enforce_sorted=False))
    y = PackedSequence(torch.tanh(self.head(y.data)), y.batch_sizes, y.sorted_indices, y.unsorted_indices)
    return pad_packed_sequence(y, batch_first=True)


def _rows(self, x, lengths):
    packed = pack_padded_sequence((x > 0).sum(-1), lengths, batch_first=True, enforce_sorted=False)
    y, h = self.layer(packed._replace(data=self.words(packed.data)))
    return pad_packed_sequence(y)[0], h


@pytest.mark.parametrize("forward", [_numbers, _masked, _rows])
def test_what_models_do(forward):
    assert_eagers(Words(forward), (X, LENGTHS), (X, torch.tensor([1, 3, 6])))


def test_sequences_that_are_inputs():
    def forward(self, x, y):
        packed, h = self.layer(pack_sequence([x, y]))
        return pad_packed_sequence(packed)[0], h

    captured = assert_eagers(Words(forward), (X[0], X[1, :3]), (X[1], X[2, :3]))
    assert captured.program.outputs[0].static_shape == (7, 2, 6)


@pytest.mark.parametrize(
    "use, said",
    [
        (lambda y: y.data.mean(0), "reads its rows"),
        (lambda y: torch.cumsum(y.data, 0), "reads its rows"),
        (lambda y: y.data, "returns it, or its rows"),
        (lambda y: y, "returns it, or its rows"),
        (lambda y: y.data.size(0) * y.data.tanh(), "reads how many rows"),
        (lambda y: pad_packed_sequence(y)[0][:, y.unsorted_indices], "reads the order of its sequences"),
        (lambda y: y.batch_sizes.float(), "reads its batch_sizes"),
    ],
)
def test_what_depends_on_the_rows_is_refused_with_its_line(use, said):
    def forward(self, x, lengths):
        return use(self.layer(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))[0])

    with pytest.raises(CaptureError, match=said) as caught:
        capture(Words(forward).eval(), (X, LENGTHS), source_root=HERE)
    assert "test_packing.py" in str(caught.value.where)
    assert "total_length" in str(caught.value.fix)


@pytest.mark.parametrize("target", ["xnnpack", "onnx-cpu", "onednn"])
def test_targets(target, tmp_path):
    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.head = nn.LSTM(4, 6, bidirectional=True, batch_first=True), nn.Linear(12, 5)

        def forward(self, x, lengths):
            y, (h, c) = self.layer(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))
            return self.head(pad_packed_sequence(y, batch_first=True)[0]), h, c

    module = Tagger().eval()
    randomise_weights(module)
    assert prove(module, (X, LENGTHS), target).exit_code == 0
    # One sequence: the proof's own inputs have no other length.
    artifact = edgex.export_model(
        module, (X[:1], LENGTHS[1:2]), target=target, output=tmp_path / f"tagger.{target}.edgex"
    )
    with edgex.load(artifact.path) as session:
        for length in (7, 5, 1):
            inputs = X[:1], torch.tensor([length])
            y, h, c = module(*inputs)
            for found, expected in zip(session.run(*inputs), (y, h, c), strict=True):
                torch.testing.assert_close(torch.from_numpy(found), expected)


class Decoder(nn.Module):
    """A tagger with a conditional random field: the best path by Viterbi's steps, back from each sequence's own end."""

    def __init__(self, tags=4):
        super().__init__()
        self.words, self.layer = nn.Embedding(9, 4), nn.LSTM(4, 3, bidirectional=True, batch_first=True)
        self.head, self.moves = nn.Linear(6, tags), nn.Parameter(torch.zeros(tags, tags))

    def forward(self, ids, mask):
        packed = pack_padded_sequence(self.words(ids), mask.sum(1), batch_first=True, enforce_sorted=False)
        y, _ = pad_packed_sequence(self.layer(packed)[0], batch_first=True, total_length=ids.size(1))
        scores, seen = self.head(y), []
        total = scores[:, 0]
        for at in range(1, ids.size(1)):
            best, before = (total.unsqueeze(2) + self.moves + scores[:, at].unsqueeze(1)).max(1)
            total = torch.where(mask[:, at, None], best, total)
            seen.append(before)
        path = [total.argmax(1)]
        for at in reversed(range(1, ids.size(1))):
            earlier = seen[at - 1].gather(1, path[0].unsqueeze(1)).squeeze(1)
            path.insert(0, torch.where(mask[:, at], earlier, path[0]))
        return total, torch.stack(path, 1)


def test_a_path_through_tags():
    module = Decoder().eval()
    randomise_weights(module)
    ids = torch.randint(0, 9, (2, 5), generator=torch.Generator().manual_seed(0))
    mask = torch.arange(5) < torch.tensor([[5], [3]])
    assert_eagers(module, (ids, mask), (ids.flip(0), mask), (ids, mask.flip(0)))
    proved = prove(module, (ids, mask), "onnx-cpu")
    assert proved.exit_code == 0, proved.reason
