"""Models and data that no artifact can be made of or proved with: each is refused by name, with what to do."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch
from bisect_support import make_subject, randn
from torch import nn

import edgex
from edgex.delegates.registry import get_delegate, parse_options
from edgex.errors import CaptureError, LoweringError, UsageError
from edgex.export.bisect import stage
from edgex.export.capture.program import capture

ATEN = torch.ops.aten
X = randn(2, 4)


class Calls(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.layer, self.function = nn.Linear(4, 4), function

    def forward(self, x):
        return self.function(self.layer(x))


@pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU the code runs")
@pytest.mark.parametrize(
    "function",
    [lambda x: x.cuda(), lambda x: x + torch.zeros(4, device="cuda"), lambda x: (torch.cuda.synchronize(), x)[1]],
)
def test_a_forward_that_needs_a_gpu(function, tmp_path):
    with pytest.raises(CaptureError, match="fails on its own example inputs") as caught:
        edgex.export_model(Calls(function).eval(), (X,), target="onnx-cpu", output=tmp_path / "gpu.onnx-cpu.edgex")
    assert caught.value.where.startswith("test_bad_inputs.py:") and "leave .cuda()" in caught.value.fix


@torch.library.custom_op("edgex_test_bad_inputs::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


twice.register_fake(torch.empty_like)


@pytest.mark.parametrize("target", ["reference", "xnnpack", "onnx-cpu", "onednn"])
def test_an_operator_of_the_users_is_refused_before_there_is_anything_to_repeat(target, tmp_path):
    module = Calls(lambda x: twice(x).sin()).eval()
    with pytest.raises(LoweringError, match=r"edgex_test_bad_inputs\.twice") as caught:
        edgex.export_model(module, (X,), target=target, output=tmp_path / f"own.{target}.edgex")
    assert "test_bad_inputs.py:" in str(caught.value.where) and "PyTorch's own operators" in str(caught.value.fix)
    assert not [*tmp_path.iterdir()]
    delegate = get_delegate(target)
    plan = delegate.plan(capture(module, (X,), source_root=tmp_path).program, parse_options(delegate, {}))
    assert "edgex_test_bad_inputs.twice.default" in [item.op for item in plan.fatal]


@pytest.mark.parametrize(
    ("sample", "words"),
    [
        ((X[:, :3],), "input 'x' has shape"),
        ((X.double(),), "input 'x' is float64"),
        ({"y": X}, "y"),
        ((X, X), "2"),
    ],
)
def test_data_that_do_not_fit(sample, words, tmp_path):
    with pytest.raises(UsageError, match=words) as caught:
        edgex.export_model(
            Calls(torch.sin).eval(), (X,), target="onnx-cpu", output=tmp_path / "data.onnx-cpu.edgex",
            verify_data=lambda: [sample],
        )  # fmt: skip
    assert "verify" in str(caught.value) and not [*tmp_path.iterdir()]


def test_a_time_limit_in_the_middle_says_what_is_known(monkeypatch, tmp_path):
    forward = Calls(lambda x: (x.sin() + 1).tanh() * x.exp())
    subject = make_subject(forward, (X,), {ATEN.sin.default: ATEN.cos.default}, tmp_path)
    looks = iter([0.0, 0.0, 0.0])  # then time is up
    monkeypatch.setattr("edgex.export.bisect.search.time", SimpleNamespace(monotonic=lambda: next(looks, math.inf)))
    found, _ = stage.bisect(subject, 60.0, lambda *_: None)
    assert not found.complete and found.judged == 3
    assert any("operators are right by themselves on example" in sentence for sentence in found.ruled_out)
    assert any("are wrong together and were not parted: time was up" in sentence for sentence in found.ruled_out)
