"""The target onnx-qnn with a method for each of some sizes, which share their weights."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from qnn_support import needs_qnn
from sized_models import make_reader, make_text
from torch import nn

import edgex
from edgex.errors import LoweringError
from edgex.runtime.session.numerics import measure_sqnr_db

pytestmark = needs_qnn


@pytest.mark.parametrize("kind", [{"precision": "fp16"}, {"quantize": "int8"}], ids=["fp16", "int8"])
def test_each_size_is_compiled_and_proved_and_weights_are_there_once(tmp_path: Path, kind: dict[str, str]) -> None:
    model, data = make_reader(), [make_text(12, seed) for seed in range(9)]
    artifact = edgex.export_model(
        model,
        make_text(12),
        target="onnx-qnn",
        output=tmp_path,
        sizes=["ids:1=L=6,12", "mask:1=L"],
        calibration=data if "quantize" in kind else None,
        **kind,
    )
    assert artifact.manifest.status == "simulated"
    weights = (artifact.path / "model.onnx.data").stat().st_size
    assert weights < sum(p.numel() for p in model.parameters()) * 2 + 9_000, weights
    with edgex.load(artifact.path) as session:
        for length in (6, 12):
            inputs = make_text(length, seed=length)
            ratio = measure_sqnr_db(model(*inputs).detach().numpy(), session(*inputs)[0])
            assert ratio > (20 if "quantize" in kind else 30), f"length {length}: {ratio:.1f} dB"
            assert "QNNExecutionProvider" in session.method(f"L_{length}").executed_on


def test_a_context_binary_holds_one_size() -> None:
    with pytest.raises(LoweringError, match="a context binary holds one method"):
        edgex.export_model(
            nn.Linear(4, 4), (torch.ones(1, 4),), target="onnx-qnn", precision="fp16",
            options={"context": True}, sizes=["input:0=1,2"],
        )  # fmt: skip


def test_a_dynamic_model_is_refused_with_the_flag_that_makes_sizes_of_it() -> None:
    shapes = {"ids": {1: torch.export.Dim("n", min=2, max=64)}, "mask": {1: torch.export.Dim("n", min=2, max=64)}}
    with pytest.raises(LoweringError, match="dynamic ones") as raised:
        edgex.export_model(make_reader(), make_text(12), target="onnx-qnn", precision="fp16", dynamic_shapes=shapes)
    assert "--sizes ids:1=n=2,64 --sizes mask:1=n" in (raised.value.fix or "")
