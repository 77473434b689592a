"""Each cause of a failed capture: the exit code, the user's line, the cause, and what to write instead."""

import importlib
import importlib.util
import sys
from pathlib import Path

import pytest
import torch
from torch.export import Dim

from edgex.errors import CaptureError
from edgex.export.capture.diagnosis.export_failures import explain_data_dependence
from edgex.export.capture.diagnosis.mixed_sizes import explain_mixed_sizes
from edgex.export.capture.dimensions.dynamic import Asked
from edgex.export.capture.program import capture
from edgex.export.source.user_code.user_line import line_at
from edgex.runtime.artifact.specs import Dim as EdgexDim

MODELS = Path(__file__).parent / "models"
X = torch.randn(2, 4, generator=torch.Generator().manual_seed(0))


def load(name):
    spec = importlib.util.spec_from_file_location(f"sample_{name}", MODELS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def failing():
    return load("failing")


@pytest.fixture(scope="module")
def harmless():
    return load("harmless")


def failure(model, *args, **options):
    with pytest.raises(CaptureError) as caught:
        capture(model.eval(), args or (X,), source_root=MODELS, **options)
    assert caught.value.exit_code == 3
    return caught.value


def line_of(comment):
    """`failing.py:12: its text`, by the comment at the end of the line."""
    for number, text in enumerate((MODELS / "failing.py").read_text().splitlines(), 1):
        if text.endswith(f"# {comment}"):
            return f"failing.py:{number}: {text.strip()}"
    raise AssertionError(comment)


@pytest.mark.parametrize(
    ("name", "comment", "what", "why", "fix"),
    [
        ("Branch", "branch", "data-dependent control flow", "a branch depends on the values", "torch.where"),
        ("While", "while", "data-dependent control flow", "how often a loop runs", "torch.while_loop"),
        ("Combinations", "combinations", "a size depends on the data", "how large a result is", "x[self.pairs]"),
        ("Loss", "loss", "a size depends on the data", "in aten._ctc_loss", "return what it is computed from"),
        ("Item", "item", "a number depends on the data", "a Python number is read", "torch._check"),
        ("Nonzero", "nonzero", "a size depends on the data", "nonzero, unique", "torch._check"),
        (
            "Counter",
            "counter",
            "forward changes self.calls",
            "from 0 to 1",
            'register_buffer("calls", torch.tensor(0))',
        ),
        ("History", "history", "forward changes self.seen", "from a list of length 0", "return the tensors"),
        ("Cache", "cache", "forward changes self.cache", "changes its values", 'register_buffer("cache"'),
        ("GlobalCounter", "global counter", "forward changes the global CALLS", "from 0 to 1", "make it a buffer"),
        ("GlobalHistory", "global history", "forward changes the global HISTORY", "of length 1", "fixed size"),
        ("Pointer", "pointer", "hands a tensor's memory to other code", "no memory", "torch operators"),
        ("Native", "native", "torch.export cannot trace this Python", "_pickle.dumps", "move it out of forward"),
        ("NumpyOnly", "numpy only", "torch.export cannot trace this Python", "interp", "use torch's own function"),
        ("NumpyNoise", "numpy noise", "random numbers from numpy.random", "no two runs", "pass the noise as an input"),
        ("PythonNoise", "python noise", "random numbers from the random module", "constant", "pass the noise"),
        ("Dropout", "dropout", "random numbers from torch's generator", "no two runs", "training=self.training"),
        ("Parameter", "parameter", "changes the parameter scale", None, 'register_buffer("scale"'),
        ("Data", "data", "assigns to the .data of count", None, "self.count.copy_(value)"),
        ("Number", "number", "output output_1 is a number that the inputs decide", None, "without .item()"),
        ("Nothing", "nothing", "forward returns no tensor", None, "return the result"),
        ("WrongShape", "wrong shape", "fails on its own example inputs", "2x4 and 5x3", "float32[2, 4]"),
    ],
)
def test_failure(failing, name, comment, what, why, fix):
    error = failure(getattr(failing, name)())
    assert what in error.what
    assert error.where == line_of(comment)
    assert why is None or why in error.why
    assert fix in error.fix
    text = str(error)
    sentences = [line for line in text.splitlines() if len(line) > 20]
    assert len(set(sentences)) == len(sentences), f"a line is printed twice:\n{text}"
    assert str(MODELS) not in text, "absolute paths are not for users"


def test_experts_as_transformers_has_them_loop_only_where_they_are_told_to(failing):
    error = failure(failing.Experts())
    assert error.where == line_of("experts")
    assert 'model.set_experts_implementation("grouped_mm")' in error.fix
    other = failing.Experts()
    other.way = "grouped_mm"
    assert "set_experts_implementation" not in failure(other).fix


def test_wrong_number_of_inputs(failing):
    error = failure(failing.Branch(), X, X)
    assert error.what == "the model fails on its own example inputs"
    assert "takes 2 positional arguments but 3 were given" in error.why
    assert "(float32[2, 4], float32[2, 4])" in error.fix


def test_a_dict_that_should_be_one_argument(failing):
    with pytest.raises(CaptureError) as caught:
        capture(failing.Branch().eval(), (), {"ids": X}, source_root=MODELS)
    assert "put it into a tuple" in caught.value.fix


def test_inputs_of_other_kinds(failing):
    assert "is a NumPy array" in failure(failing.Branch(), X.numpy()).what
    assert "example input x is a set" in failure(failing.Branch(), {1}).what


@pytest.mark.parametrize("dim", [Dim("batch", min=1, max=8), Dim.DYNAMIC(min=2, max=8)])
def test_a_dimension_that_the_model_fixes(failing, dim):
    error = failure(failing.FixedBatch(), X, dynamic_shapes={"x": {0: dim}})
    assert error.what.endswith("cannot be dynamic")
    assert error.where == line_of("fixed batch")
    assert "size 2 only" in error.why
    assert "x.shape[0]" in error.fix


def test_a_range_that_the_model_narrows(failing):
    error = failure(failing.Even(), X.repeat(2, 1), dynamic_shapes={"x": {0: Dim("batch", min=1, max=8)}})
    assert error.what == "not every size of batch in its range works"
    assert error.where == line_of("even")
    assert "x.shape[0]" in error.why
    assert "batch = 2*_batch" in error.fix


def test_a_line_that_mixes_a_dynamic_dimension_with_fixed_sizes(failing):
    shapes = {"x": {0: Dim("batch", min=1, max=8)}, "y": {0: Dim("other", min=1, max=8)}}
    error = failure(failing.FlattenedBatch(), X[:1], torch.ones(3), dynamic_shapes=shapes)
    assert error.what == "x:0 is dynamic, and this line mixes that with fixed sizes"
    assert error.where == line_of("flattened batch")
    assert "[1, 4*x.shape[0]] X [4, 3]" in error.why
    assert error.fix == "take the size from the input, as in reshape(x.shape[0], -1), or leave x:0 static"


def test_symbols_that_are_no_arguments_mean_all_dynamic_dimensions():
    asked = [Asked("batch.x", 0, Dim("rows", min=1, max=8)), Asked("y", 1, Dim("length", min=1, max=8))]
    what, _, _ = explain_mixed_sizes(RuntimeError("got [1, 48*s77] X [48, 4]"), asked)
    assert what == "batch.x:0, y:1 are dynamic, and this line mixes that with fixed sizes"
    assert explain_mixed_sizes(RuntimeError("got [1, 48] X [49, 4]"), asked) is None
    assert explain_mixed_sizes(RuntimeError("got [1, 48*s77] X [48, 4]"), []) is None


def test_a_spectrogram_of_an_unbounded_length(failing):
    error = failure(failing.Spectrogram(), torch.ones(1, 512), dynamic_shapes={"wave": {1: Dim("length", min=256)}})
    assert error.what == "length cannot be dynamic"
    assert error.where == line_of("spectrogram")
    assert "only where a largest one is given" in error.why
    assert "conv1d" in error.fix


def test_dynamic_shapes_that_do_not_fit(failing):
    wrong = {"y": {0: Dim("batch", min=1, max=8)}}
    assert failure(failing.Even(), X, dynamic_shapes=wrong).what == "dynamic_shapes does not fit the inputs"
    outside = failure(failing.Even(), X, dynamic_shapes={"x": {0: Dim("batch", min=4, max=8)}})
    assert outside.what == "the example input x has size 2 in dimension 0, outside of 4..8"
    missing = failure(failing.Even(), X, dynamic_shapes={"x": {2: Dim("batch", min=4, max=8)}})
    assert "has 2 dimensions" in missing.what


def test_dynamic_keyword_arguments():
    class Model(torch.nn.Module):
        def forward(self, **inputs):
            return inputs["x"] * 2

    with pytest.raises(CaptureError, match=r"an input in \*\*kwargs cannot be dynamic"):
        capture(
            Model().eval(),
            (),
            {"x": X},
            {"inputs": {"x": {0: Dim("n", min=1, max=8)}}},
            source_root=MODELS,
        )


def test_an_integer_cannot_be_dynamic():
    class Model(torch.nn.Module):
        def forward(self, x, n):
            return x * n

    with pytest.raises(CaptureError, match="dynamic inputs must be tensors"):
        capture(Model().eval(), (X, 3), {}, {"x": None, "n": Dim.DYNAMIC}, source_root=MODELS)


def test_a_line_that_the_user_cannot_change(tmp_path):
    own, installed = line_at(str(tmp_path / "net.py"), 1, tmp_path), line_at(pytest.__file__, 1, tmp_path)
    assert (own.installed, installed.installed) == (False, True)
    assert installed.place == "pytest/__init__.py:1"
    assert "torch.where" in explain_data_dependence(None, own)[2]
    assert "from your own file" in explain_data_dependence(None, installed)[2]


def test_an_unknown_failure_keeps_torchs_words_and_the_line(failing, monkeypatch):
    def fail(module, *args, **kwargs):
        raise RuntimeError("\nsomething new\nwith details")

    monkeypatch.setattr(torch.export, "export", fail)
    error = failure(failing.Even())
    assert error.what == "torch.export cannot capture the model"
    assert error.why == "RuntimeError: something new"


@pytest.mark.parametrize(
    ("name", "notices"),
    [
        ("LazyTable", ()),
        ("TableOfItsSize", ()),
        ("KeepsAttention", ("forward also sets self.attention; the artifact does not",)),
        ("Prints", ()),
        ("OldWeightNorm", ()),
        ("UnusedNoise", ()),
    ],
)
def test_harmless_changes(harmless, name, notices, capsys):
    result = capture(getattr(harmless, name)().eval(), (X,), source_root=MODELS)
    assert result.notices == notices
    assert torch.equal(result.program.exported.module()(X)[0], result.eager.run([X])[0])
    captured = capsys.readouterr()
    assert captured.out == "", "stdout is for results"
    assert captured.err.count("mean") == (2 if name == "Prints" else 0), "once for each eager run, none for tracing"


def test_a_trace_leaves_no_tensors_without_values(harmless):
    model = harmless.TableOfItsSize().eval()
    shapes = {"x": {0: Dim("batch", min=1, max=8)}}
    result = capture(model, (X[:1],), dynamic_shapes=shapes, source_root=MODELS)
    assert torch.equal(model.table, torch.full((1, 4), 3.0))
    assert torch.equal(result.eager.run([X])[0], X + 3)
    assert result.program.inputs[0].shape == (EdgexDim("batch", 1, 8), 4)


def test_failures_are_quiet(failing, capfd):
    failure(failing.Branch())
    assert capfd.readouterr() == ("", "")


def test_the_line_of_a_library_that_decides(tmp_path, monkeypatch):
    """The user's own line calls it; the line of the library is in the cause, and its words decide what is said."""
    library, own = tmp_path / "library", tmp_path / "own"
    library.mkdir()
    own.mkdir()
    (library / "branching_layers.py").write_text(
        "from torch import nn\nclass Masked(nn.Module):\n    def forward(self, x):\n"
        "        if not (x > 9).any():\n            x = x + 1\n        return x\n"
    )
    (own / "calls_library.py").write_text(
        "from torch import nn\nfrom branching_layers import Masked\nclass Net(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n        self.masked = Masked()\n"
        "    def forward(self, x):\n        return self.masked(x) * 2\n"
    )
    for folder in (library, own):
        monkeypatch.syspath_prepend(str(folder))
    module = importlib.import_module("calls_library")
    with pytest.raises(CaptureError) as error:
        capture(module.Net().eval(), (X,), source_root=own)
    assert error.value.what == "data-dependent control flow"
    assert error.value.where == "calls_library.py:8: return self.masked(x) * 2"
    line = "branching_layers.py:4: if not (x > 9).any():"
    assert error.value.why.endswith(f"{line}; its sides give different outputs"), error.value.why
