"""What is written otherwise for QNN gives what it gave: judged by ONNX Runtime's CPU provider."""

from __future__ import annotations

import numpy as np
import onnx_ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgex.delegates.onnxruntime.graph.edits import GraphEditor
from edgex.delegates.onnxruntime.qnn.edits import flatten_gathers, part_constants, unfold_norms
from edgex.runtime.engines.onnxruntime.session import import_onnxruntime

ort = import_onnxruntime()


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize(("data", "indices"), [((4, 8, 5), (2, 3, 2)), ((4, 6), (1, 1, 3, 3, 2)), ((7,), (2, 1))])
def test_gathers_along_several_axes_become_one(data: tuple, indices: tuple, *, constant: bool) -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=data).astype(np.float32)
    sizes = np.array(data[: indices[-1]])
    at = (random.integers(0, 1000, indices) % (2 * sizes) - sizes).astype(np.int64)  # half of them negative
    info = helper.make_tensor_value_info
    given = [info("x", TensorProto.FLOAT, data)]
    given += [] if constant else [info("i", TensorProto.INT64, indices)]
    shape = [*indices[:-1], *data[indices[-1] :]]
    graph = helper.make_graph(
        [helper.make_node("GatherND", ["x", "i"], ["y"], name="gather")], "g", given,
        [info("y", TensorProto.FLOAT, shape)], [numpy_helper.from_array(at, "i")] if constant else [],
    )  # fmt: skip
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    model = onnx_ir.from_proto(proto)
    flatten_gathers(GraphEditor(model, {}))
    changed = onnx_ir.to_proto(model)
    assert "GatherND" not in {node.op_type for node in changed.graph.node}
    feed = {"x": x} if constant else {"x": x, "i": at}
    before, after = (
        ort.InferenceSession(one.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feed)[0]
        for one in (proto, changed)
    )
    np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize(("wide", "axis"), [(True, -1), (True, 1), (False, -1)])
def test_layer_norms_before_16_bits_are_taken_apart(*, wide: bool, axis: int) -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(2, 5, 8)).astype(np.float32)
    own = (5, 8) if axis == 1 else (8,)
    dtype = np.uint16 if wide else np.uint8
    weights = {
        "scale": random.normal(size=own).astype(np.float32),
        "bias": random.normal(size=own).astype(np.float32),
        "step": np.array(1e-4 if wide else 0.04, np.float32),
        "zero": np.array(2 ** (15 if wide else 7), dtype),
    }
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            helper.make_node("LayerNormalization", ["x", "scale", "bias"], ["n"], name="norm", axis=axis, epsilon=1e-3),
            helper.make_node("QuantizeLinear", ["n", "step", "zero"], ["q"], name="quantize"),
            helper.make_node("DequantizeLinear", ["q", "step", "zero"], ["y"], name="dequantize"),
        ],
        "g", [info("x", TensorProto.FLOAT, x.shape)], [info("y", TensorProto.FLOAT, x.shape)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
        value_info=[info("n", TensorProto.FLOAT, x.shape)],
    )  # fmt: skip
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    model = onnx_ir.from_proto(proto)
    unfold_norms(GraphEditor(model, {}))
    changed = onnx_ir.to_proto(model)
    assert ("LayerNormalization" in {node.op_type for node in changed.graph.node}) is not wide
    before, after = (
        ort.InferenceSession(one.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
        for one in (proto, changed)
    )
    np.testing.assert_allclose(after, before, atol=2e-4 if wide else 0)


def test_a_constant_under_two_scales_is_parted() -> None:
    """The provider reads a tensor with one scale; three readers here have two of them."""
    info = helper.make_tensor_value_info
    readers = {"a": "large", "b": "small", "c": "large"}
    nodes = [
        helper.make_node("DequantizeLinear", ["byte", scale], [name], name=name) for name, scale in readers.items()
    ]
    weights = {"byte": np.array(255, np.uint8), "large": np.float32(0.75 / 255), "small": np.float32(0.25 / 255)}
    graph = helper.make_graph(
        [*nodes, helper.make_node("Sum", ["x", *readers], ["y"], name="sum")], "g",
        [info("x", TensorProto.FLOAT, [1])], [info("y", TensorProto.FLOAT, [1])],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()],
    )  # fmt: skip
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    model = onnx_ir.from_proto(proto)
    part_constants(GraphEditor(model, {}))
    changed = onnx_ir.to_proto(model)
    read = {node.name: node.input[0] for node in changed.graph.node}
    assert read["a"] == read["c"] == "byte" != read["b"]
    feed = {"x": np.zeros(1, np.float32)}
    before, after = (
        ort.InferenceSession(one.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feed)[0]
        for one in (proto, changed)
    )
    np.testing.assert_array_equal(after, before)
    np.testing.assert_allclose(after, [1.75], rtol=1e-6)
