"""Functions of one number between bytes, which XNNPACK and ONNX Runtime read from tables, as no float kernel does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from pte_support import write_manifest
from quantized_support import kinds, optimized
from torch import nn

import edgex
from edgex.delegates.base import CapturedProgram
from edgex.delegates.recipes.recipes import get_recipe
from edgex.delegates.registry import get_delegate
from edgex.export.capture.program import capture
from edgex.export.quantization.calibration.samples import Samples, find_calibration
from edgex.export.quantization.quantize import Calibrated
from edgex.export.quantization.running import GraphRunner
from edgex.export.source.source import wrap_model
from edgex.runtime.session.numerics import measure_sqnr_db

HERE = Path(__file__).parent

FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "sigmoid": torch.sigmoid,
    "silu": F.silu,
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "tanh": torch.tanh,
    "gelu": F.gelu,
    "elu": lambda x: F.elu(x, 0.7),
}
# ONNX Runtime has tables of some only, ExecuTorch has no operator `hardsigmoid` for XNNPACK.
IN_TABLES = {
    "xnnpack": ("sigmoid", "silu", "hardswish", "leaky_relu", "tanh", "gelu", "elu"),
    "onnx-cpu": ("sigmoid", "silu", "hardswish", "hardsigmoid", "leaky_relu"),
}


class Net(nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 16, 3), nn.Conv2d(16, 8, 1)
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.function(3 * self.first(x)))


def quantize(module: nn.Module, target: str, *shape: int) -> tuple[CapturedProgram, torch.Tensor]:
    """As the pipeline quantizes it for a target, and an input."""
    torch.manual_seed(0)
    for weight in module.parameters():
        nn.init.normal_(weight, std=0.3)
    generator = torch.Generator().manual_seed(1)
    data = [torch.randn(*shape, generator=generator) for _ in range(8)]
    found = capture(module.eval(), (data[0],), source_root=HERE)
    samples = Samples(find_calibration(data, wrap_model(module, (), {}), found.eager), found.eager, HERE)
    quantizer = get_delegate(target).quantizer("int8")
    assert quantizer is not None
    return Calibrated(found.program, get_recipe("int8"), quantizer, "minmax", samples).quantize().program, data[0]


def floats_between_layers(program: CapturedProgram) -> list[str]:
    """Operators that compute of something else than bytes, or give something else."""
    found = []
    for node in program.exported.graph.nodes:
        if node.op != "call_function" or "quantize" in str(node.target):
            continue
        around = [one for one in (*node.all_input_nodes, *node.users) if one.op == "call_function"]
        if not all("quantize" in str(one.target) for one in around):
            found.append(str(node.target))
    return found


@pytest.mark.parametrize(("target", "name"), [(target, name) for target in IN_TABLES for name in IN_TABLES[target]])
def test_it_stays_in_bytes_and_is_right(target: str, name: str, tmp_path: Path) -> None:
    function = FUNCTIONS[name]
    program, x = quantize(Net(function), target, 1, 3, 12, 12)
    assert not floats_between_layers(program)
    delegate = get_delegate(target)
    lowered = delegate.lower(program, delegate.options_type())
    folder = tmp_path / f"net.{target}.edgex"
    folder.mkdir()
    lowered.write(folder)
    if target == "onnx-cpu":
        found = kinds(optimized(folder))
        assert found["QuantizeLinear"] == found["DequantizeLinear"] == 1, found
        assert not {"Sigmoid", "HardSigmoid", "LeakyRelu", "Mul"} & found.keys()
    else:
        assert not lowered.plan.fallbacks
    artifact = write_manifest(folder, lowered, target=target, engine=delegate.engine)
    with edgex.load(artifact.path, check="size") as session:
        actual = session.run(x.numpy())[0]
    simulated = GraphRunner(program).run([x])[0].numpy()
    db = measure_sqnr_db(simulated, actual)
    assert db > 35, f"{db:.1f} dB against the quantized program"


@pytest.mark.parametrize(("target", "name"), [(target, name) for target in IN_TABLES for name in IN_TABLES[target]])
def test_what_reads_a_float_or_gives_one_stays_a_float(target: str, name: str) -> None:
    """8 bits would cost digits there, and conversions of their own."""

    class Floats(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.layer = nn.LayerNorm(16), nn.Linear(16, 16)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return FUNCTIONS[name](self.layer(FUNCTIONS[name](self.norm(x))))

    program, _ = quantize(Floats(), target, 2, 16)
    nodes = program.exported.graph.nodes
    quantized = [node for node in nodes if str(node.target).startswith("quantized_decomposed.quantize_per_tensor")]
    before, behind = (one.args[0] for one in quantized)  # of the layer alone
    assert str(behind.target) == "aten.linear.default" != str(before.target)


def test_onednn_keeps_them_in_the_convolution() -> None:
    """It computes them of the sums, before these are rounded."""
    program, _ = quantize(Net(F.silu), "onednn", 1, 3, 12, 12)
    assert program.exported.graph.find_nodes(op="call_function", target=torch.ops.aten.silu.default)
