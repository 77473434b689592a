"""The functions of `edgex` for Python code, and their errors in the terms of Python."""

import pytest
import torch
from torch import nn

import edgex
from edgex.errors import RunError, TargetUnavailable, UsageError
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


class Sum(nn.Module):
    def forward(self, x, y=None):
        return x * 2 if y is None else x * 2 + y


ROWS = torch.tensor([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 9.0]])


@pytest.mark.parametrize(
    ("args", "kwargs", "names"),
    [
        (ROWS, None, ["x"]),
        ({"x": ROWS}, None, ["x"]),
        ([ROWS, ROWS], None, ["x", "y"]),
        (((ROWS,), {"y": ROWS}), None, ["x", "y"]),
        (ROWS, {"y": ROWS}, ["x", "y"]),
    ],
)
def test_example_inputs_have_the_forms_of_a_model_file(args, kwargs, names, tmp_path):
    artifact = edgex.export_model(Sum().eval(), args, kwargs, target="reference", output=tmp_path)
    assert [(spec.name, spec.shape) for spec in artifact.manifest.method.inputs] == [(name, (2, 4)) for name in names]


@pytest.mark.parametrize(
    ("args", "kwargs", "sentence"),
    [
        (ROWS.numpy(), None, "args gives an object of type ndarray as example inputs"),
        ("x", None, "args gives an object of type str as example inputs"),
        ({1: ROWS}, None, "args gives keyword arguments with the key 1"),
        ({"x": ROWS}, {"y": ROWS}, "args is of type dict beside kwargs"),
        ((ROWS,), ROWS, "kwargs is of type Tensor"),
    ],
)
def test_example_inputs_of_other_forms_are_refused(args, kwargs, sentence, tmp_path):
    calls = (
        lambda: edgex.export_model(Sum().eval(), args, kwargs, target="reference", output=tmp_path),
        lambda: edgex.why(Sum().eval(), args, kwargs, target="reference"),
        lambda: edgex.pick(Sum().eval(), args, kwargs, targets=["reference"], output=tmp_path),
    )
    for call in calls:
        with pytest.raises(UsageError, match=sentence):
            call()
    assert list(tmp_path.iterdir()) == []


def test_one_tensor_is_one_input_for_why_and_profile(tmp_path):
    (view,) = edgex.why(nn.Linear(4, 2).eval(), ROWS, target="reference").targets
    assert view.left_out == ()
    artifact = edgex.export_model(Sum().eval(), (ROWS, ROWS), target="reference", output=tmp_path)
    with edgex.load(artifact.path) as session:
        with pytest.raises(RunError, match="missing input: y"):
            edgex.profile(session, ROWS)
        with pytest.raises(RunError, match="inputs is of type str"):
            edgex.profile(session, "x.npz")


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
