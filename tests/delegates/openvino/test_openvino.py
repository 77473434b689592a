"""The target openvino: the graph of onnx-cpu, read by OpenVINO; what it does not convert is refused with its line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from openvino_support import needs_openvino
from torch import nn

import edgex
from edgex.delegates.openvino.conversion import find_refused
from edgex.delegates.openvino.delegate import _refusal
from edgex.errors import LoweringError
from edgex.runtime.artifact.artifact import open_artifact
from edgex.runtime.engines.openvino.trace import _find_operators
from edgex.runtime.engines.trace.source_map import read_source_map
from edgex.runtime.session.numerics import measure_sqnr_db

pytestmark = needs_openvino


class Counter(nn.Module):
    """State that is carried, a dynamic batch, and an integer output."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 4)
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.linear(x)
        self.total.add_(y.sum(0))
        return y + self.total, y.argmax(-1)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("openvino")
    shapes = {"x": {0: torch.export.Dim("batch", min=1, max=8)}}
    artifact = edgex.export_model(
        Counter(), (torch.randn(3, 6),), target="openvino", output=folder, dynamic_shapes=shapes, name="net"
    )
    return artifact.path


def test_it_is_proved_with_state_and_every_batch(exported: Path) -> None:
    artifact = open_artifact(exported)
    assert artifact.manifest.status == "verified" and artifact.manifest.engine == "openvino"
    torch.manual_seed(0)
    eager, x = Counter(), torch.randn(5, 6, generator=torch.Generator().manual_seed(3))
    with edgex.load(exported, threads=1) as session:
        assert session.executed_on == "openvino: CPU" and session.threads == 1
        for _ in range(2):
            wanted = [value.detach().numpy() for value in eager(x)]
            found = session.run(x)
            sqnr_db = measure_sqnr_db(wanted[0], found[0])
            assert sqnr_db > 100, f"{sqnr_db:.1f} dB"
            np.testing.assert_array_equal(found[1], wanted[1])
            assert found[1].dtype == np.int64


def test_its_nodes_lead_back_to_operators(exported: Path) -> None:
    with edgex.load(exported, threads=1) as session:
        report = edgex.profile(session, warmup=2, runs=6, fresh_processes=1)
    assert report.trace is not None
    linear = next(row for row in report.ops if row.module_path == "linear")
    assert "FullyConnected" in linear.op_type or "MatMul" in linear.op_type
    # The implementation is named, and with it the type that it ran in.
    assert "f32" in linear.op_type and linear.delegate == "OpenVINO"
    # What one ONNX node became several of has its name with numbers behind.
    sources = read_source_map(open_artifact(exported), {})
    assert _find_operators(["output_1.0.0"], "output_1.0.0", sources) == ["node_argmax"]
    assert _find_operators(["TopK_38362"], "TopK_38362", sources) == []


def test_an_artifact_in_int8_computes_in_int8(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3)).eval()
    data = [(torch.randn(1, 3, 16, 16),) for _ in range(8)]
    artifact = edgex.export_model(
        module, data[0], target="openvino", output=tmp_path, quantize="int8", calibration=data, name="net"
    )
    with edgex.load(artifact.path, threads=1) as session:
        report = edgex.profile(session, warmup=2, runs=6, fresh_processes=1)
    kinds = [row.op_type for row in report.ops if row.op_type.startswith("Convolution")]
    assert kinds and all("I8" in kind for kind in kinds), kinds


def test_what_is_not_converted_is_named(tmp_path: Path) -> None:
    import onnx
    from onnx import TensorProto, helper

    float_info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("NoSuchOperator", ["x"], ["y"], name="node_odd", domain="nowhere")],
        "main",
        [float_info("x", TensorProto.FLOAT, [2])],
        [float_info("y", TensorProto.FLOAT, [2])],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("nowhere", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), tmp_path / "model.onnx")
    ((node, why),) = find_refused(tmp_path / "model.onnx")
    # A node whose result leaves the graph goes by the result's name.
    assert (node, why) == ("y", "OpenVINO does not convert it from ONNX")
    debug = {"ops": [{"id": "node_odd", "op": "aten.odd.default", "source": "net.py:3", "outputs": ["y"]}]}
    for name in ("y", "node_odd"):
        error = _refusal([(name, why)], debug)
        assert error.where == "net.py:3" and "aten.odd.default" in error.what and "net.py:3: " in str(error.why)


def test_precisions_and_recipes_that_it_lacks(tmp_path: Path) -> None:
    for changes, words in (({"precision": "bf16"}, "inference_precision"), ({"quantize": "8da4w"}, "int8")):
        with pytest.raises((LoweringError, edgex.errors.QuantizationError), match=words):
            edgex.export_model(nn.Linear(2, 2), (torch.randn(1, 2),), target="openvino", output=tmp_path, **changes)
    assert not list(tmp_path.iterdir())


def test_the_artifact_names_no_place_of_this_machine(exported: Path) -> None:
    text = json.dumps(json.loads((exported / "manifest.json").read_text()))
    assert str(Path.cwd()) not in text and "/tmp" not in text
