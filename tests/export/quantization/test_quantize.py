"""Quantized programs: form, numbers, provenance, state; what stays in float; and converting again without data."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.provenance import is_operator, module_path_of, source_of
from edgex.delegates.recipes.quantizers import OBSERVERS, LinearWeights, SymmetricInt8, shared_quantizer
from edgex.delegates.recipes.recipes import get_recipe
from edgex.errors import QuantizationError, UsageError
from edgex.export.capture.program import Capture, capture
from edgex.export.quantization.calibration.samples import Samples, find_calibration
from edgex.export.quantization.graph_module import close_program, open_program
from edgex.export.quantization.quantize import Calibrated
from edgex.export.quantization.quantized import Quantized
from edgex.export.quantization.running import GraphRunner
from edgex.export.rewrites.editing.editor import signature_of
from edgex.export.source.source import wrap_model
from edgex.runtime.session.numerics import measure_sqnr_db

HERE = Path(__file__).parent


class Net(nn.Module):
    """Convolution, residual sum, a masked sum, linear layers; a dict out, a dynamic batch, keyword arguments in."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.side = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(3, 8, 1)
        self.one, self.two, self.last = nn.Linear(8, 32), nn.Linear(32, 4), nn.Linear(4, 2)
        self.register_buffer("mask", torch.tensor([[0.0, 0.0, 0.0, -float("inf")]]))
        self.register_buffer("large_mask", torch.tensor([[0.0, 0.0, -1e6, 0.0]]))

    def forward(self, x: torch.Tensor, scale: torch.Tensor) -> dict[str, torch.Tensor]:
        y = torch.relu(torch.relu(self.conv(x)) + self.side(x))
        scores = self.two(torch.relu(self.one(y.mean((2, 3)))))
        masked = torch.relu(scores + self.mask)
        other = self.last(scores + self.large_mask)
        return {"scores": scores * scale, "masked": masked, "other": other, "product": scores @ scores.t()}


