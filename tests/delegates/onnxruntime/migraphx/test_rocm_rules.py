"""What onnx-rocm takes, refuses and records, on real exported graphs."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
import torch
from onnx_support import capture, open_session, sqnr_db, write_artifact
from quantized_support import Bytes, capture_quantized
from torch import nn

from edgex.delegates.base import CapturedProgram
from edgex.delegates.onnxruntime.migraphx import operators as table
from edgex.delegates.onnxruntime.rocm import OnnxRocmDelegate, OnnxRocmOptions
from edgex.delegates.plan import PartitionPlan
from edgex.delegates.recipes.quantizers import saturating_quantizer
from edgex.delegates.registry import get_delegate, parse_options
from edgex.errors import LoweringError, UsageError
from edgex.runtime.artifact.specs import Dim
from edgex.runtime.engines.rocm.provider import MIGRAPHX

pytestmark = pytest.mark.long_file

DELEGATE = OnnxRocmDelegate()
THIS = Path(__file__).name


def plan(program: CapturedProgram, **options: object) -> PartitionPlan:
    return DELEGATE.plan(program, OnnxRocmOptions(**options))  # type: ignore[arg-type]


class Known(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(3, 4, 3), nn.LayerNorm([4, 6, 6]), nn.Linear(4, 2)

    def forward(self, x):
        return self.head(torch.softmax(self.norm(self.conv(x)).mean((2, 3)), -1))


@pytest.mark.parametrize("opset", [18, 19])
def test_a_common_network_is_taken_whole(opset: int) -> None:
    planned = plan(capture(Known().eval(), (torch.randn(1, 3, 8, 8),)), opset=opset)
    assert planned.fallbacks == ()
    assert (planned.fraction, planned.delegate_calls) == (1.0, 1)


class Views(nn.Module):
    def forward(self, x):
        return (x.view(2, -1) * 2).reshape(3, 4)


def test_views_are_taken_where_no_size_is_zero() -> None:
    assert plan(capture(Views().eval(), (torch.randn(4, 3),))).fallbacks == ()


class BitShifts(nn.Module):
    def forward(self, x):
        return (x * 2).bitwise_and(12) + 1  # bits


class DataSized(nn.Module):
    def forward(self, x):
        return torch.nonzero(x > 0).float() * 2  # sized


class Resized(nn.Module):
    def forward(self, x):
        return nn.functional.interpolate(x, scale_factor=2.0, mode="bicubic")  # cubic


class Dilated(nn.Module):
    def forward(self, x):
        return nn.functional.max_pool2d(x, 2, dilation=2)  # dilated


class ComputedSlice(nn.Module):
    def forward(self, x, at):
        return torch.take_along_dim(x, at, 0).tril(-1) + torch.cumsum(x, 1)


REFUSED = [
    (BitShifts(), (torch.arange(8),), "not_in_delegate", "Bitwise"),
    (DataSized(), (torch.randn(4, 4),), "dynamic_shape", "NonZero"),
    (Resized(), (torch.randn(1, 1, 4, 4),), "attribute", "cubic"),
    (Dilated(), (torch.randn(1, 1, 8, 8),), "attribute", "dilation"),
]


@pytest.mark.parametrize(("module", "args", "code", "word"), REFUSED, ids=[r[3] for r in REFUSED])
def test_what_it_does_not_take_is_named_with_reason_and_line(module, args, code, word) -> None:
    program = capture(module, args)
    first = next(fallback for fallback in plan(program).fallbacks if fallback.code == code)
    assert first.fatal and word in first.reason
    assert str(first.source).startswith(f"{THIS}:")
    with pytest.raises(LoweringError) as caught:
        DELEGATE.lower(program, OnnxRocmOptions())
    assert caught.value.exit_code == 5
    assert word in str(caught.value.why) and "allow_fallback=true" in str(caught.value.fix)


@pytest.mark.parametrize(("module", "args", "code", "word"), REFUSED[2:], ids=[r[3] for r in REFUSED[2:]])
def test_with_allow_fallback_it_is_left_to_the_cpu_and_said(module, args, code, word) -> None:
    program = capture(module, args)
    lowered = DELEGATE.lower(program, OnnxRocmOptions(allow_fallback=True))
    assert not lowered.plan.fatal
    assert any(word in fallback.reason for fallback in lowered.plan.fallbacks)
    assert any("--allow-fallback" in warning for warning in lowered.warnings)


def test_static_arguments_that_the_exporter_computes_count_as_constants() -> None:
    program = capture(ComputedSlice(), (torch.randn(3, 3), torch.zeros(1, 3, dtype=torch.int64)))
    assert not [f for f in plan(program).fallbacks if f.code == "non_constant_weight"]


def test_dynamic_sizes_are_listed_with_the_flags_that_fix_them() -> None:
    batch = torch.export.Dim("batch", min=1, max=8)
    model = nn.Sequential(nn.Linear(6, 4), nn.ReLU())
    program = capture(model, (torch.randn(3, 6),), dynamic=({0: batch},), dims={("input", 0): Dim("batch", 1, 8)})
    planned = plan(program)
    assert {fallback.code for fallback in planned.fallbacks} == {"dynamic_shape"}
    assert all("batch" in fallback.reason for fallback in planned.fallbacks)
    with pytest.raises(LoweringError, match="fixed sizes") as caught:
        DELEGATE.lower(program, OnnxRocmOptions())
    assert "input input: dimension 0 is batch=1..8" in str(caught.value.why)
    assert "--sizes input:0=" in str(caught.value.fix)


@pytest.mark.parametrize("opset", [17, 20, 25])
def test_another_opset_is_refused_before_anything_slow(opset: int) -> None:
    with pytest.raises(UsageError, match=f"opset {opset}: MIGraphX reads up to 19"):
        parse_options(get_delegate("onnx-rocm"), {"opset": str(opset)})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"fp16_enabel": "true"}, "did you mean 'fp16_enable'"),
        ({"migraphx_fp16_enable": "1"}, "did you mean 'fp16_enable'"),
        ({"fp16_enable": "half"}, "expected bool"),
        ({"device_id": "first"}, "expected int"),
        ({"device_id": "-1"}, "count from 0"),
        ({"fp16_enable": "1", "bf16_enable": "1"}, "exclude each other"),
        ({"fp8_enable": "1", "int8_enable": "1"}, "exclude each other"),
        ({"int8_enable": "1"}, "need int8_calibration_table_name"),
        ({"model_cache_dir": "/var/cache"}, "without folders"),
        ({"int8_calibration_table_name": "../table"}, "without folders"),
    ],
)
def test_provider_options_are_checked_by_name_and_type(given: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_options(get_delegate("onnx-rocm"), given)
    assert words in str(caught.value)


def test_every_provider_option_of_the_delegate_is_one_of_the_engine() -> None:
    options = OnnxRocmOptions(
        device_id=1, fp16_enable=True, int8_enable=True, int8_calibration_table_name="table.flatbuffers",
        int8_use_native_calibration_table=True, exhaustive_tune=True, mem_limit=1,
    )  # fmt: skip
    assert set(options.provider_options) <= set(MIGRAPHX.options)
    assert len(options.provider_options) == 7
    assert OnnxRocmOptions().provider_options == {}


def test_the_manifest_gets_options_table_and_cache_hint() -> None:
    program = capture(Known().eval(), (torch.randn(1, 3, 8, 8),))
    lowered = DELEGATE.lower(program, OnnxRocmOptions(fp16_enable=True, model_cache_dir="net-cache"))
    assert lowered.options == {
        "opset": 18,
        "execution_provider": "MIGraphXExecutionProvider",
        "provider_options": {"fp16_enable": True},
        "model_cache_dir": "net-cache",
        "operator_table": table.TABLE_VERSION,
    }
    assert any("change what the GPU computes" in warning for warning in lowered.warnings)


def test_the_table_names_operators_of_its_opset_and_its_version() -> None:
    import onnx

    for operator in table.OPERATORS:
        if not operator.startswith("QLinear") or operator in ("QLinearConv", "QLinearMatMul"):
            assert onnx.defs.has(operator), operator  # the other QLinear ones are ONNX Runtime's own
    for operator in (*table.CONSTANT_INPUTS, *(name for name, _ in table.ATTRIBUTE_VALUES)):
        assert operator in table.OPERATORS
    assert "fbf2296bcfbd" in table.TABLE_VERSION
    assert (table.OLDEST_OPSET, table.NEWEST_OPSET) == (18, 19)


def test_bfloat16_is_refused_with_the_option_that_does_it() -> None:
    assert "bf16_enable=true" in DELEGATE.precision_refusal("bf16")


def test_arguments_that_only_a_run_tells_are_refused() -> None:
    import onnx
    import onnx_ir
    from onnx import TensorProto, helper

    from edgex.delegates.onnxruntime.migraphx.rules import migraphx_refusals

    nodes = [
        helper.make_node("Shape", ["x"], ["sizes"], name="known"),
        helper.make_node("Reshape", ["x", "sizes"], ["same"], name="reshape"),
        helper.make_node("Tile", ["same", "times"], ["y"], name="tile"),
    ]
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3]),
        helper.make_tensor_value_info("times", TensorProto.INT64, [2]),
    ]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    model = onnx_ir.serde.deserialize_model(onnx.shape_inference.infer_shapes(proto, data_prop=True))
    (refused,) = [r for r in migraphx_refusals(model, fatal=True) if r.code == "non_constant_weight"]
    assert (refused.node, refused.fatal) == ("tile", True)
    assert refused.reason == "MIGraphX needs input 1 of Tile as a constant; the model computes it"


def test_a_dtype_that_it_does_not_parse_is_refused() -> None:
    import onnx_ir

    from edgex.delegates.onnxruntime.migraphx.rules import migraphx_refusals

    x = onnx_ir.Value(name="x", type=onnx_ir.TensorType(onnx_ir.DataType.BFLOAT16), shape=onnx_ir.Shape([2]))
    node = onnx_ir.Node("", "Relu", [x], name="relu")
    graph = onnx_ir.Graph([x], node.outputs, nodes=[node], opset_imports={"": 18}, name="g")
    (refused,) = migraphx_refusals(onnx_ir.Model(graph, ir_version=10), fatal=False)
    assert (refused.code, refused.fatal) == ("dtype", False)
    assert "bfloat16" in refused.reason


class TestQuantized:
    def test_bytes_stay_signed_and_biases_float_as_migraphx_multiplies_them(self, tmp_path: Path) -> None:
        module, x = Bytes().eval(), torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
        program = capture_quantized(module, (x,))
        lowered = DELEGATE.lower(program, OnnxRocmOptions())
        assert lowered.plan.fallbacks == ()
        assert DELEGATE.plan(program, OnnxRocmOptions()) == lowered.plan
        folder = write_artifact(lowered, tmp_path / "a")
        graph = onnx.load(folder / "model.onnx").graph
        stored = {tensor.name: tensor.data_type for tensor in graph.initializer}
        conversions = [node for node in graph.node if node.op_type in ("QuantizeLinear", "DequantizeLinear")]
        assert {stored[node.input[2]] for node in conversions} == {onnx.TensorProto.INT8}
        assert onnx.TensorProto.INT32 not in stored.values()
        with open_session(folder) as session, torch.no_grad():
            assert sqnr_db(module(x).numpy(), session.run(x)[0]) > 30

    def test_other_recipes_are_refused_with_what_is_taken(self) -> None:
        assert DELEGATE.recipes == ("int8",)
        assert "8da4w" in DELEGATE.recipe_refusal("8da4w") and "--quantize int8" in DELEGATE.recipe_refusal("8da4w")
        assert DELEGATE.quantizer("int8") == saturating_quantizer("int8")
        assert DELEGATE.quantizer("8da8w") is None
