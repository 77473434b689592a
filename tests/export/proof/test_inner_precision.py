"""The precision by which outputs are judged is the one that the model computes in."""

import pytest
import torch
from capture_checks import X, captured

from edgex.delegates.registry import get_delegate
from edgex.export.proof.inner_precision import find_inner_precision, lower_precision
from edgex.export.settings import ExportSettings


def autocast(self, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return self.linear(x).float()


@pytest.mark.parametrize(
    ("forward", "precision"),
    [
        (lambda self, x: self.linear(x), "fp32"),
        (lambda self, x: torch.nn.functional.linear(x.half(), self.linear.weight.half()).float(), "fp16"),
        (autocast, "bf16"),
        (lambda self, x: x + self.table.float(), "fp32"),
    ],
)
def test_what_a_model_computes_in(forward, precision):
    result = captured(forward, (X,), table=torch.ones(4, dtype=torch.float16))
    assert find_inner_precision(result.program.exported) == precision
    assert any("inside" in notice for notice in result.notices) == (precision != "fp32")


def test_the_tolerance_is_that_of_the_lower_precision():
    settings, delegate = ExportSettings(("reference",)), get_delegate("reference")
    limits = [
        settings.tolerance_for(delegate, lower_precision("fp32", inner)).min_sqnr_db for inner in ("fp32", "bf16")
    ]
    assert limits == [80.0, 30.0]
