"""Quantized programs on XNNPACK: the layers really run on its 8-bit kernels, and each recipe is true to PyTorch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from pte_support import write_artifact
from torch import nn

import edgex
from edgex.delegates.base import CapturedProgram, LoweredModule, Quantizes
from edgex.delegates.executorch.inner import InnerNode
from edgex.delegates.recipes.quantizers import shared_quantizer
from edgex.delegates.recipes.recipes import RECIPE_NAMES, get_recipe
from edgex.delegates.registry import check_recipe, delegate_names, get_delegate
from edgex.delegates.xnnpack import serialized
from edgex.delegates.xnnpack.delegate import XnnpackDelegate, XnnpackOptions
from edgex.errors import QuantizationError
from edgex.export.capture.program import capture
from edgex.export.quantization.calibration.samples import Samples, find_calibration
from edgex.export.quantization.quantize import Calibrated
from edgex.export.quantization.running import GraphRunner
from edgex.export.rewrites import apply_rewrites
from edgex.export.source.source import wrap_model
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.session.numerics import measure_sqnr_db

HERE = Path(__file__).parent


class Net(nn.Module):
    """Every kind of layer with weights: plain, grouped, depthwise and transposed convolutions, linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32)
        self.depthwise = nn.Conv2d(32, 32, 3, padding=1, groups=32)
        self.up = nn.ConvTranspose2d(32, 8, 2, stride=2)
        self.narrow = nn.Conv2d(8, 32, 1)
        self.one, self.two = nn.Linear(32, 64), nn.Linear(64, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.conv(x)))
        x = self.narrow(self.up(torch.relu(self.depthwise(x))))
        return self.two(torch.relu(self.one(x.mean((2, 3)))))


@pytest.fixture(scope="module")
def quantize() -> Callable[[str], tuple[CapturedProgram, torch.Tensor]]:
    torch.manual_seed(0)
    model = Net().eval()
    model.norm.running_mean.normal_()
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(1, 3, 8, 8, generator=generator)
    found = capture(model, (x,), source_root=HERE)
    program, _ = apply_rewrites(found.program)

    def make(recipe: str) -> tuple[CapturedProgram, torch.Tensor]:
        inputs = [(torch.randn(1, 3, 8, 8, generator=generator),) for _ in range(4)]
        data = find_calibration(inputs, wrap_model(model, (), {}), found.eager)
        samples = Samples(data, found.eager, HERE) if recipe == "int8" else None
        quantizer = shared_quantizer(recipe)
        assert quantizer is not None
        return Calibrated(program, get_recipe(recipe), quantizer, "minmax", samples).quantize().program, x

    return make


def lower(
    program: CapturedProgram, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Counter[str], LoweredModule, Artifact]:
    """Layers of XNNPACK's graphs as `kind input x weight`, what was lowered, and an artifact of it."""
    layers: Counter[str] = Counter()
    plain = serialized.read_nodes

    def spy(processed: bytes) -> list[InnerNode]:
        graph = serialized._as_json(serialized._flatbuffer(processed))
        values = [value["xvalue_union"] for value in graph["xvalues"]]
        tensors = [value.get("tensor_value", value) for value in values]
        types = {tensor["id_out"]: tensor["datatype"].removeprefix("xnn_datatype_") for tensor in tensors}
        for node in graph["xnodes"]:
            if "filter_id" in node["xnode_union"]:
                read = types[node["xnode_union"]["input1_id"]], types[node["xnode_union"]["filter_id"]]
                layers[f"{node['xnode_union_type'].removeprefix('XNN')} {read[0]} x {read[1]}"] += 1
        return plain(processed)

    monkeypatch.setattr(serialized, "read_nodes", spy)
    lowered, artifact = write_artifact(program, folder)
    return layers, lowered, artifact


def sqnr_db(program: CapturedProgram, artifact: Artifact, x: torch.Tensor) -> float:
    """How true the engine is to PyTorch running the same program."""
    (expected,) = GraphRunner(program).run([x])
    with edgex.load(artifact.path, check="size") as session:
        (actual,) = session.run(x.numpy())
    return measure_sqnr_db(expected.numpy(), actual)


