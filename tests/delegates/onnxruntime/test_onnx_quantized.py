"""Quantized programs on onnx-cpu: what ONNX Runtime makes of them, and their numbers against PyTorch's."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx_support import capture, lower, open_session, reinitialise, sqnr_db, write_artifact
from quantized_support import ByteWeight, as_quantized, between, capture_quantized, kinds, optimized
from torch import nn
from torch.nn import functional

from edgex.delegates.base import CapturedProgram, LoweredModule
from edgex.delegates.onnxruntime.cpu import OnnxCpuDelegate, OnnxCpuOptions
from edgex.delegates.onnxruntime.lowering import Checks, lower_program
from edgex.delegates.recipes.quantizers import SymmetricInt8, saturating_quantizer
from edgex.errors import QuantizationError
from edgex.runtime.artifact.artifact import open_artifact
from edgex.runtime.artifact.specs import Dim
from edgex.runtime.engines.isa import saturates_bytes
from edgex.runtime.engines.onnxruntime.engine import OnnxRuntimeEngine
from edgex.runtime.engines.trace.tracing import plan_trace
from edgex.runtime.session.runner import EngineSettings

THIS = Path(__file__).name


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@dataclasses.dataclass(frozen=True)
class Case:
    """A model, its quantized program and the artifact made of it."""

    model: nn.Module
    inputs: tuple[torch.Tensor, ...]
    program: CapturedProgram
    lowered: LoweredModule
    folder: Path

    def run(self, *inputs: torch.Tensor) -> np.ndarray:
        with open_session(self.folder) as session:
            return session.run(*(inputs or self.inputs))[0]

    def quantized(self, *inputs: torch.Tensor) -> np.ndarray:
        """What PyTorch makes of the quantized program."""
        with torch.no_grad():
            return self.program.exported.module()(*(inputs or self.inputs)).numpy()

    def floating(self, *inputs: torch.Tensor) -> np.ndarray:
        with torch.no_grad():
            return self.model(*(inputs or self.inputs)).numpy()


def quantize(
    program: CapturedProgram, batches: list[tuple[torch.Tensor, ...]], recipe: str = "int8"
) -> CapturedProgram:
    """A static recipe as the pipeline makes it."""
    from edgex.export.quantization import pt2e

    quantizer = saturating_quantizer(recipe)
    assert quantizer is not None
    observed = pt2e.prepare(program, quantizer, "minmax", lambda node: True)
    pt2e.observe_weights(observed)
    with torch.no_grad():
        for batch in batches:
            observed.module(*batch)
    return as_quantized(pt2e.convert(observed))


def make(model: nn.Module, program: CapturedProgram, inputs: tuple[torch.Tensor, ...], folder: Path) -> Case:
    lowered = lower(program)
    return Case(model, inputs, program, lowered, write_artifact(lowered, folder / "a"))


class Images(nn.Module):
    """What convolutional networks are made of."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.pool = nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.MaxPool2d(2)
        self.first, self.second = nn.Conv2d(16, 16, 3, padding=1), nn.Conv2d(16, 16, 1)
        self.depthwise, self.clip = nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.ReLU6()
        self.register_buffer("shift", random(16, 1, 1))
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        x = self.pool(torch.relu(self.stem(x)))
        y = torch.relu(self.second(torch.relu(self.first(x))) + x)
        y = y + self.shift
        y = torch.cat([self.clip(self.depthwise(y)), y], 1)
        return self.head(y.mean((2, 3)))


