"""What onnx-qnn refuses, each provoked: unquantized operators, memory, time, a provider that takes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx_ir
import pytest
import torch
from model_support import run_edgex
from onnx import TensorProto, helper
from qnn_support import needs_qnn
from torch import nn

import edgex
from edgex.delegates.onnxruntime.qnn.delegate import OnnxQnnOptions
from edgex.delegates.onnxruntime.qnn.rules import find_unquantized, qnn_refusals
from edgex.delegates.registry import get_delegate
from edgex.errors import EdgexError, LoweringError, RunError, VerificationError
from edgex.export.settings import ExportSettings, check_settings
from edgex.runtime.engines.onnxruntime.provider.sessions import ProviderChoice, open_on_provider
from edgex.runtime.engines.onnxruntime.session import import_onnxruntime
from edgex.runtime.engines.qnn import context, detection, trace
from edgex.runtime.engines.qnn.provider import QNN, find_htp, find_provider
from edgex.runtime.execute.here import client

SM8350 = {"soc_model": 30, "htp_arch": 68, "enable_htp_fp16_precision": True, "offload_graph_io_quantization": False}


NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 4)

    def forward(self, x):
        return self.second(torch.sin(torch.cos(self.first(x))))

def get_model():
    torch.manual_seed(0)
    return Net().eval()

def get_args():
    return (torch.ones(3, 6),)

def calibration_data():
    generator = torch.Generator().manual_seed(1)
    return [(torch.randn(3, 6, generator=generator),) for _ in range(8)]
"""


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # Between the two there is no range to be integers of.
        h = torch.sin(torch.cos(self.first(x)))
        return self.second(h)


def make_data() -> list[tuple[torch.Tensor, ...]]:
    generator = torch.Generator().manual_seed(1)
    return [(torch.randn(3, 6, generator=generator),) for _ in range(8)]


def make_model(*kinds: str, type: int = TensorProto.FLOAT) -> onnx_ir.Model:
    """A chain of operators of one input, named by their places."""
    names = [f"v{place}" for place in range(len(kinds) + 1)]
    nodes = [helper.make_node(kind, [names[i]], [names[i + 1]], name=f"n{i}") for i, kind in enumerate(kinds)]
    ends = [helper.make_tensor_value_info(name, type, [3, 8]) for name in (names[0], names[-1])]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    opsets = [helper.make_opsetid("", 21)]
    return onnx_ir.serde.deserialize_model(helper.make_model(graph, opset_imports=opsets, ir_version=10))


def test_a_context_binary_beside_sizes_is_refused_before_anything_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    from edgex.export.methods.sizes import parse_sizes

    monkeypatch.setattr(detection, "installed_version", lambda _name: "2.7.0")
    monkeypatch.setattr(detection, "find_provider", lambda: Path(__file__))
    asked = ExportSettings(("onnx-qnn",), precision="fp16", options={"context": True}, sizes=parse_sizes(["x:0=1,2"]))
    with pytest.raises(LoweringError, match="a context binary holds one method") as caught:
        check_settings(asked, "net")
    assert "share_ep_contexts" in str(caught.value.why)


def test_int8_without_calibration_data_is_refused(tmp_path: Path) -> None:
    # The recipe, and what it asks for, are the same on onnx-cpu.
    target = "onnx-qnn" if get_delegate("onnx-qnn").availability().available else "onnx-cpu"
    with pytest.raises(EdgexError, match="needs calibration data, and there is none") as caught:
        edgex.export_model(Mixed(), make_data()[0], target=target, quantize="int8", output=tmp_path)
    assert "calibration" in str(caught.value.fix)


def test_what_computes_in_floating_point_is_found() -> None:
    def quantized(*between: str) -> onnx_ir.Model:
        scale = helper.make_tensor("s", TensorProto.FLOAT, [], [0.5])
        zero = helper.make_tensor("z", TensorProto.UINT8, [], [3])
        kinds = ["QuantizeLinear", "DequantizeLinear", *between, "QuantizeLinear", "DequantizeLinear"]
        nodes = []
        for place, kind in enumerate(kinds):
            more = ["s", "z"] if kind.endswith("Linear") else []
            nodes.append(helper.make_node(kind, [f"v{place}", *more], [f"v{place + 1}"], name=f"n{place}"))
        info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in ("v0", f"v{len(kinds)}")]
        graph = helper.make_graph(nodes, "g", info[:1], info[1:], [scale, zero])
        import onnx

        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
        return onnx_ir.serde.deserialize_model(onnx.shape_inference.infer_shapes(made))

    assert find_unquantized(quantized("Sigmoid")) == []
    assert find_unquantized(quantized("Sigmoid", "Relu")) == []
    assert find_unquantized(quantized("Sin", "Cos", "Relu")) == ["n2", "n3", "n4"]
    assert find_unquantized(make_model("Relu")) == ["n0"]


