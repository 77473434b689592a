"""One int8 program on every CPU target: no engine is more than 3 dB further from eager than PyTorch running it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from pte_support import write_manifest
from torch import nn

import edgex
from edgex.delegates.base import CapturedProgram
from edgex.delegates.recipes.quantizers import saturating_quantizer
from edgex.delegates.recipes.recipes import get_recipe
from edgex.delegates.registry import get_delegate
from edgex.export.capture.program import capture
from edgex.export.quantization.calibration.samples import Samples, find_calibration
from edgex.export.quantization.quantize import Calibrated
from edgex.export.quantization.running import GraphRunner
from edgex.export.rewrites import apply_rewrites
from edgex.export.source.source import wrap_model
from edgex.runtime.session.numerics import measure_sqnr_db

HERE = Path(__file__).parent
MOST_DB = 3.0


class Net(nn.Module):
    """Convolutions with a residual sum and pooling, then a norm and linear layers with a sum in float."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 16, 3, padding=1)
        self.pool, self.norm = nn.MaxPool2d(2), nn.LayerNorm(16)
        self.one, self.two, self.three = nn.Linear(16, 32), nn.Linear(32, 16), nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool(torch.relu(self.first(x)))
        x = torch.relu(self.second(x) + x).flatten(2).transpose(1, 2)
        x = self.norm(x + self.two(torch.relu(self.one(x))))
        return self.three(x)


@dataclass(frozen=True)
class Quantized:
    program: CapturedProgram
    inputs: list[torch.Tensor]
    expected: list[np.ndarray]
    simulated_db: float


@pytest.fixture(scope="module")
def quantized() -> Quantized:
    torch.manual_seed(0)
    model = Net().eval()
    generator = torch.Generator().manual_seed(1)
    data = [torch.randn(1, 3, 8, 8, generator=generator) for _ in range(20)]
    found = capture(model, (data[0],), source_root=HERE)
    program, _ = apply_rewrites(found.program)
    samples = Samples(find_calibration(data, wrap_model(model, (), {}), found.eager), found.eager, HERE)
    quantizer = saturating_quantizer("int8")
    assert quantizer is not None
    made = Calibrated(program, get_recipe("int8"), quantizer, "minmax", samples).quantize().program
    inputs = [torch.randn(1, 3, 8, 8, generator=generator) for _ in range(4)]
    with torch.no_grad():
        expected = [model(x).numpy() for x in inputs]
    runner = GraphRunner(made)
    return Quantized(made, inputs, expected, worst_db(expected, [runner.run([x])[0].numpy() for x in inputs]))


def worst_db(expected: list[np.ndarray], actual: list[np.ndarray]) -> float:
    return min(measure_sqnr_db(*pair) for pair in zip(expected, actual, strict=True))


@pytest.mark.parametrize("target", ["xnnpack", "onnx-cpu", "onednn", "reference"])
def test_a_target_is_as_accurate_as_the_quantized_program(target: str, quantized: Quantized, tmp_path: Path) -> None:
    delegate = get_delegate(target)
    if not delegate.availability().available:
        pytest.skip(f"{target}: {delegate.availability().reason}")
    lowered = delegate.lower(quantized.program, delegate.options_type())
    folder = tmp_path / f"net.{target}.edgex"
    folder.mkdir()
    lowered.write(folder)
    artifact = write_manifest(folder, lowered, target=target, engine=delegate.engine)
    with edgex.load(artifact.path, check="size") as session:
        actual = [session.run(x.numpy())[0] for x in quantized.inputs]
    assert 25 < quantized.simulated_db < 60
    # Better is no disagreement: an engine may round less than the program does.
    assert worst_db(quantized.expected, actual) > quantized.simulated_db - MOST_DB
