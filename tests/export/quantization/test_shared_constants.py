"""A layer that runs several times is quantized each time, and its weight is held once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import edgex
from edgex.delegates.base import CapturedProgram
from edgex.delegates.recipes.quantizers import SymmetricInt8
from edgex.delegates.recipes.recipes import get_recipe
from edgex.export.capture.program import Capture, capture
from edgex.export.quantization.calibration.samples import Samples, find_calibration
from edgex.export.quantization.graph_module import open_program
from edgex.export.quantization.quantize import Calibrated
from edgex.export.quantization.running import GraphRunner
from edgex.export.quantization.shared_constants import part_constants
from edgex.export.source.source import wrap_model
from edgex.runtime.session.numerics import measure_sqnr_db

HERE = Path(__file__).parent


class Repeated(nn.Module):
    """One convolution three times on other ranges each, one linear layer twice, as heads have for several scales."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.linear = nn.Conv2d(8, 8, 3, padding=1), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(torch.relu(self.conv(x) * 4.0)) + self.conv(x * 0.25)
        pooled = y.mean((2, 3))
        return torch.cat([self.linear(pooled), self.linear(torch.relu(pooled) * 3.0)], 1)


def make_data() -> list[tuple[torch.Tensor]]:
    generator = torch.Generator().manual_seed(3)
    return [(torch.randn(1, 8, 12, 12, generator=generator),) for _ in range(8)]


def capture_net(module: nn.Module) -> Capture:
    return capture(module.eval(), make_data()[0], {}, dynamic_shapes=None, source_root=HERE)


@pytest.fixture(scope="module")
def net() -> Capture:
    torch.manual_seed(0)
    return capture_net(Repeated())


def _operators(program: CapturedProgram) -> list[Any]:
    return [node for node in program.exported.graph.nodes if str(node.target).startswith(("aten.conv", "aten.linear"))]


@pytest.mark.parametrize("dynamic", [False, True], ids=["int8", "int8-dynamic"])
def test_every_call_is_quantized_and_its_weight_held_once(net: Capture, dynamic: bool) -> None:
    source = wrap_model(nn.Identity(), (), {})
    samples = Samples(find_calibration(make_data, source, net.eager), net.eager, HERE)
    recipe = get_recipe("int8-dynamic" if dynamic else "int8")
    program = Calibrated(net.program, recipe, SymmetricInt8(dynamic=dynamic), "histogram", samples).quantize().program
    found = _operators(program)
    assert len(found) == 5
    weights = [node.args[1] for node in found]
    assert all(str(weight.target).startswith("quantized_decomposed.dequantize_per_channel") for weight in weights)
    held = [value for value in program.exported.state_dict.values() if value.dtype == torch.int8]
    assert sorted(value.dim() for value in held if value.dim()) == [2, 4]
    # Each has the scale of its own input.
    assert len({node.args[2].name for node in found}) == 5


def test_a_weight_that_is_also_read_as_it_is_stays_one(net: Capture) -> None:
    class Also(Repeated):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            penalty = self.linear.weight.abs().sum() + self.conv.weight.abs().sum()
            return super().forward(x) * penalty + self.linear.weight[0].sum()

    torch.manual_seed(0)
    also = capture_net(Also())
    source = wrap_model(nn.Identity(), (), {})
    samples = Samples(find_calibration(make_data, source, also.eager), also.eager, HERE)
    program = Calibrated(also.program, get_recipe("int8"), SymmetricInt8(), "histogram", samples).quantize().program
    held = [value for value in program.exported.state_dict.values() if value.dtype == torch.int8 and value.dim()]
    assert sorted(value.dim() for value in held) == [2, 4]
    found = GraphRunner(program).run(also.eager.example)
    assert measure_sqnr_db(also.eager.example_outputs[0].numpy(), found[0].numpy()) > 25
    names = [name for name in program.exported.state_dict if name.endswith("weight")]
    assert names == ["conv.weight", "linear.weight"]


def test_constants_of_one_reader_stay() -> None:
    module = open_program(capture_net(nn.Conv2d(8, 8, 3)).program)
    before = str(module.graph)
    assert part_constants(module) == {}
    assert str(module.graph) == before


@pytest.mark.parametrize("target", ["xnnpack", "onnx-cpu", "onednn"])
def test_the_artifact_runs_and_is_near_eager(target: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, data = Repeated().eval(), make_data()
    found = edgex.export_model(model, data[0], target=target, quantize="int8", calibration=data, output=tmp_path)
    with edgex.load(found.path) as session:
        (y,) = session(data[5][0])
    sqnr = measure_sqnr_db(model(data[5][0]).detach().numpy(), np.asarray(y))
    assert sqnr > 25, f"{target}: {sqnr:.1f} dB"