@needs_qnn
def test_an_unquantized_operator_is_named_where_the_htp_has_no_floating_point(tmp_path: Path) -> None:
    data = make_data()
    with pytest.raises(LoweringError, match=r"QNN for sm8350 \(HTP v68\) cannot run this model: .*aten\.sin") as caught:
        edgex.export_model(
            Mixed(), data[0], target="onnx-qnn", quantize="int8", calibration=data, output=tmp_path,
            options={"soc": "sm8350"},
        )  # fmt: skip
    assert f"{Path(__file__).name}:" in str(caught.value.where) and "stays in floating point" in str(caught.value.why)
    assert "sm8450" in str(caught.value.fix) and "allow_fallback" not in str(caught.value.fix)


@needs_qnn
def test_an_unquantized_operator_among_integers_is_named(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(NET)
    done = run_edgex("export", "net.py", "-t", "onnx-qnn", "--quantize", "int8", "--json", "-q", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (artifact,) = json.loads(done.stdout)["artifacts"]
    (warning,) = [text for text in artifact["warnings"] if "in floating point among integers" in text]
    assert "aten.sin.default (net.py:11)" in warning and "aten.cos.default (net.py:11)" in warning


@needs_qnn
def test_a_graph_that_does_not_fit_into_the_htps_memory() -> None:
    """v68 without the refusal above: its compiler itself runs out of memory."""
    with pytest.raises(LoweringError, match="cannot compile it") as caught:
        qnn_refusals(make_model("Elu"), options=SM8350, fatal=True)
    assert "MEM_ALLOC" in str(caught.value.why) and "smaller inputs or --quantize int8" in str(caught.value.fix)


@needs_qnn
def test_a_compiler_that_takes_too_long(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(trace, "TIMEOUT_SECONDS", 0.05)
    with pytest.raises(LoweringError, match=r"QNN cannot compile this model: .*took too long") as caught:
        qnn_refusals(make_model("Relu"), options=SM8350, fatal=True)
    assert "smaller inputs" in str(caught.value.fix)
    monkeypatch.setattr(trace, "TIMEOUT_SECONDS", 900.0)
    monkeypatch.setattr(context, "TIMEOUT_SECONDS", 0.05)
    with pytest.raises(LoweringError, match=r"QNN cannot compile this model: .*took too long"):
        edgex.export_model(
            nn.Linear(4, 4), (torch.ones(1, 4),), target="onnx-qnn", precision="fp16", output=tmp_path,
            options={"context": True},
        )  # fmt: skip
    assert not list(tmp_path.iterdir())


@needs_qnn
def test_a_simulator_that_does_not_end_ends_the_proof(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(client, "RUN_SECONDS", 1e-6)
    with pytest.raises(VerificationError, match="took too long") as caught:
        edgex.export_model(
            nn.Linear(4, 4), (torch.ones(1, 4),), target="onnx-qnn", precision="fp16", output=tmp_path,
            options={"simulation_seconds": 0},
        )  # fmt: skip
    assert "smaller inputs" in str(caught.value.fix) and not list(tmp_path.iterdir())


@needs_qnn
def test_a_provider_that_takes_nothing_runs_nothing() -> None:
    """Left to itself ONNX Runtime runs all of it on the CPU, and says nothing."""
    onnxruntime = import_onnxruntime()
    model = onnx_ir.serde.serialize_model(make_model("Sinh")).SerializeToString()
    given = {**get_delegate("onnx-qnn").provider_options(OnnxQnnOptions()), "backend_path": str(find_htp())}
    with pytest.raises(RunError, match="does not take every operator"):
        choice = ProviderChoice(QNN, find_provider(), given)
        open_on_provider(onnxruntime, model, onnxruntime.SessionOptions(), choice)
    choice = ProviderChoice(QNN, find_provider(), given, allow_fallback=True)
    opened = open_on_provider(onnxruntime, model, onnxruntime.SessionOptions(), choice)
    assert set(opened.nodes or {}) == {"CPUExecutionProvider"}
    (y,) = opened.session.run(None, {"v0": np.ones((3, 8), np.float32)})
    np.testing.assert_allclose(y, np.sinh(1.0), rtol=1e-5)
