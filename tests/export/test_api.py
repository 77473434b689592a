"""The functions of `edgex` for Python code, and their errors in the terms of Python."""

import math

import pytest
import torch
from torch import nn

import edgex
from edgex.errors import ArtifactError, CaptureError, RunError, TargetUnavailable, UsageError
from edgex.export.python_errors import translate
from edgex.runtime.session.numerics import Tolerance


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


class Merging(nn.Linear):
    """As a LoRA layer that merges its weights when it is put in eval mode."""

    merged = False

    def train(self, mode=True):
        self.merged = not mode
        return super().train(mode)


def mixed_modes():
    model = nn.Sequential(Merging(4, 4), nn.BatchNorm1d(4), nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 2))).train()
    model[1].eval()
    return model


def modes_of(model):
    return [part.training for part in model.modules()], model[0].merged


def test_a_module_has_its_own_mode_again(tmp_path):
    model = mixed_modes()
    before = modes_of(model)
    assert before == ([True, True, False, True, True, True], False)
    call = {"target": "reference", "output": tmp_path, "name": "net"}
    edgex.export_model(model, (ROWS,), **call)
    assert modes_of(model) == before
    with pytest.raises(UsageError, match="exists"):
        edgex.export_model(model, (ROWS,), **call)
    assert modes_of(model) == before
    with pytest.raises(CaptureError):
        edgex.export_model(model, (ROWS[:, :3],), **call, force=True)
    assert modes_of(model) == before
    edgex.export_model({"run": (model, (ROWS,)), "again": (model.forward, ROWS)}, **call, force=True)
    assert modes_of(model) == before
    edgex.why(model, (ROWS,), target="reference")
    assert modes_of(model) == before
    with pytest.raises(UsageError, match="max-seconds is a finite number"):
        edgex.pick(model, (ROWS,), targets="reference", max_seconds=math.nan, output=tmp_path)
    assert modes_of(model) == before


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"target": ["xnnpack", "onnx-cpu"]}, "target is one name, not a list"),
        ({"target": None}, "target is a text"),
        ({"quantize": 8}, "quantize is a text"),
        ({"options": ["opset"]}, "options is a dict by name"),
        ({"output": 3}, "output is a path"),
        ({"exclude": 5}, "exclude is a list of names"),
        ({"exclude": "aten.linear.default@nowhere"}, "nowhere"),
        ({"sizes": "x:0=1,4", "max_drop": 0.1}, "does not go with|without a recipe"),
        ({"tolerance": 60.0}, "tolerance is an object of type float"),
        ({"tolerance": Tolerance(math.nan)}, "min_sqnr_db is a finite number, 0 or more, not nan"),
        ({"tolerance": Tolerance(-5.0)}, "min_sqnr_db is a finite number, 0 or more, not -5"),
        ({"tolerance": Tolerance(80.0, math.inf)}, "atol is a finite number"),
        ({"tolerance": Tolerance(80.0, 0.1, -1.0)}, "rtol is a finite number"),
        ({"tolerance": Tolerance(80.0, min_equal=2.0)}, "min_equal is a finite number between 0 and 1"),
        ({"tolerance": Tolerance("80")}, "min_sqnr_db is a number, not '80'"),
        ({"quantize": "int8", "max_drop": math.nan}, "max-drop is a finite number"),
        ({"quantize": "int8", "max_drop": "1%"}, "max-drop is a number, not '1%'"),
    ],
)
def test_arguments_of_other_types_are_refused(arguments, sentence, tmp_path):
    call = {"target": "xnnpack", "output": tmp_path, **arguments}
    with pytest.raises(UsageError, match=sentence):
        edgex.export_model(Sum().eval(), (ROWS,), **call)
    assert list(tmp_path.iterdir()) == []


def test_runtime_functions_take_paths_and_refuse_other_types(tmp_path):
    artifact = edgex.export_model(Sum().eval(), (ROWS,), target="reference", output=tmp_path)
    for given in (artifact, artifact.path, str(artifact.path)):
        with edgex.load(given) as session:
            assert session.artifact.path == artifact.path
        report = edgex.profile(given, warmup=1, runs=2, fresh_processes=1, trace=False)
        assert report.artifact.target == "reference"
    for call in (edgex.load, edgex.profile, edgex.verify):
        with pytest.raises(UsageError, match="the artifact is a path, not an object of type NoneType"):
            call(None)
    with pytest.raises(UsageError, match="an artifact or report is a path"):
        edgex.compare(artifact, 3)
    for threads, sentence in (("2", "whole number, not '2'"), (1.5, "whole number, not 1.5"), (100_000, "at most")):
        for call in (edgex.load, edgex.verify):
            with pytest.raises(UsageError, match=sentence):
                call(artifact, threads=threads)
        with pytest.raises(UsageError, match=sentence):
            edgex.compare(artifact, artifact, threads=threads)
    with pytest.raises(UsageError, match="options is a dict by name"):
        edgex.load(artifact, options="x")


def test_an_unknown_check_is_refused_and_checks_nothing_less(tmp_path):
    artifact = edgex.export_model(Sum().eval(), (ROWS,), target="reference", output=tmp_path)
    file = artifact.path / artifact.manifest.native_files[0].path
    file.write_bytes(file.read_bytes()[::-1])
    for check in ("zz", "", None, "Hash", ["hash"]):
        for call in (edgex.load, edgex.verify, edgex.profile):
            with pytest.raises(UsageError, match="unknown check"):
                call(artifact.path, check=check)
        with pytest.raises(UsageError, match="unknown check"):
            edgex.compare(artifact, artifact, check=check)
    with pytest.raises(ArtifactError, match="SHA-256"):
        edgex.load(artifact.path)


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
