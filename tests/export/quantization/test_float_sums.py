"""Which sums and products stay in floating point because nothing in 8 bits reads them."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from edgex.delegates.recipes.quantizers import SymmetricInt8
from edgex.delegates.recipes.recipes import get_recipe
from edgex.export.capture.program import capture
from edgex.export.quantization.calibration.samples import Samples, find_calibration
from edgex.export.quantization.float_sums import REASON, find_float_sums
from edgex.export.quantization.quantize import Calibrated
from edgex.export.quantization.running import GraphRunner
from edgex.export.source.source import wrap_model
from edgex.runtime.session.numerics import measure_sqnr_db

HERE = Path(__file__).parent
TOKENS = torch.export.Dim("tokens", min=2, max=16)


class Stream(nn.Module):
    """A residual stream with one channel far larger than the rest, as trained transformers have; norms before layers.

    The first sum is read by a norm and the second sum; the last one by the output alone.
    """

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(16) for _ in range(2))
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(2))
        self.register_buffer("large", torch.tensor([500.0, *([0.0] * 15)]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.large
        for norm, layer in zip(self.norms, self.layers, strict=True):
            x = x + layer(norm(x.view(x.shape)))
        return x


class Residual(nn.Module):
    """Sums between layers in 8 bits, behind a ReLU and not, and one that only the output reads."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.three = (nn.Linear(8, 8) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.two(self.one(x) + x)
        x = self.three(torch.relu(self.two(x) + x))
        return x + self.one(x)


def test_a_residual_stream_that_norms_read_keeps_its_small_values() -> None:
    torch.manual_seed(0)
    model = Stream().eval()
    found = capture(model, (torch.randn(1, 6, 16),), {}, ({1: TOKENS},), source_root=HERE)
    generator = torch.Generator().manual_seed(1)
    inputs = [(torch.randn(1, 6, 16, generator=generator),) for _ in range(8)]
    samples = Samples(find_calibration(inputs, wrap_model(model, (), {}), found.eager), found.eager, HERE)
    quantized = Calibrated(found.program, get_recipe("int8"), SymmetricInt8(), "minmax", samples).quantize()
    assert [item.op for item in quantized.unquantized] == ["aten.add.Tensor"] * 3
    assert {(item.reason, item.unusual) for item in quantized.unquantized} == {(REASON, False)}
    (expected,) = found.eager.run(inputs[0])
    (actual,) = GraphRunner(quantized.program).run(list(inputs[0]))
    # Without the large channel: 8 bits for all channels would leave nothing of the others.
    assert measure_sqnr_db(expected[..., 1:].numpy(), actual[..., 1:].numpy()) > 30


def test_sums_between_quantized_layers_stay_quantized() -> None:
    found = capture(Residual().eval(), (torch.randn(2, 8),), source_root=HERE)
    names = {node.name for node in found.program.exported.graph.nodes if node.op == "call_function"}
    assert len(names) > 7
    assert list(find_float_sums(found.program.exported.graph, names)) == ["add_2"]  # the outputs' own
    # With the last layer in floating point, the sum before it is no longer read in 8 bits.
    last = [node.name for node in found.program.exported.graph.nodes if "linear" in str(node.target)][3]
    relu = next(node.name for node in found.program.exported.graph.nodes if "relu" in str(node.target))
    assert list(find_float_sums(found.program.exported.graph, names - {last, relu})) == ["add_1", "add_2"]
