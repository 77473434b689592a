"""The functions of `edgex` for Python code, and their errors in the terms of Python."""

import pytest
import torch
from torch import nn

import edgex
from edgex.errors import TargetUnavailable, UsageError
from edgex.export.python_errors import translate


class Sorted(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return torch.cumsum(self.linear(x), 1)


def test_why_names_what_targets_leave_and_changes_nothing():
    model = Sorted().train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    report = edgex.why(model, (torch.rand(2, 4),), target=["xnnpack", "onnx-cpu"])
    views = {view.target: view for view in report.targets}
    assert [item.fallback.op for item in views["xnnpack"].left_out] == ["aten.cumsum.default"]
    assert "test_api.py" in views["xnnpack"].left_out[0].fallback.source
    assert views["onnx-cpu"].left_out == ()
    assert report.to_json()["schema"] == "edgex.why/2"
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    with pytest.raises((UsageError, TargetUnavailable), match="xnnpck"):
        edgex.why(model, (torch.rand(2, 4),), target="xnnpck")


def test_verify_takes_a_path_or_an_artifact_and_errors_name_arguments(tmp_path):
    call = {"target": "reference", "output": tmp_path, "name": "net"}
    artifact = edgex.export_model(nn.Linear(4, 2).eval(), (torch.rand(1, 4),), **call)
    for given in (artifact, artifact.path, str(artifact.path)):
        verdict = edgex.verify(given)
        assert verdict.passed and verdict.cases[0].name == "example"
    with pytest.raises(UsageError) as caught:
        edgex.export_model(nn.Linear(4, 2).eval(), (torch.rand(1, 4),), **call)
    assert caught.value.fix == "force=True replaces it, output= chooses another place"


@pytest.mark.parametrize(
    ("flags", "arguments"),
    [
        ("use --precision fp16, or --quantize int8", "use precision='fp16', or quantize='int8'"),
        ("--option opset=20", "options={'opset': '20'}"),
        ("--no-memory-check tries all the same", "memory_check=False tries all the same"),
        ("give --calibration data.npz", "give calibration=data.npz"),
        ("x.to-one -object", "x.to-one -object"),
        (None, None),
    ],
)
def test_flags_become_arguments(flags, arguments):
    assert translate(flags) == arguments