class Layer(nn.Module):
    def __init__(self, width: int = 32, hidden: int = 80, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (f(x).view(b, t, self.heads, d // self.heads).transpose(1, 2) for f in (self.q, self.k, self.v))
        a = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, d)
        x = self.norm(x + self.o(a))
        return x + self.down(functional.gelu(self.up(x)))


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Case:
    model = reinitialise(Images())
    program = quantize(capture(model, (random(2, 3, 32, 32),)), [(random(2, 3, 32, 32, seed=s),) for s in range(4)])
    return make(model, program, (random(2, 3, 32, 32, seed=9),), tmp_path_factory.mktemp("images"))


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """Both leading sizes are dynamic, so that shapes are computed at run time."""
    model = reinitialise(Layer())
    sizes = ({0: torch.export.Dim("b", min=2, max=4), 1: torch.export.Dim("t", min=2, max=16)},)
    dims = {("x", 0): Dim("b", 2, 4), ("x", 1): Dim("t", 2, 16)}
    program = capture(model, (random(2, 8, 32),), dynamic=sizes, dims=dims)
    program = quantize(program, [(random(2, 8, 32, seed=s),) for s in range(4)])
    return make(model, program, (random(2, 8, 32, seed=9),), tmp_path_factory.mktemp("tokens"))


def check_numbers(case: Case, *inputs: torch.Tensor) -> None:
    """As near to the float model as PyTorch's own run of the quantized program, and near to that."""
    floating, quantized, actual = case.floating(*inputs), case.quantized(*inputs), case.run(*inputs)
    assert np.abs(floating).max() > 0.1
    assert sqnr_db(quantized, actual) > 25
    assert sqnr_db(floating, actual) > max(20.0, sqnr_db(floating, quantized) - 3)


class TestStaticImages:
    def test_every_operator_computes_on_bytes(self, images: Case) -> None:
        graph = optimized(images.folder)
        found = kinds(graph)
        assert found["QLinearConv"] == 4
        assert found["QLinearAdd"] == 2
        assert found["QLinearGlobalAveragePool"] == found["QLinearConcat"] == found["QGemm"] == 1
        assert found["QuantizeLinear"] == found["DequantizeLinear"] == 1
        assert not {"Conv", "Relu", "Add", "Gemm", "MaxPool", "Concat", "ReduceMean"} & set(found)
        # Two conversions, those of the model's input and output: what is clipped are bytes.
        assert found["Clip"] == 1
        assert images.lowered.warnings == ()

    def test_its_numbers_are_pytorchs(self, images: Case) -> None:
        check_numbers(images)

    def test_weights_are_signed_bytes_biases_whole_numbers_and_activations_unsigned(self, images: Case) -> None:
        graph = onnx.load(images.folder / "model.onnx").graph
        stored = {tensor.name: tensor for tensor in graph.initializer}
        makers = {name: node for node in graph.node for name in node.output}
        layers = [node for node in graph.node if node.op_type in ("Conv", "Gemm")]
        kinds_of = onnx.TensorProto
        assert len(layers) == 5
        for node in layers:
            assert all(makers[name].op_type == "DequantizeLinear" for name in node.input)
            weight, bias = (stored[makers[name].input[0]] for name in node.input[1:])
            assert (weight.data_type, bias.data_type) == (kinds_of.INT8, kinds_of.INT32)
            assert list(weight.dims)[:1] == list(bias.dims)
        for node in graph.node:
            if node.op_type == "QuantizeLinear":
                assert stored[node.input[2]].data_type == kinds_of.UINT8
        assert max(np.prod(t.dims) for t in stored.values() if t.data_type == kinds_of.FLOAT) <= 16

    def test_a_trace_names_modules_and_lines(self, images: Case) -> None:
        artifact = open_artifact(images.folder)
        plan = plan_trace([[value.numpy() for value in images.inputs]], {"x": (2, 3, 32, 32)}, 0.05)
        rows = OnnxRuntimeEngine().trace(artifact, EngineSettings(1), plan).rows
        layers = {row.module_path: row for row in rows if row.op_type in ("QLinearConv", "QGemm")}
        assert set(layers) == {"stem", "first", "second", "depthwise", "head"}
        for row in layers.values():
            assert row.map_confidence == "exact"
            assert row.operators[0] in ("aten.conv2d.default", "aten.linear.default")
            assert row.source.startswith(f"{THIS}:")
        assert layers["stem"].flops == 2 * 2 * 16 * 16 * 16 * 27
        assert layers["depthwise"].flops == 2 * 2 * 16 * 8 * 8 * 9
        first = next(row for row in rows if row.op_type == "QLinearAdd")
        assert first.operators[0] == "aten.add.Tensor"


class TestStaticTokens:
    def test_every_linear_layer_is_a_fused_gemm(self, tokens: Case) -> None:
        model = optimized(tokens.folder)
        assert kinds(model)["QGemm"] == 6
        assert not {"MatMulIntegerToFloat", "Gemm"} & set(kinds(model))
        constants = {tensor.name for tensor in model.graph.initializer}
        assert not [n.name for n in model.graph.node if n.op_type == "Transpose" and n.input[0] in constants]
        assert tokens.lowered.warnings == ()

    @pytest.mark.parametrize("shape", [(2, 8), (3, 16), (4, 2)])
    def test_its_numbers_are_pytorchs_at_every_size(self, tokens: Case, shape: tuple[int, int]) -> None:
        check_numbers(tokens, random(*shape, 32, seed=3))


class Product(nn.Module):
    """A convolution or a linear layer between bytes."""

    def __init__(self, kernel: tuple[int, ...], bias: bool, relu: bool, seed: int) -> None:
        super().__init__()
        self.weight, self.relu = ByteWeight(*kernel, seed=seed), relu
        self.bias = nn.Parameter(random(kernel[0], seed=seed)) if bias else None
        self.zeros = (seed * 37 % 256 - 128, -128 if relu else seed * 11 % 256 - 128)
        self.apply_weight = functional.conv2d if len(kernel) == 4 else functional.linear

    def forward(self, x):
        y = self.apply_weight(between(x, 0.03, self.zeros[0]), self.weight(), self.bias)
        return between(torch.relu(y) if self.relu else y, STEP, self.zeros[1])


STEP = 0.04


@st.composite
def products(draw: st.DrawFn) -> tuple[Product, torch.Tensor]:
    seed, bias, relu = draw(st.integers(0, 999)), draw(st.booleans()), draw(st.booleans())
    outputs, depth = draw(st.integers(1, 9)), draw(st.integers(1, 40))
    if draw(st.booleans()):
        size = draw(st.integers(1, 3))
        shape: tuple[int, ...] = (draw(st.integers(1, 2)), depth, draw(st.integers(3, 6)), draw(st.integers(3, 6)))
        kernel: tuple[int, ...] = (outputs, depth, size, size)
    else:
        shape = (*draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)), depth)
        kernel = (outputs, depth)
    return Product(kernel, bias, relu, seed), random(*shape, seed=seed)


