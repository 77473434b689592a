"""Functions that look at their numbers are computed by their formulas, or refused by name with what to write."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from rewriting import Calls

from benchmarks.operators.proof import prove
from edgex.errors import CaptureError
from edgex.export.capture.program import capture

HERE = Path(__file__).parent
X = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
COUNTS = torch.tensor([3, 1, 1, 0, 3])


@pytest.mark.parametrize(
    "function",
    [
        torch.cov,
        torch.corrcoef,
        lambda x: x.cov(correction=0),
        lambda x: torch.cov(x[0]) + torch.corrcoef(x[0]),
        lambda x: x.T.corrcoef(),
    ],
)
def test_eagers_numbers(function):
    program = capture(Calls(function).eval(), (X,), source_root=HERE).program.exported.module()
    for x in (X, X.flip(0) * 3):
        torch.testing.assert_close(program(x)[0], function(x))


@pytest.mark.parametrize("target", ["xnnpack", "onnx-cpu", "onednn"])
def test_targets(target):
    assert prove(Calls(lambda x: torch.cov(x) + torch.corrcoef(x)), (X,), target).exit_code == 0


@pytest.mark.parametrize(
    "function, what, fix",
    [
        (lambda x: torch.cov(x, fweights=torch.ones(6, dtype=torch.int64)), "torch.cov with weights", "weighted mean"),
        (lambda x: torch.linalg.lstsq(x.T, x.T).solution, "torch.linalg.lstsq", "torch.linalg.solve(a.mT @ a"),
        (lambda x: torch.bincount((x > 0).long().flatten(), minlength=3), "no upper bound", "torch.arange(n)).sum(0)"),
    ],
)
def test_what_is_refused_has_a_way_on(function, what, fix):
    with pytest.raises(CaptureError, match=what) as caught:
        capture(Calls(function).eval(), (X,), source_root=HERE)
    assert "rewriting.py:" in caught.value.where or "test_checked_functions.py:" in caught.value.where
    assert fix in caught.value.fix


def test_the_ways_on_are_right():
    counted = (COUNTS[:, None] == torch.arange(5)).sum(0)
    assert torch.equal(counted, torch.bincount(COUNTS, minlength=5))
    torch.testing.assert_close(
        torch.linalg.solve(X @ X.T, X @ X.T[:, :2]), torch.linalg.lstsq(X.T, X.T[:, :2]).solution
    )
