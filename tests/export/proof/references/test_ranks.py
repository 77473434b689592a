"""Outputs that are indices of the largest values: equals in any order pass, wrong choices do not."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from benchmarks.operators.proof import prove
from edgex.runtime.session.numerics import Tolerance, compare_choices

SCORES = np.array([[3.0, 1.0, 2.0, 2.0, 0.0]], np.float32)
LIMITS = Tolerance(80.0, 1e-4, 1e-4)


class Ranks(nn.Module):
    """Rounded scores have equals, and the stress case of zeros nothing else."""

    def forward(self, x):
        values, indices = torch.topk(torch.round(x * 2), 3)
        return values, indices.to(torch.int32)


@pytest.mark.parametrize("target", ["onnx-cpu", "xnnpack"])
def test_equals_have_no_order(target):
    proved = prove(Ranks(), (torch.randn(4, 16, generator=torch.Generator().manual_seed(0)),), target)
    assert proved.exit_code == 0, proved.reason


@pytest.mark.parametrize(
    ("indices", "verdict", "reason"),
    [
        ([[0, 3, 2]], "pass", None),
        ([[0, 2, 3]], "pass", None),
        ([[0, 2, 1]], "fail", "SQNR 12.3 dB is below 80 dB"),
        ([[0, 2, 2]], "fail", "an index is there twice"),
        ([[0, 2, 5]], "fail", "indices outside of 0 to 4"),
    ],
)
def test_indices_are_judged_by_what_they_choose(indices, verdict, reason):
    found = compare_choices(np.array([[0, 2, 3]]), np.array(indices), SCORES, 1, LIMITS)
    assert (found.verdict, found.reason) == (verdict, reason)


def test_an_index_of_a_reduced_axis_stands_for_one_value():
    wanted, found = np.array([2, 0]), np.array([3, 0])
    scores = np.array([[0.0, 1.0, 2.0, 2.0], [5.0, 4.0, 1.0, 0.0]], np.float32)
    assert compare_choices(wanted, found, scores, 1, LIMITS).verdict == "pass"
    assert compare_choices(wanted, found + 1 - 2 * (found > 2), scores, 1, LIMITS).verdict == "fail"
