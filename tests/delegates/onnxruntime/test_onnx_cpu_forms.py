"""Graphs in the form that ONNX Runtime's CPU kernels are quick for: the same numbers, and what they are made of."""

import numpy as np
import onnx
import onnx_ir
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from edgex.delegates.onnxruntime.forms.broadcasting import innermost_span
from edgex.delegates.onnxruntime.forms.cpu import write_for_cpu
from edgex.delegates.onnxruntime.graph.edits import GraphEditor

RANDOM = np.random.default_rng(0)


def numbers(*sizes):
    return RANDOM.standard_normal(sizes, dtype=np.float32)


def compare(nodes, inputs, constants=None, tolerance=2e-6, shapes=None):
    """Run the nodes, whose last one makes `y`, before and after; the operators after.

    Args:
        nodes: In order.
        inputs: Arrays by name.
        constants: Likewise, of the graph.
        tolerance: Relative and absolute.
        shapes: What the graph says of the inputs' sizes, where a run knows some of them only.
    """
    shapes = {name: value.shape for name, value in inputs.items()} | (shapes or {})
    graph = helper.make_graph(
        nodes,
        "graph",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), shapes[name])
            for name, value in inputs.items()
        ],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in (constants or {}).items()],
    )
    before = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    model = onnx_ir.from_proto(onnx.shape_inference.infer_shapes(before, strict_mode=True))
    write_for_cpu(GraphEditor(model, {}))
    after = onnx_ir.to_proto(model)
    onnx.checker.check_model(after)
    wanted, found = (run(one, inputs) for one in (before, after))
    assert wanted.shape == found.shape
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)
    return [node.op_type for node in after.graph.node]


def run(model, inputs):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)[0]


def node(op_type, *inputs, name="op", **attributes):
    return helper.make_node(op_type, list(inputs), ["y"], name=name, **attributes)


SPECIAL = np.array([0, -0.0, 1e-30, 80, -80, 200, -200, np.inf, -np.inf, np.nan], dtype=np.float32)


@pytest.mark.parametrize(
    ("slopes", "operators"),
    [
        (np.full((4, 1), 0.25), ["LeakyRelu"]),
        (np.array([[0.1], [1.0], [0.5], [0.9]]), ["Mul", "Max"]),
        (np.array([[0.1], [-1.0], [0.0], [1.5]]), ["Max", "Min", "Mul", "Add"]),
    ],
)
def test_slopes(slopes, operators):
    x = np.concatenate([numbers(2, 4, 30), np.broadcast_to(SPECIAL, (2, 4, 10))], -1)
    found = compare([node("PRelu", "x", "slope")], {"x": x}, {"slope": slopes.astype(np.float32)})
    assert found == operators


def test_slopes_that_the_program_makes_stay():
    assert compare([node("PRelu", "x", "slope")], {"x": numbers(2, 4), "slope": numbers(4)}) == ["PRelu"]


def test_softplus():
    x = np.concatenate([numbers(400) * 10, SPECIAL])
    found = compare([node("Softplus", "x")], {"x": x})
    assert "Softplus" not in found and "Log" not in found


def test_mish():
    x = np.concatenate([numbers(400) * 10, SPECIAL])
    found = compare([node("Mish", "x")], {"x": x})
    assert not {"Mish", "Softplus", "Tanh"} & set(found)


@pytest.mark.parametrize("keepdims", [0, 1])
def test_log_sum_exp(keepdims):
    x = numbers(4, 5, 6) * 30
    x[0, 0, 0], x[1, 1, 1], x[2] = np.inf, np.nan, -np.inf
    found = compare([node("ReduceLogSumExp", "x", "axes", keepdims=keepdims)], {"x": x}, {"axes": np.array([-1, 1])})
    assert "ReduceLogSumExp" not in found