class Together(nn.Module):
    """Layers side by side: one export for all."""

    def __init__(self, layers: list[Product]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, *inputs):
        return tuple(layer(x) for layer, x in zip(self.layers, inputs, strict=True))


@pytest.mark.slow
@settings(max_examples=2, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(cases=st.lists(products(), min_size=6, max_size=6))
def test_any_layer_differs_by_one_step_at_most(
    cases: list[tuple[Product, torch.Tensor]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    module, inputs = Together([layer for layer, _ in cases]).eval(), tuple(x for _, x in cases)
    lowered = lower(capture_quantized(module, inputs))
    assert lowered.warnings == ()
    folder = write_artifact(lowered, tmp_path_factory.mktemp("layers") / "a")
    assert not {"Conv", "Gemm", "MatMul"} & set(kinds(optimized(folder)))
    with open_session(folder) as session, torch.no_grad():
        for actual, want in zip(session.run(*inputs), module(*inputs), strict=True):
            assert np.abs(actual - want.numpy()).max() < 1.01 * STEP
            assert np.mean(actual != want.numpy()) < 0.2


class Unfit(nn.Module):
    """Layers that ONNX Runtime does not fuse."""

    def __init__(self) -> None:
        super().__init__()
        self.up = ByteWeight(4, 4, 3, 3, axis=1)
        self.open = ByteWeight(4, 4, 3, 3, seed=1)
        self.biased = ByteWeight(4, 4, 1, 1, seed=2)
        self.register_buffer("bias", torch.tensor([1e6, 0.5, -0.5, 0.0]))

    def forward(self, x):
        y = between(functional.conv_transpose2d(between(x, 0.03, 5), self.up()), 0.05, 3)
        y = between(torch.tanh(functional.conv2d(y, self.open())), 0.01, 0)
        return functional.conv2d(y, self.biased(), self.bias)


def test_layers_that_do_not_fuse_are_named_with_reasons_and_right(tmp_path: Path) -> None:
    model, x = Unfit().eval(), random(1, 4, 6, 6)
    case = make(model, capture_quantized(model, (x,)), (x,), tmp_path)
    transposed, following, biased = case.lowered.warnings
    assert "no integer kernel for transposed convolutions" in transposed
    assert "what follows it is not quantized" in following
    assert "too large for 32 bits" in biased
    found = kinds(optimized(case.folder))
    assert (found["ConvTranspose"], found["QLinearConv"]) == (1, 0)
    with torch.no_grad():
        expected = model(x).numpy()
    # The large bias hides the rest of its channel.
    assert sqnr_db(expected[:, 1:], case.run()[:, 1:]) > 40
    np.testing.assert_allclose(case.run()[:, 0], expected[:, 0], rtol=1e-5)


class Groups(nn.Module):
    """Convolutions in groups: of two outputs a channel, of four channels, depthwise of few and of many, and of 32.

    The last three are depthwise, with and without channels beyond those that the kernel takes at once.
    """

    KINDS = (
        *((64, 1, 3, 32, True), (64, 4, 3, 16, True), (64, 1, 3, 64, False), (64, 32, 3, 2, False)),
        *((40, 1, 5, 40, True), (64, 1, 5, 64, False), (20, 1, 3, 20, True)),
    )

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.ModuleList(ByteWeight(o, i, k, k, seed=o + i) for o, i, k, *_ in self.KINDS)

    def forward(self, x):
        x = between(x, 0.03, 5)
        found = []
        for weight, (_, inputs, _, groups, _) in zip(self.weights, self.KINDS, strict=True):
            found.append(between(functional.conv2d(x[:, : inputs * groups], weight(), None, 1, 1, 1, groups), 0.05, 3))
        return tuple(found)


def test_groups_of_few_channels_are_computed_in_float_because_that_is_quicker(tmp_path: Path) -> None:
    model, x = Groups().eval(), random(1, 64, 6, 6)
    case = make(model, capture_quantized(model, (x,)), (x,), tmp_path)
    (told,) = case.lowered.warnings
    assert "quicker in groups of so few channels" in told
    found = kinds(optimized(case.folder))
    slow = sum(slow for *_, slow in Groups.KINDS)
    assert found["QLinearConv"] == len(Groups.KINDS) - slow
    assert sum(count for kind, count in found.items() if kind in ("Conv", "FusedConv")) == slow
    with open_session(case.folder) as session, torch.no_grad():
        for actual, want in zip(session.run(x), model(x), strict=True):
            assert np.abs(actual - want.numpy()).max() < 1.01 * 0.05


class Mixed(nn.Module):
    """Linear layers of every kind beside what the recipes leave in float."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.flat, self.plain = nn.Conv1d(3, 50, 3), nn.Linear(50, 70), nn.Linear(70, 24, bias=False)
        self.again, self.cell = nn.Linear(24, 24), nn.GRU(24, 8, batch_first=True)
        self.head = nn.Linear(8, 6)

    def forward(self, x):
        y = torch.relu(self.flat(self.conv(x).transpose(1, 2)))
        y = self.again(torch.tanh(self.again(self.plain(y))))
        return self.head(self.cell(y)[0][:, -1])


LINEARS = 5
# Against the float model: what the bits allow with random weights.
FLOORS = {"int8-dynamic": 28.0, "8da8w": 32.0, "8da4w": 13.0, "int4-weight": 13.0}


@pytest.fixture(scope="module", params=FLOORS)
def mixed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Case]:
    model, x = reinitialise(Mixed()), random(2, 3, 12)
    folder = tmp_path_factory.mktemp(request.param)
    return request.param, make(model, capture_quantized(model, (x,), request.param), (x,), folder)


class TestWhileLowering:
    def test_linear_layers_run_in_kernels_for_few_bits(self, mixed: tuple[str, Case]) -> None:
        recipe, case = mixed
        found = kinds(optimized(case.folder))
        kernel = {"int8-dynamic": "DynamicQuantizeMatMul", "8da8w": "MatMulInteger"}.get(recipe, "MatMulNBits")
        assert found[kernel] == LINEARS
        assert not {"MatMul", "Gemm"} & set(found)

    def test_its_numbers_are_near_the_float_models(self, mixed: tuple[str, Case]) -> None:
        recipe, case = mixed
        assert sqnr_db(case.floating(), case.run()) > FLOORS[recipe]

    def test_what_stays_in_float_is_named(self, mixed: tuple[str, Case]) -> None:
        recipe, case = mixed
        convolution, recurrent = case.lowered.warnings
        assert convolution.startswith("conv: in float32, ")
        assert ("five times slower" in convolution) == (recipe == "int8-dynamic")
        assert recurrent == "cell: in float32, recurrent layers are not quantized"

    def test_a_shared_weight_is_stored_once_and_no_float_copy_stays(self, mixed: tuple[str, Case]) -> None:
        _, case = mixed
        stored = {t.name: t.data_type for t in onnx.load(case.folder / "model.onnx").graph.initializer}
        suffix = ".int4" if "4" in mixed[0] else ".int8"
        names = {name for name in stored if name.endswith(suffix)}
        assert len(names) == LINEARS - 1
        assert not {name.removesuffix(suffix) for name in names} & set(stored)

    def test_the_checker_accepts_it_and_the_manifest_says_what_runs_it(self, mixed: tuple[str, Case]) -> None:
        recipe, case = mixed
        onnx.checker.check_model(str(case.folder / "model.onnx"), full_check=True)
        oldest = case.lowered.requirements.minimum_version
        assert oldest == ("1.20" if "4" in recipe else "1.18")

    @pytest.mark.parametrize("mixed", ["8da8w"], indirect=True)
    def test_a_plan_needs_no_weights_and_agrees(self, mixed: tuple[str, Case]) -> None:
        from torch._subclasses.fake_tensor import FakeTensorMode

        recipe, case = mixed
        with FakeTensorMode():
            fake = capture(Mixed().eval(), (torch.empty(2, 3, 12),))
        assert OnnxCpuDelegate().plan(as_quantized(fake, recipe), OnnxCpuOptions()) == case.lowered.plan


def test_tokens_are_quantized_one_by_one(tmp_path: Path) -> None:
    """Against the recipe written out in PyTorch, on rows of very different size; a row of zeros gives the bias."""
    model, x = reinitialise(nn.Linear(40, 24)), random(5, 40) * torch.tensor([1e-3, 1.0, 100.0, 7.0, 0.0])[:, None]
    x[3] = x[3].abs() + 5
    case = make(model, capture_quantized(model, (x,), "8da8w"), (x,), tmp_path)
    weight = model.weight.detach()
    most = 63 if saturates_bytes() else 127
    step = weight.abs().amax(1, keepdim=True) / (most + 0.5)
    weight = (weight / step).round().clamp(-most - 1, most) * step
    low, high = x.amin(1, keepdim=True).clamp(max=0), x.amax(1, keepdim=True).clamp(min=0)
    scale = ((high - low) / 255).clamp(min=torch.finfo(torch.float32).eps)
    zero = -(low / scale).round()
    rows = ((x / scale + zero).round().clamp(0, 255) - zero) * scale
    expected = functional.linear(rows, weight, model.bias.detach()).numpy()
    for row, (want, got) in enumerate(zip(expected, case.run(), strict=True)):
        assert sqnr_db(want, got) > 60, row
    np.testing.assert_allclose(case.run()[4], model.bias.detach().numpy(), rtol=1e-6)


@pytest.mark.parametrize("group", [16, 128])
def test_groups_of_any_size_fill_up_the_last_one(tmp_path: Path, group: int) -> None:
    from edgex.delegates.recipes.recipes import get_recipe

    model, x = reinitialise(nn.Linear(50, 24)), random(3, 50)
    program = dataclasses.replace(capture(model, (x,)), recipe=get_recipe("int4-weight", group))
    case = make(model, program, (x,), tmp_path)
    runs = -(-50 // group)
    padded = functional.pad(model.weight.detach(), (0, runs * group - 50)).view(24, runs, group)
    scale = padded.abs().amax(-1, keepdim=True) / 7.5
    weight = ((padded / scale).round().clamp(-8, 7) * scale).view(24, -1)[:, :50]
    assert sqnr_db(functional.linear(x, weight, model.bias.detach()).numpy(), case.run()) > 80


def test_four_bits_on_many_rows_at_once_are_warned_of() -> None:
    model = reinitialise(nn.Linear(32, 8))
    (warning,) = lower(capture_quantized(model, (random(2, 40, 32),), "8da4w")).warnings
    assert "64 rows or more at once" in warning and "slower than float32" in warning


def test_tensors_are_quantized_as_a_whole(tmp_path: Path) -> None:
    """Against the recipe written out in PyTorch; weights leave out -128."""
    model, x = reinitialise(nn.Linear(40, 24)), random(5, 40)
    case = make(model, capture_quantized(model, (x,), "int8-dynamic"), (x,), tmp_path)
    weight = model.weight.detach()
    step = weight.abs().amax(1, keepdim=True) / (63 if saturates_bytes() else 127)
    scale = (x.max() - x.min()) / 255
    zero = -(x.min() / scale).round()
    rows = ((x / scale + zero).round().clamp(0, 255) - zero) * scale
    expected = functional.linear(rows, (weight / step).round() * step, model.bias.detach()).numpy()
    assert sqnr_db(expected, case.run()) > 60


def test_sixteen_bits_are_stored_unsigned_with_the_same_numbers(tmp_path: Path) -> None:
    """The form that providers of NPUs take, run by the CPU's kernels, which compute it in floating point."""
    model = reinitialise(Images())
    batches = [(random(2, 3, 32, 32, seed=seed),) for seed in range(2)]
    program = quantize(capture(model, batches[0]), batches, "a16w8")
    lowered = lower_program(program, 21, "onnxruntime", Checks(form="units"))
    case = Case(model, batches[1], program, lowered, write_artifact(lowered, tmp_path / "a"))
    graph = onnx.load(case.folder / "model.onnx").graph
    zeros = {tensor.name: tensor.data_type for tensor in graph.initializer}
    activations = {zeros[node.input[2]] for node in graph.node if node.op_type == "QuantizeLinear"}
    weights = {zeros.get(node.input[0]) for node in graph.node if node.op_type == "DequantizeLinear"}
    assert activations == {onnx.TensorProto.UINT16}
    assert {onnx.TensorProto.INT8, onnx.TensorProto.INT32} <= weights
    sqnr = sqnr_db(case.quantized(), case.run())
    assert sqnr > 60, f"{sqnr:.1f} dB"


def test_modules_that_stay_float_are_left_alone(tmp_path: Path) -> None:
    model, x = reinitialise(nn.Sequential(nn.Linear(32, 32), nn.Sequential(*[nn.Linear(32, 32)] * 2))), random(4, 32)
    program = as_quantized(capture(model, (x,)), "8da4w", float_modules=frozenset({"1"}))
    case = make(model, program, (x,), tmp_path)
    assert kinds(onnx.load(case.folder / "model.onnx")) == {"MatMulNBits": 1, "Gemm": 2}
    assert case.lowered.warnings == ()


class Computed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.made, self.fixed = nn.Linear(8, 64, bias=False), nn.Linear(8, 8)

    def forward(self, x):
        return functional.linear(self.fixed(x), self.made(x)[0].view(8, 8))


def test_a_computed_weight_is_named() -> None:
    lowered = lower(capture_quantized(reinitialise(Computed()), (random(2, 8),), "8da8w"))
    (warning,) = lowered.warnings
    assert "its weight is computed by the model" in warning


class TestRefusals:
    def test_nothing_to_quantize(self) -> None:
        convolutions = capture_quantized(nn.Conv2d(3, 4, 3).eval(), (random(1, 3, 8, 8),), "8da4w")
        with pytest.raises(QuantizationError, match="nothing in this model can be quantized with 8da4w") as error:
            lower(convolutions)
        assert "linear layers" in str(error.value.why)
        with pytest.raises(QuantizationError, match="nothing"):
            lower(capture_quantized(nn.Linear(4, 4).eval(), (random(1, 4),), "int8"))

    def test_another_precision(self) -> None:
        program = capture(nn.Linear(4, 4).half().eval(), (random(1, 4).half(),), precision="fp16")
        with pytest.raises(QuantizationError, match="8da8w is for float32 models, not fp16"):
            lower(as_quantized(program, "8da8w"))

    def test_an_opset_whose_nodes_have_no_origin(self) -> None:
        with pytest.raises(QuantizationError, match="needs opset 18 or newer, not 17"):
            lower(capture_quantized(nn.Linear(4, 4).eval(), (random(1, 4),), "8da8w"), opset=17)

    def test_weights_in_eight_bits_alone(self) -> None:
        delegate = OnnxCpuDelegate()
        assert "int8-weight" not in delegate.recipes
        assert "every weight into float32 at every run" in delegate.recipe_refusal("int8-weight")

    def test_only_static_recipes_have_a_quantizer(self) -> None:
        delegate = OnnxCpuDelegate()
        quantizer, shared = delegate.quantizer("int8"), saturating_quantizer("int8")
        assert isinstance(quantizer, SymmetricInt8) and dataclasses.replace(quantizer, tables=()) == shared
        assert [delegate.quantizer(recipe) for recipe in delegate.recipes[1:]] == [None] * 4