class Counting(nn.Module):
    """State that enters a quantized sum directly."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.register_buffer("hidden", torch.full((1, 6), 0.25))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.hidden.copy_(torch.tanh(self.linear(x + self.hidden)))
        return self.hidden * 1.0


class Averaging(nn.Module):
    """State that operators write to in place, whole and through a view, and that is read after both."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.head = nn.Linear(6, 6), nn.Linear(6, 6)
        self.register_buffer("rows", torch.zeros(2, 6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.rows.mul_(0.75)
        self.rows[:1].add_(0.25 * torch.relu(self.linear(x)))
        return self.head(self.rows)


def inputs(count: int = 1, batch: int = 3) -> list[dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(count)
    return [
        {"x": torch.randn(batch, 3, 8, 8, generator=generator), "scale": torch.rand(1, generator=generator) + 0.5}
        for _ in range(count)
    ]


def capture_net(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], shapes: Any = None) -> Capture:
    torch.manual_seed(3)
    return capture(module.eval(), args, kwargs, dynamic_shapes=shapes, source_root=HERE)


@pytest.fixture(scope="module")
def net() -> Capture:
    torch.manual_seed(3)
    shapes = {"x": {0: torch.export.Dim("batch", min=1, max=8)}, "scale": None}
    return capture_net(Net(), (), inputs()[0], shapes)


class Data:
    """Samples that count how often they were gone through."""

    def __init__(self, capture: Capture, samples: list[Any]) -> None:
        self.passes = 0

        def stream() -> Iterator[Any]:
            self.passes += 1
            yield from samples

        source = wrap_model(nn.Identity(), (), {})
        self.samples = Samples(find_calibration(stream, source, capture.eager), capture.eager, HERE)


@pytest.fixture(scope="module")
def calibrated(net: Capture) -> tuple[Calibrated, Data]:
    data = Data(net, inputs(12))
    return Calibrated(net.program, get_recipe("int8"), SymmetricInt8(), "minmax", data.samples), data


@pytest.fixture(scope="module")
def quantized(calibrated: tuple[Calibrated, Data]) -> Quantized:
    return calibrated[0].quantize()


def worst_db(program: CapturedProgram, capture: Capture, skip: tuple[str, ...] = ()) -> float:
    actual = GraphRunner(program).run(capture.eager.example)
    return min(
        measure_sqnr_db(expected.numpy(), found.numpy())
        for spec, expected, found in zip(program.outputs, capture.eager.example_outputs, actual, strict=True)
        if spec.name not in skip
    )


def operators(program: CapturedProgram) -> list[str]:
    return [str(node.target) for node in program.exported.graph.nodes if is_operator(node)]


def test_opened_and_closed_the_program_is_the_same(net: Capture) -> None:
    again = close_program(net.program, open_program(net.program))
    assert signature_of(again.exported) == signature_of(net.program.exported)
    assert [n.name for n in again.exported.graph.nodes] == [n.name for n in net.program.exported.graph.nodes]
    before, after = net.program.exported.graph_signature, again.exported.graph_signature
    assert [(s.kind, s.target) for s in after.input_specs] == [(s.kind, s.target) for s in before.input_specs]
    assert list(again.exported.state_dict) == list(net.program.exported.state_dict)
    assert worst_db(again, net) > 120
    assert again.exported.range_constraints == net.program.exported.range_constraints


def test_the_signature_stays_and_the_numbers_are_near(net: Capture, quantized: Quantized) -> None:
    program = quantized.program
    assert program.recipe == get_recipe("int8")
    assert signature_of(program.exported) == signature_of(net.program.exported)
    assert (program.inputs, program.outputs) == (net.program.inputs, net.program.outputs)
    assert 25 < worst_db(program, net) < 80
    # A size that is not the example's.
    (five,) = inputs(1, batch=5)
    found = GraphRunner(program).run([five["x"], five["scale"]])
    expected = net.eager.run([five["x"], five["scale"]])
    assert measure_sqnr_db(expected[0].numpy(), found[0].numpy()) > 25


def test_the_form_is_that_of_pt2e_with_weights_in_8_bits(quantized: Quantized) -> None:
    names = operators(quantized.program)
    assert names.count("quantized_decomposed.dequantize_per_channel.default") == 5
    assert "quantized_decomposed.quantize_per_tensor.default" in names
    exported = quantized.program.exported
    weights = {name: tensor for name, tensor in exported.state_dict.items() if name.endswith("weight_quantized")}
    assert sorted(weights) == [f"{name}.weight_quantized" for name in ("conv", "last", "one", "side", "two")]
    assert {tensor.dtype for tensor in weights.values()} == {torch.int8}
    assert not any(name.endswith(".weight") for name in exported.state_dict), "float weights are gone"


def test_every_operator_has_its_line_and_module(quantized: Quantized) -> None:
    for node in quantized.program.exported.graph.nodes:
        if is_operator(node):
            assert str(source_of(node, HERE)).startswith("test_quantize.py:"), node
            assert module_path_of(node) is not None, node
            assert "val" in node.meta, node
    weight = next(n for n in quantized.program.exported.graph.nodes if "dequantize_per_channel" in n.name)
    assert module_path_of(weight) in ("conv", "side", "one", "two")


def test_masks_stay_in_float_with_the_reason(quantized: Quantized) -> None:
    left = {(item.op, item.reason.split(":")[0]) for item in quantized.unquantized}
    assert ("aten.add.Tensor", "it computes with infinite values, as masks hold") in left
    assert any(op == "aten.add.Tensor" and "would be lost" in reason for op, reason in left)
    assert ("aten.matmul.default", "both of its factors are computed") in left
    for item in quantized.unquantized:
        assert str(item.source).startswith("test_quantize.py:")


class ReadTwice(nn.Module):
    """A convolution that a batch norm and a residual path read: its weights must stay what they are."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.next = nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.Conv2d(4, 4, 1)
        self.norm.running_var.fill_(0.04)  # type: ignore[union-attr]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x)
        return y + self.next(torch.relu(self.norm(y)))


def test_a_norm_is_not_folded_into_weights_that_others_read(monkeypatch: pytest.MonkeyPatch) -> None:
    from torchao.quantization.pt2e import quantize_pt2e

    searches: list[object] = []
    monkeypatch.setattr(quantize_pt2e, "_fold_conv_bn_qat", lambda module: searches.append(module) or module)
    search = quantize_pt2e._fold_conv_bn_qat
    torch.manual_seed(0)
    net, x = ReadTwice().eval(), torch.randn(2, 3, 6, 6)
    captured = capture(net, (x,), source_root=HERE)
    source = wrap_model(net, (x,), {})
    samples = Samples(find_calibration([x] * 8, source, captured.eager), captured.eager, HERE)
    found = Calibrated(captured.program, get_recipe("int8"), shared_quantizer("int8"), "histogram", samples).quantize()  # type: ignore[arg-type]
    (y,) = GraphRunner(found.program).run([x])
    ratio = measure_sqnr_db(net(x).detach().numpy(), y.detach().numpy())
    assert ratio > 25, f"{ratio:.1f} dB"
    assert not searches and quantize_pt2e._fold_conv_bn_qat is search
    assert "aten.batch_norm.default" in operators(found.program) and "aten.alias.default" not in operators(
        found.program
    )


def test_other_layers_in_float_need_no_data_again(
    calibrated: tuple[Calibrated, Data], quantized: Quantized, net: Capture
) -> None:
    owner, data = calibrated
    assert data.passes == 1
    with_conv = owner.quantize(frozenset({"conv", "two"}))
    assert data.passes == 1
    names = operators(with_conv.program)
    assert names.count("quantized_decomposed.dequantize_per_channel.default") == 3
    assert {"conv", "two"} <= {item.module for item in with_conv.unquantized}
    assert with_conv.program.float_modules == {"conv", "two"}
    assert worst_db(with_conv.program, net) >= worst_db(quantized.program, net) - 1
    # And the first result is what it was.
    again = owner.quantize()
    assert operators(again.program) == operators(quantized.program)
    assert torch.equal(
        GraphRunner(again.program).run(net.eager.example)[0], GraphRunner(quantized.program).run(net.eager.example)[0]
    )


def test_everything_in_float_is_refused(calibrated: tuple[Calibrated, Data]) -> None:
    with pytest.raises(QuantizationError, match="nothing in this model that int8 can quantize") as caught:
        calibrated[0].quantize(frozenset({"", "conv", "side", "one", "two", "last"}))
    assert "kept in floating point on request" in str(caught.value.why)


@pytest.mark.parametrize("observer", OBSERVERS)
def test_observers_see_outliers_each_in_its_way(observer: str) -> None:
    from edgex.delegates.recipes import observers

    spec = observers._OBSERVERS[observer].with_args(
        dtype=torch.int8, quant_min=-128, quant_max=127, qscheme=torch.per_tensor_affine, eps=2**-12
    )()
    values = torch.randn(100_000, generator=torch.Generator().manual_seed(0))
    values[0] = 100.0
    spec(values)
    spec(torch.full((4,), float("inf")))
    assert spec.saw_others
    scale, zero_point = spec.calculate_qparams()
    # minmax keeps the outlier, percentile cuts it off, histogram weighs it against the error of all others.
    largest = float((127 - zero_point) * scale)
    low, high = {"minmax": (99.0, 101.0), "percentile": (3.0, 6.0), "histogram": (2.0, 101.0)}[observer]
    assert low < largest < high


@pytest.mark.parametrize("model", [Counting, Averaging])
def test_state_is_carried_and_not_folded(model: type[nn.Module]) -> None:
    found = capture_net(model(), (torch.ones(1, 6),), {})
    data = Data(found, [*[(torch.ones(1, 6),)] * 2, *((torch.randn(1, 6),) for _ in range(8))])
    quantized = Calibrated(found.program, get_recipe("int8"), SymmetricInt8(), "minmax", data.samples).quantize()
    assert quantized.program.state == found.program.state
    runner = GraphRunner(quantized.program)
    first, second = runner.run(found.eager.example), runner.run(found.eager.example)
    found.eager.reset()
    expected = [found.eager.run(found.eager.example) for _ in range(2)]
    assert measure_sqnr_db(expected[0][0].numpy(), first[0].numpy()) > 25
    assert measure_sqnr_db(expected[1][0].numpy(), second[0].numpy()) > 20
    assert not torch.equal(first[0], second[0])
    runner.reset()
    assert torch.equal(runner.run(found.eager.example)[0], first[0])


def test_a_sample_that_the_model_refuses_is_named(net: Capture) -> None:
    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.linear = nn.Embedding(4, 8), nn.Linear(8, 8)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.linear(self.embedding(ids))

    found = capture_net(Words(), (torch.tensor([[1, 2]]),), {})
    data = Data(found, [(torch.tensor([[1, 3]]),), (torch.tensor([[1, 4]]),)])
    with pytest.raises(UsageError, match=r"calibration sample 2 of calibration.* cannot be run") as caught:
        Calibrated(found.program, get_recipe("int8"), SymmetricInt8(), "minmax", data.samples).quantize()
    assert "index out of range" in str(caught.value.why)
    assert str(caught.value.where).startswith("test_quantize.py:")


@pytest.mark.parametrize(
    ("recipe", "group_size", "low", "high"),
    [
        ("int8-dynamic", None, 30, 70),
        ("8da8w", None, 30, 70),
        ("8da4w", 8, 12, 35),
        ("8da4w", 32, 12, 35),
        ("int8-weight", None, 35, 70),
        ("int4-weight", 8, 12, 35),
    ],
)
def test_recipes_without_data(net: Capture, recipe: str, group_size: int | None, low: int, high: int) -> None:
    # A group of 8, which the command line does not offer, suits a tiny model.
    chosen = dataclasses.replace(get_recipe(recipe), group_size=group_size)
    quantizer = shared_quantizer(recipe)
    assert quantizer is not None
    assert not quantizer.observed
    quantized = Calibrated(net.program, chosen, quantizer, "histogram", None).quantize()
    assert signature_of(quantized.program.exported) == signature_of(net.program.exported)
    assert low < worst_db(quantized.program, net, skip=("masked", "other")) < high
    reasons = {item.module: item.reason for item in quantized.unquantized}
    if chosen.group_size == 32:
        assert reasons["one"] == "its 8 inputs are no multiple of the group size 32"
    else:
        assert "one" not in reasons
    if quantizer == LinearWeights():
        assert "conv" in reasons
    for node in quantized.program.exported.graph.nodes:
        if is_operator(node):
            assert source_of(node, HERE) is not None
    # Nothing of it changed the float program.
    assert worst_db(net.program, net) > 120


def test_parts_of_a_sequence_give_weights_names_that_are_names() -> None:
    """A layer of `self.layers[:2]` may be called `layers.slice(None, 2, None).0`; torch makes variables of names."""
    found = capture(nn.Sequential(nn.Linear(8, 8), nn.ReLU()).eval(), (torch.randn(2, 8),), source_root=HERE)
    for node in found.program.exported.graph.nodes:
        stack = node.meta.get("nn_module_stack", {})
        node.meta["nn_module_stack"] = {
            key: (path.replace("0", "slice(None, 2, None).0"), kind) for key, (path, kind) in stack.items()
        }
    quantizer = shared_quantizer("int8-dynamic")
    assert quantizer is not None
    quantized = Calibrated(found.program, get_recipe("int8-dynamic"), quantizer, "histogram", None).quantize()
    names = [node.name for node in quantized.program.exported.graph.nodes]
    assert any("slice_None_2_None" in name for name in names) and all(map(str.isidentifier, names)), names


def test_linear_layers_that_share_a_weight_share_its_values() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = nn.Linear(32, 32, bias=False)
            self.two = nn.Linear(32, 32, bias=False)
            self.two.weight = self.one.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.two(torch.relu(self.one(x)))

    found = capture_net(Tied(), (torch.randn(2, 32),), {})
    quantized = Calibrated(found.program, get_recipe("8da4w"), LinearWeights(), "histogram", None).quantize()
    assert sum(name.endswith("quantized") for name in quantized.program.exported.state_dict) == 1
    assert worst_db(quantized.program, found) > 12


def test_a_model_without_linear_layers_is_refused() -> None:
    found = capture_net(nn.Sequential(nn.Conv2d(1, 2, 3)), (torch.randn(1, 1, 4, 4),), {})
    with pytest.raises(QuantizationError, match="nothing in this model that 8da8w can quantize") as caught:
        Calibrated(found.program, get_recipe("8da8w"), LinearWeights(), "histogram", None).quantize()
    assert caught.value.exit_code == 5
    assert "no linear layer" in str(caught.value.why)


def test_an_exported_program_is_quantized_too(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).eval(), torch.randn(2, 16)
    torch.export.save(torch.export.export(model, (x,)), tmp_path / "model.pt2")
    found = capture(torch.export.load(tmp_path / "model.pt2"), (), source_root=tmp_path)
    data = Data(found, [(torch.randn(2, 16),) for _ in range(8)])
    for recipe, samples in (("int8", data.samples), ("a16w8", data.samples), ("8da8w", None)):
        quantizer = shared_quantizer(recipe)
        assert quantizer is not None
        quantized = Calibrated(found.program, get_recipe(recipe), quantizer, "minmax", samples).quantize()
        assert 25 < worst_db(quantized.program, found) < 80


def test_branches_stay_as_they_are() -> None:
    class Branching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.one(x)
            return torch.cond(y.sum() > 0, lambda z: self.two(z), lambda z: z * 2.0, (y,))

    found = capture_net(Branching(), (torch.randn(2, 8),), {})
    data = Data(found, [(torch.randn(2, 8),) for _ in range(8)])
    quantized = Calibrated(found.program, get_recipe("int8"), SymmetricInt8(), "minmax", data.samples).quantize()
    assert operators(quantized.program).count("quantized_decomposed.dequantize_per_channel.default") == 1
    for seed in range(4):
        x = torch.randn(2, 8, generator=torch.Generator().manual_seed(seed))
        (expected,), (actual,) = found.eager.run([x]), GraphRunner(quantized.program).run([x])
        assert measure_sqnr_db(expected.numpy(), actual.numpy()) > 20


def test_convolutions_without_a_dynamic_kernel_stay_in_float_with_the_reason() -> None:
    """Quantized, nothing could run the first: XNNPACK counts one channel as depthwise, and ExecuTorch has no kernel."""
    layers = nn.Conv2d(1, 4, 3), nn.Conv2d(4, 4, 3), nn.Conv2d(4, 8, 3, groups=4), nn.ConvTranspose2d(8, 2, 2)
    model = nn.Sequential(*layers, nn.Flatten(2), nn.Conv1d(2, 3, 3))
    found = capture_net(model, (torch.randn(1, 1, 12, 12),), {})
    quantized = Calibrated(
        found.program, get_recipe("int8-dynamic"), SymmetricInt8(dynamic=True), "histogram", None
    ).quantize()
    one_channel = "XNNPACK finds no ranges at every run for convolutions that read one channel a group"
    assert {item.module: item.reason for item in quantized.unquantized} == {
        "0": one_channel,
        "2": one_channel,
        "3": "XNNPACK has no transposed convolution whose ranges are found at every run",
        "5": "XNNPACK finds ranges at every run for 2-d convolutions, not for 1-d ones",
    }
    assert operators(quantized.program).count("quantized_decomposed.dequantize_per_channel.default") == 1
