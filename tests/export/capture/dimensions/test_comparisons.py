"""Comparisons of sizes given to functions of torch: decided where the range decides them, and refused with a line."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from capture_checks import HERE
from torch import nn
from torch.export import Dim
from torch.nn.functional import scaled_dot_product_attention  # by its own name, as Whisper imports it

from benchmarks.operators.proof import prove
from edgex.errors import CaptureError
from edgex.export.capture.program import capture

X, Y = torch.randn(1, 12, 16), torch.randn(1, 20, 16)


class Attention(nn.Module):
    def __init__(self, more_than: int = 1) -> None:
        super().__init__()
        self.query = nn.Linear(16, 16)
        self.more_than = more_than

    def forward(self, x: torch.Tensor, y: torch.Tensor | None = None) -> torch.Tensor:
        keys = x if y is None else y
        return scaled_dot_product_attention(self.query(x), keys, keys, is_causal=x.shape[1] > self.more_than)


class Others(nn.Module):
    """Truths of other functions, and one in a condition of Python."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        length = x.shape[1]
        largest = x.amax(1, keepdim=length >= 2).squeeze(1)
        ordered = torch.topk(x, 2, dim=1, largest=length != 1)[0].sum(1)
        wide = F.interpolate(x.mT, size=24, mode="linear", align_corners=length < 100).mean(-1)
        return largest + ordered + wide if length > 1 else largest


def sizes(least: int, most: int = 40) -> dict:
    return {"x": {1: Dim("length", min=least, max=most)}}


@pytest.mark.parametrize("target", ["onnx-cpu", "xnnpack"])
def test_the_range_decides(target: str) -> None:
    proved = prove(Attention(), (X,), target, dynamic_shapes=sizes(2))
    assert proved.exit_code == 0, proved.reason
    proved = prove(Attention(50), (X, Y), target, dynamic_shapes=sizes(2) | {"y": None})
    assert proved.exit_code == 0, proved.reason


def test_truths_of_other_functions() -> None:
    proved = prove(Others(), (X,), "onnx-cpu", dynamic_shapes=sizes(2))
    assert proved.exit_code == 0, proved.reason


def test_one_row_attends_to_itself_with_the_mask_and_without() -> None:
    proved = prove(Attention(), (X,), "onnx-cpu", dynamic_shapes=sizes(1))
    assert proved.exit_code == 0, proved.reason


def refusal(model: nn.Module, inputs: tuple, shapes: dict) -> CaptureError:
    with pytest.raises(CaptureError) as error:
        capture(model.eval(), inputs, {}, shapes, source_root=HERE)
    assert "test_comparisons.py" in error.value.where, error.value.where
    assert "is_causal" in error.value.where
    return error.value


def test_one_row_that_attends_to_others_is_refused() -> None:
    """With the mask it would attend to the first key alone, without to all of them."""
    error = refusal(Attention(), (X, Y), sizes(1) | {"y": None})
    assert "length = 1" in error.what
    assert "min=2" in error.fix and "--dynamic x:1=2..40" in error.fix


def test_a_range_with_both_is_refused() -> None:
    error = refusal(Attention(4), (X,), sizes(1))
    assert "min=5" in error.fix