@pytest.mark.parametrize("padding", [{"count_include_pad": 0}, {"count_include_pad": 1}, {"ceil_mode": 1}])
def test_averages_of_signals_in_blocks(padding):
    nodes = [node("AveragePool", "x", auto_pad="NOTSET", kernel_shape=[5], strides=[2], pads=[2, 1], **padding)]
    assert compare(nodes, {"x": numbers(2, 4, 40)}) == ["Reshape", "AveragePool", "Reshape"]


@pytest.mark.parametrize(
    ("padding", "operators"),
    [
        ({"count_include_pad": 1}, ["Unsqueeze", "Conv", "Squeeze"]),
        ({"count_include_pad": 0, "ceil_mode": 1}, ["Unsqueeze", "Conv", "Mul", "Squeeze"]),
    ],
)
def test_averages_of_few_signals(padding, operators):
    nodes = [node("AveragePool", "x", kernel_shape=[5], strides=[2], pads=[2, 1], **padding)]
    assert compare(nodes, {"x": numbers(1, 3, 40)}) == operators


@pytest.mark.parametrize("counted", [0, 1])
@pytest.mark.parametrize("sizes", [(1, 3, 21, 30), (8, 3, 21, 30)])
def test_averages_of_images(sizes, counted):
    given = {"kernel_shape": [3, 4], "strides": [2, 3], "pads": [1, 2, 0, 1], "count_include_pad": counted}
    found = compare([node("AveragePool", "x", **given)], {"x": numbers(*sizes)})
    assert ("Conv" in found) == (sizes[0] == 1)


@pytest.mark.parametrize("op_type", ["AveragePool", "MaxPool"])
@pytest.mark.parametrize("sizes", [("batch", 3, 8, 9), ("batch", "channels", 8, 9), ("batch", 3, "length")], ids=str)
def test_sizes_that_only_a_run_knows(op_type, sizes):
    window = [2] * (len(sizes) - 2)
    nodes = [node(op_type, "x", kernel_shape=window, strides=window)]
    x = numbers(2, 3, 8, 9) if len(sizes) == 4 else numbers(2, 3, 8)
    found = compare(nodes, {"x": x}, shapes={"x": sizes})
    assert ("Conv" in found) == (op_type == "AveragePool" and sizes[1] == 3)


def test_other_operators_of_sizes_that_only_a_run_knows():
    for one in (
        node("Gather", "x", "z", axis=1),
        node("Mul", "x", "y0"),
        node("Softplus", "x"),
        node("PRelu", "x", "s"),
    ):
        inputs = {"x": numbers(2000, 3), "z": np.array([1, 2, 0]), "y0": numbers(3)}
        given = {name: inputs[name] for name in one.input if name in inputs}
        compare([one], given, {"s": np.array([0.1, 0.2, 2], dtype=np.float32)}, shapes={"x": ("rows", 3)})


def test_graphs_of_integers_stay():
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"], name="quantize"),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"], name="dequantize"),
        node("AveragePool", "d", kernel_shape=[2], strides=[2]),
    ]
    constants = {"scale": np.float32(0.02), "zero": np.uint8(128)}
    found = compare(nodes, {"x": numbers(1, 3, 40)}, constants)
    assert found == ["QuantizeLinear", "DequantizeLinear", "AveragePool"]


def test_averages_that_stay():
    given = {"kernel_shape": [2, 2], "strides": [2, 2]}
    assert compare([node("AveragePool", "x", **given)], {"x": numbers(1, 16, 9, 9)}) == ["AveragePool"]
    assert compare([node("AveragePool", "x", **given, ceil_mode=1)], {"x": numbers(1, 3, 9, 9)}) == ["AveragePool"]


def test_maxima_of_signals():
    nodes = [node("MaxPool", "x", kernel_shape=[3], strides=[1], pads=[2, 0], dilations=[1])]
    assert compare(nodes, {"x": numbers(2, 3, 40)}) == ["Reshape", "MaxPool", "Reshape"]


