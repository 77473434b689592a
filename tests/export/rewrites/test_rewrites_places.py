"""Adaptive maxima with their places: eager's, ties included, on every target."""

from __future__ import annotations

import pytest
import torch
from rewriting import Calls, Untouched, capture_program, check_rewrite, run_program
from torch.nn import functional as F

from benchmarks.operators.proof import prove
from edgex.export.rewrites.pooling.places import write_max_places


@pytest.mark.parametrize("size, wanted", [((9,), (3,)), ((10, 7), (3, 3)), ((8, 9), (2, None)), ((4, 5, 3), (2, 2, 2))])
def test_places_of_adaptive_maxima(size, wanted):
    pool = (F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d)[len(size) - 1]
    given = wanted[0] if len(wanted) == 1 else wanted
    x = torch.randint(0, 9, (2, 3, *size), generator=torch.Generator().manual_seed(0)).float()  # with ties

    def forward(x):
        values, places = pool(x, given, return_indices=True)
        return values, places

    before = capture_program(Calls(forward), x)
    untouched = Untouched(before, x)
    after, rewrite = write_max_places(before)
    check_rewrite(before, after, x, untouched=untouched)
    assert rewrite.count == 1
    assert all(torch.equal(a, b) for a, b in zip(run_program(before, x), run_program(after, x), strict=True))


@pytest.mark.parametrize("target", ["xnnpack", "onnx-cpu", "onednn"])
def test_places_of_adaptive_maxima_on_targets(target):
    x = torch.randn(1, 2, 10, 7, generator=torch.Generator().manual_seed(0))
    proved = prove(Calls(lambda x: F.adaptive_max_pool2d(x.relu() + x, (3, 3), return_indices=True)), (x,), target)
    assert proved.exit_code == 0, proved.reason
