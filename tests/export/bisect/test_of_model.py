"""`edgex bisect` on a real wrong kernel: onnxruntime's average pooling ignores a divisor unless it is rewritten."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from edgex.errors import RunError
from edgex.export.bisect.of_model import Question, answer_question
from edgex.export.bisect.repro.place import check_folder
from edgex.export.settings import ExportSettings
from edgex.export.source.source import find_model
from edgex.runtime.artifact.artifact import open_artifact
from edgex.runtime.execute.here.fresh_process import FreshProcess
from edgex.runtime.execute.verification import verify

POOLED = """\
import torch
from torch import nn
from torch.nn import functional as F


class Pooled(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(12, 3)

    def forward(self, x):
        pooled = F.avg_pool2d(x.sin(), 2, divisor_override=3)
        return self.head(pooled.flatten(1)).sigmoid()


def get_model():
    torch.manual_seed(0)
    return Pooled().eval()


def get_args():
    return (torch.randn(1, 3, 4, 4, generator=torch.Generator().manual_seed(1)),)
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("bisect") / "pooled.py"
    path.write_text(POOLED)
    return path


def ask(model, *, rewrite, **question):
    settings = ExportSettings(("onnx-cpu",), rewrite=rewrite)
    return answer_question(Question(lambda: find_model(str(model)), settings, **question), lambda _stage, _detail: None)


@pytest.fixture(scope="module")
def answer(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("repro") / "here"
    return (*ask(model, rewrite=False, repro=folder), folder)


def test_the_operator_with_its_line_engine_and_a_way_on(answer):
    found, _, _ = answer
    (fault,) = found.born
    assert fault.place.op == "aten.avg_pool2d.default" and fault.place.source == "pooled.py:12"
    assert fault.place.inputs == ("float32[1, 3, 4, 4]",) and fault.place.shape == (1, 3, 2, 2)
    assert fault.error_db == pytest.approx(20 * np.log10(4)), "a quarter of the sum in place of a third: a quarter off"
    assert fault.engine == "onnxruntime: CPUExecutionProvider" and not fault.runs_differ
    assert found.cases[0].name == "example"
    assert found.workaround.kind == "rewrite" and found.workaround.command == "edgex export pooled.py -t onnx-cpu"
    document = found.to_json()
    assert document["schema"] == "edgex.bisect/1" and document["workaround"] == found.workaround.command


def test_the_repro_fails_by_itself(answer):
    found, notices, folder = answer
    assert found.repro == str(folder)
    assert sorted(path.name for path in folder.iterdir()) == [
        "repro.onnx-cpu.edgex", "repro.py", "repro.safetensors"
    ]  # fmt: skip
    assert "repro.py gives the model's own numbers in eager" in notices
    verdict, _ = verify(FreshProcess(), open_artifact(folder / "repro.onnx-cpu.edgex"))
    assert not verdict.passed and "SQNR 12.0 dB" in verdict.reason
    source = find_model(str(folder / "repro.py"))
    with torch.no_grad():
        (output,) = source.module(*source.args)
    assert output.shape == (1, 3, 2, 2) and "avg_pool2d" in (folder / "repro.py").read_text()
    with pytest.raises(Exception, match="not empty"):
        check_folder(folder, force=False)


def test_a_right_artifact_says_what_was_tried(model):
    data = {"x": np.full((1, 3, 4, 4), 0.5, np.float32) + np.arange(4, dtype=np.float32)}
    found, _ = ask(model, rewrite=True, read_inputs=lambda _specs: data)
    assert not found.born and found.cases[0].name == "given inputs" and found.cases[0].error_db > 80
    assert any("right on all" in sentence for sentence in found.ruled_out)


def test_inputs_that_do_not_fit_are_named(model):
    with pytest.raises(RunError, match="-i does not fit the model: input 'x' has shape"):
        ask(model, rewrite=True, read_inputs=lambda _specs: {"x": np.zeros((2, 3, 4, 4), np.float32)})