# What XNNPACK calls its types: qint8 a tensor with one scale, qcint8 one a channel, qdint8 one a row found at run time,
# qbint4 one a block of weights.
STATIC = {
    "Conv2d qint8 x qcint8": 2,
    "DepthwiseConv2d qint8 x qcint8": 1,
    "ConvTranspose2d qint8 x qcint8": 1,
    "FullyConnected qint8 x qcint8": 2,
}
DYNAMIC = {
    "Conv2d qdint8 x qcint8": 2,
    "DepthwiseConv2d fp32 x fp32": 1,
    "ConvTranspose2d fp32 x fp32": 1,
    "FullyConnected qdint8 x qcint8": 2,
}
FLOAT = {"Conv2d fp32 x fp32": 2, "DepthwiseConv2d fp32 x fp32": 1, "ConvTranspose2d fp32 x fp32": 1}


@pytest.mark.parametrize(
    ("recipe", "expected"),
    [
        ("int8", STATIC),
        pytest.param("int8-dynamic", DYNAMIC, marks=pytest.mark.slow),
        pytest.param("8da8w", {**FLOAT, "FullyConnected qdint8 x qcint8": 2}, marks=pytest.mark.slow),
        ("8da4w", {**FLOAT, "FullyConnected qdint8 x qbint4": 2}),
    ],
)
def test_layers_run_on_kernels_for_few_bits(
    recipe: str,
    expected: dict[str, int],
    quantize: Callable[[str], tuple[CapturedProgram, torch.Tensor]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program, x = quantize(recipe)
    layers, lowered, artifact = lower(program, tmp_path / "net.edgex", monkeypatch)
    assert dict(layers) == expected
    assert not [item for item in lowered.plan.fallbacks if "quantize" in item.op], "conversions outside the delegate"
    if recipe == "8da4w":
        assert lowered.plan == XnnpackDelegate().plan(program, XnnpackOptions())
    assert sqnr_db(program, artifact, x) > 35
    # Profiles name what they measure: every operator has its module, the conversions too.
    named = [op for op in lowered.debug["ops"] if op["op"].startswith(("quantized_decomposed.", "torchao."))]
    assert named
    assert all(op["module"] is not None and op["source"] for op in named)


def test_a_transposed_convolution_in_groups_stays_in_float(tmp_path: Path) -> None:
    """XNNPACK has no 8-bit form of it: quantized, it would run on a kernel that takes a hundred times as long."""
    model = nn.Sequential(nn.Conv2d(4, 8, 3), nn.ConvTranspose2d(8, 8, 2, groups=2))
    found = capture(model.eval(), (torch.randn(1, 4, 6, 6),), source_root=HERE)
    data = find_calibration([(torch.randn(1, 4, 6, 6),)], wrap_model(model, (), {}), found.eager)
    quantizer = shared_quantizer("int8")
    assert quantizer is not None
    samples = Samples(data, found.eager, HERE)
    quantized = Calibrated(found.program, get_recipe("int8"), quantizer, "minmax", samples).quantize()
    assert [(item.module, item.op) for item in quantized.unquantized] == [("1", "aten.conv_transpose2d.input")]


@pytest.mark.parametrize("recipe", ["int8-weight", "int4-weight"])
def test_weights_alone_are_refused_with_the_reason(recipe: str) -> None:
    with pytest.raises(QuantizationError, match=f"'xnnpack' does not take --quantize {recipe}") as caught:
        check_recipe(XnnpackDelegate(), "xnnpack", recipe)
    assert "the outputs are garbage" in str(caught.value.why)
    assert caught.value.fix == "it takes int8, int8-dynamic, 8da8w, 8da4w"
    assert caught.value.exit_code == 5


def test_every_delegate_knows_its_recipes() -> None:
    for name in delegate_names():
        delegate = get_delegate(name)
        recipes = delegate.recipes if isinstance(delegate, Quantizes) else ()
        assert set(recipes) <= set(RECIPE_NAMES)
        for recipe in set(RECIPE_NAMES) - set(recipes):
            assert delegate.quantizer(recipe) is None
            with pytest.raises(QuantizationError):
                check_recipe(delegate, name, recipe)
