"""What is written otherwise for QNN gives what it gave: judged by ONNX Runtime's CPU provider."""

from __future__ import annotations

import numpy as np
import onnx_ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgex.delegates.onnxruntime.graph.edits import GraphEditor
from edgex.delegates.onnxruntime.qnn.edits import flatten_gathers
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
