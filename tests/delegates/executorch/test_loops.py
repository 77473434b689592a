"""Recurrent layers as loops: proved in every precision, their weights in the file once, one step left out or taken."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.export import Dim

import edgex

TARGETS = ["xnnpack", "onednn"]
X = torch.randn(2, 70, 32, generator=torch.Generator().manual_seed(0))


class Tagger(nn.Module):
    """What each step is, and the state at the end."""

    def __init__(self, layer: nn.Module, width: int) -> None:
        super().__init__()
        self.layer = layer
        self.head = nn.Linear(width, 3)

    def forward(self, x):
        y, state = self.layer(x)
        return self.head(y), state if isinstance(state, torch.Tensor) else torch.cat(state, -1)


def make(kind: str = "lstm") -> nn.Module:
    torch.manual_seed(0)
    layers = {
        "lstm": lambda: (nn.LSTM(32, 48, 2, bidirectional=True, batch_first=True), 96),
        "lstm, one": lambda: (nn.LSTM(32, 48, batch_first=True), 48),
        "lstm, projected": lambda: (nn.LSTM(32, 48, proj_size=16, batch_first=True), 16),
        "gru": lambda: (nn.GRU(32, 48, bidirectional=True, bias=False, batch_first=True), 96),
        "tanh": lambda: (nn.RNN(32, 48, batch_first=True), 48),
    }
    return Tagger(*layers[kind]()).eval()


def least_sqnr_db(artifact) -> float:
    return artifact.manifest.verification["min_sqnr_db"]


@pytest.mark.parametrize("target", TARGETS)
def test_weights_are_in_the_file_once_and_packed_once(target, tmp_path):
    model = make()
    artifact = edgex.export_model(model, (X,), target=target, output=tmp_path)
    assert least_sqnr_db(artifact) >= 100, least_sqnr_db(artifact)
    weights = sum(tensor.numel() * tensor.element_size() for tensor in model.parameters())
    size = (artifact.path / "model.pte").stat().st_size
    assert weights < size < 1.2 * weights, f"{size} bytes for {weights} of weights"
    loops = 4  # two layers in two directions
    assert artifact.manifest.delegation["work_fraction"] == 1
    assert loops <= artifact.manifest.delegation["delegate_calls"] <= 3 * loops, artifact.manifest.delegation


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["lstm, projected", "gru", "tanh"])
def test_other_cells(kind, target, tmp_path):
    artifact = edgex.export_model(make(kind), (X[:, :9],), target=target, output=tmp_path)
    assert least_sqnr_db(artifact) >= 100, least_sqnr_db(artifact)


def test_half_precision(tmp_path):
    artifact = edgex.export_model(make("lstm, one"), (X,), target="xnnpack", precision="fp16", output=tmp_path)
    assert least_sqnr_db(artifact) >= 45, least_sqnr_db(artifact)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("recipe", ["int8", "8da8w"])
def test_what_comes_of_the_input_is_quantized_and_the_step_is_not(recipe, target, tmp_path):
    samples = [(torch.randn_like(X),) for _ in range(4)] if recipe == "int8" else None
    artifact = edgex.export_model(
        make("lstm, one"), (X,), target=target, quantize=recipe, calibration=samples, output=tmp_path
    )
    assert least_sqnr_db(artifact) >= 25, least_sqnr_db(artifact)
    quantization = artifact.manifest.quantization
    assert quantization is not None
    # Beside what is joined for the outputs alone.
    (left,) = [item for item in quantization["unquantized"] if item["op"] != "aten.cat.default"]
    assert left["op"] == "edgex.lstm_steps.default" and "loop" in left["reason"], left


@pytest.mark.parametrize("target", TARGETS)
def test_a_step_that_stays_out_of_the_backend(target, tmp_path):
    artifact = edgex.export_model(
        make("lstm, one"), (X,), target=target, exclude=["edgex.lstm_steps.default"], output=tmp_path
    )
    assert least_sqnr_db(artifact) >= 100, least_sqnr_db(artifact)
    fallbacks = artifact.manifest.delegation["fallbacks"]
    (left,) = [item for item in fallbacks if item["op"] == "edgex.lstm_steps.default"]
    assert left["code"] == "excluded" and left["modules"] == ["layer"], left


def test_a_dynamic_batch_is_no_loop_and_right(tmp_path):
    shapes = {"x": {0: Dim("batch", min=1, max=4)}}
    artifact = edgex.export_model(make("gru"), (X[:, :6],), target="xnnpack", dynamic_shapes=shapes, output=tmp_path)
    assert least_sqnr_db(artifact) >= 100, least_sqnr_db(artifact)


@pytest.mark.parametrize("target", TARGETS)
def test_a_loop_behind_sequences_of_unknown_length(target, tmp_path):
    class Packed(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.after = nn.LSTM(32, 48, batch_first=True), nn.LSTMCell(48, 32)

        def forward(self, x, lengths):
            packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
            y, _ = nn.utils.rnn.pad_packed_sequence(self.layer(packed)[0], batch_first=True, total_length=70)
            return y, self.after(y[:, 0])[0]

    torch.manual_seed(0)
    artifact = edgex.export_model(Packed().eval(), (X, torch.tensor([70, 70])), target=target, output=tmp_path)
    assert least_sqnr_db(artifact) >= 100, least_sqnr_db(artifact)