@pytest.mark.parametrize(
    ("sizes", "axis", "places"), [((60, 16), 1, (24,)), ((8, 20, 9, 2), 2, (4, 3)), ((30, 4, 5), -1, (16,))]
)
def test_columns(sizes, axis, places):
    indices = RANDOM.integers(-sizes[axis], sizes[axis], places)
    found = compare([node("Gather", "x", "indices", axis=axis)], {"x": numbers(*sizes), "indices": indices})
    assert found == ["Transpose", "Gather", "Transpose"]


def test_columns_that_stay():
    assert compare([node("Gather", "x", "at", axis=0)], {"x": numbers(600, 4)}, {"at": np.arange(400)}) == ["Gather"]
    assert compare([node("Gather", "x", "at", axis=1)], {"x": numbers(600, 4)}, {"at": np.array(2)}) == ["Gather"]
    assert compare([node("Gather", "x", "at", axis=1)], {"x": numbers(9, 4, 64)}, {"at": np.arange(3)}) == ["Gather"]


def test_repetitions_of_numbers():
    found = compare([node("Expand", "x", "sizes")], {"x": numbers(40, 8, 1)}, {"sizes": np.array([40, 8, 4])})
    assert found == ["Reshape", "Concat", "Transpose", "Reshape"]


def test_operators_repeat_long_rows_themselves():
    nodes = [
        helper.make_node("Expand", ["x", "sizes"], ["rows"], name="rows"),
        helper.make_node("Mul", ["rows", "z"], ["y"], name="product"),
    ]
    found = compare(nodes, {"x": numbers(6, 1, 64), "z": numbers(6, 8, 64)}, {"sizes": np.array([6, 8, 64])})
    assert found == ["Mul"]


@pytest.mark.parametrize(
    ("left", "right", "span", "operators"),
    [
        ((4096, 3), (3,), 3, ["Expand", "Sub"]),
        ((4096, 3), (4096, 1), 3, ["Concat", "Transpose", "Sub"]),
        ((64, 1, 3), (1, 64, 3), 3, ["Expand", "Sub"]),
        ((2, 1, 4096), (2, 3, 4096), 4096, ["Sub"]),
        ((4099, 3), (3,), 3, ["Sub"]),  # no divisor
    ],
)
def test_runs(left, right, span, operators):
    out = np.broadcast_shapes(left, right)
    assert innermost_span(left, right, out) == span
    found = compare([node("Sub", "a", "b")], {"a": numbers(*left), "b": numbers(*right)})
    assert [one for one in found if one in operators] == operators and (len(operators) > 1) == (len(found) > 1)


@pytest.mark.parametrize("operands", [["a"], ["a", "b", "b"]])
def test_maxima_of_one_operand_or_several(operands):
    given = {name: value for name, value in (("a", numbers(4096, 3)), ("b", numbers(3))) if name in operands}
    assert compare([node("Max", *operands)], given) == ["Max"]


def test_a_bias_stays_behind_its_product():
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"], name="product"),
        helper.make_node("Add", ["product", "b"], ["y"], name="sum"),
    ]
    found = compare(nodes, {"x": numbers(2, 2048, 4)}, {"w": numbers(4, 3), "b": numbers(3)})
    assert found == ["MatMul", "Add"]


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_operators_of_any_sizes(data):
    rank = data.draw(st.integers(1, 4))
    out = [data.draw(st.sampled_from([1, 2, 3, 4, 8, 12, 64])) for _ in range(rank)]
    shapes = []
    for _ in range(2):
        sizes = [size if data.draw(st.booleans()) else 1 for size in out]
        shapes.append(sizes[data.draw(st.integers(0, rank - 1)) :])
    op_type = data.draw(st.sampled_from(["Sub", "Div", "Max"]))
    a, b = (numbers(*sizes) for sizes in shapes)
    compare([node(op_type, "a", "b")], {"a": a, "b": np.abs(b) + 1})
