"""The QNN provider without its package: the SoCs, its reasons, and a missing package as a state."""

from __future__ import annotations

import ast
import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from edgex.delegates.onnxruntime.qnn.delegate import OnnxQnnDelegate
from edgex.delegates.registry import get_delegate, parse_options
from edgex.errors import LoweringError, RunError, UsageError
from edgex.export.settings import ExportSettings, check_settings
from edgex.runtime.engines.qnn import detection
from edgex.runtime.engines.qnn.opening import _read_seconds
from edgex.runtime.engines.qnn.socs import SOCS
from edgex.runtime.engines.qnn.trace import LeftNode, read_trace


def test_the_table_of_socs_is_that_of_executorch() -> None:
    """Read as text: importing that package downloads Qualcomm's SDK."""
    spec = find_spec("executorch")
    assert spec is not None and spec.submodule_search_locations
    folder = Path(next(iter(spec.submodule_search_locations)))
    tree = ast.parse((folder / "backends/qualcomm/serialization/qc_schema.py").read_text())
    chips = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "QcomChipset")
    models = {
        line.targets[0].id: ast.literal_eval(line.value)
        for line in chips.body
        if isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name)
    }
    table = next(
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_soc_info_table"
    )
    assert isinstance(table, ast.Dict)
    found = {}
    for key, value in zip(table.keys, table.values, strict=True):
        name = ast.unparse(key).rpartition(".")[2]  # type: ignore[arg-type]
        version = ast.unparse(value).partition("HtpArch.V")[2].partition(",")[0]
        found[name.lower()] = (models[name], int(version))
    assert {soc.name: (soc.model, soc.htp) for soc in SOCS.values()} == found


def test_an_unknown_soc_lists_the_known() -> None:
    with pytest.raises(UsageError) as caught:
        parse_options(get_delegate("onnx-qnn"), {"soc": "sm8651"})
    assert "did you mean 'sm8650'" in str(caught.value) and all(name in str(caught.value) for name in SOCS)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"optimization": "4"}, "0 to 3"),
        ({"vtcm_mb": "-1"}, "count from 0"),
        ({"simulation_seconds": "-1"}, "count from 0"),
        ({"simulation_seconds": "soon"}, "expected float"),
        ({"opset": "12"}, "opset 12"),
    ],
)
def test_options_are_checked(given: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_options(get_delegate("onnx-qnn"), given)


def test_a_missing_package_is_a_state_with_the_command_and_the_licence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detection, "installed_version", lambda _name: None)
    (package, session) = detection.detect()
    assert package.passed is False and package.fix == "pip install 'edgex-toolchain[run-qnn]'"
    assert "licence" in package.detail and session.passed is None
    found = OnnxQnnDelegate().availability()
    assert not found.available and found.fix == "pip install 'edgex-toolchain[qnn]'"
    monkeypatch.setattr(detection, "installed_version", lambda _name: "1.24.4")
    monkeypatch.setattr(detection, "find_provider", lambda: Path(__file__))
    (package, _) = detection.detect()
    assert package.passed is False and "1.24.4 is too old" in package.detail


def test_what_the_htp_does_not_compute_is_refused_before_anything_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detection, "installed_version", lambda _name: "2.7.0")
    monkeypatch.setattr(detection, "find_provider", lambda: Path(__file__))
    with pytest.raises(LoweringError, match="does not take --precision fp32") as caught:
        check_settings(ExportSettings(("onnx-qnn",)), "net")
    assert "--quantize int8" in str(caught.value.why) and "--precision fp16" in str(caught.value.why)
    with pytest.raises(LoweringError) as caught:
        check_settings(ExportSettings(("onnx-qnn",), precision="fp16", options={"soc": "sm8350"}), "net")
    assert "computes in float32" in str(caught.value.why)
    assert check_settings(ExportSettings(("onnx-qnn",), quantize="int8", options={"soc": "sm8350"}), "net")


def test_the_providers_reasons() -> None:
    trace = {
        "unsupported_nodes": [
            {
                "node_name": "a",
                "op_type": "Erf",
                "reason": "Operators of type `Erf` are not supported by QNN EP."
                "Erf node `a` will not be assigned to QNN EP.",
            },
            {"node_name": "b", "op_type": "Gemm", "reason": "Failed to add node."},
            {"node_name": "c", "op_type": "QuantizeLinear", "reason": "Failed to add node."},
            {"node_name": "d", "op_type": "Relu", "reason": "Failed to add node."},
        ]
    }
    log = (
        "x\n[W:onnxruntime:, a.cc:5 f] QNN.backendValidateOpConfig() failed for node `b` of type `FullyConnected` with "
        "error code 3110\n"
    )
    assert read_trace(json.dumps(trace), log) == [
        LeftNode("a", "Erf", "Operators of type Erf are not supported by QNN EP"),
        LeftNode("b", "Gemm", "the HTP takes no FullyConnected of this form (QNN error 3110)"),
        LeftNode("c", "QuantizeLinear", "QuantizeLinear goes with the operator beside it, which is left"),
        LeftNode("d", "Relu", "QNN's Relu does not take this form"),
    ]
    assert read_trace("{}", "") == []


@pytest.mark.parametrize("value", ["soon", -1, "inf", "nan"])
def test_seconds_of_simulation_are_a_number(value: object) -> None:
    with pytest.raises(RunError, match="simulation_seconds"):
        _read_seconds(value)
