"""Pools of images without a batch dimension, which XNNPACK's lowering refused."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from rewriting import Calls, capture_program, check_rewrite

from benchmarks.operators.proof import prove
from edgex.export.rewrites.images.unbatched import pool_as_batches

X = torch.randn(3, 8, 12, generator=torch.Generator().manual_seed(0))
POOLS = {
    "maxima": lambda x: F.max_pool2d(x, 3, 1, 1),
    "averages": lambda x: F.avg_pool2d(x, 2, ceil_mode=True),
    "averages of a few": lambda x: F.adaptive_avg_pool2d(x, (2, 3)),
    "maxima of a few": lambda x: F.adaptive_max_pool2d(x, (2, 3)),
    "norms": lambda x: F.lp_pool2d(x, 2, 2),
}


@pytest.mark.parametrize("case", POOLS)
def test_images_without_a_batch_are_pooled(case):
    before = capture_program(Calls(POOLS[case]), X)
    after, rewrite = pool_as_batches(before)
    assert rewrite.count == 1
    check_rewrite(before, after, X)
    proved = prove(Calls(lambda x: POOLS[case](x * 2).sin()), (X,), "xnnpack")
    assert proved.exit_code == 0, proved.reason


@pytest.mark.parametrize("case", POOLS)
def test_batches_are_left_alone(case):
    program = capture_program(Calls(POOLS[case]), X.unsqueeze(0))
    assert pool_as_batches(program) == (program, None)
