"""Pooling and frames of sequences, and windows that leave elements out: as images and slices, the same numbers."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from examples import examples
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from rewriting import Calls, capture_program, check_rewrite, operators

from edgex.export.rewrites.pooling.folds import write_folds
from edgex.export.rewrites.pooling.maximum import write_max_pools
from edgex.export.rewrites.pooling.sequences import widen_pools


def rand(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


POOLS = {
    "a maximum": lambda x: F.max_pool1d(x, 3, 1, 1),
    "its windows side by side": lambda x: F.max_pool1d(x, 4),
    "with holes": lambda x: F.max_pool1d(x, 3, 2, 1, 2),
    "with a ceiling": lambda x: F.max_pool1d(x, 3, 2, ceil_mode=True),
    "an average": lambda x: F.avg_pool1d(x, 3, 1, 1),
    "an average of everything": lambda x: F.adaptive_avg_pool1d(x, 1),
    "an average of each half": lambda x: F.adaptive_avg_pool1d(x, 2),
    "of what is there": lambda x: F.avg_pool1d(x, 3, 2, 1, count_include_pad=False),
    "an average with a ceiling": lambda x: F.avg_pool1d(x, 3, 2, ceil_mode=True),
}


@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize("case", POOLS)
def test_pools_of_sequences_are_pools_of_images(case, batched):
    x = rand(2, 5, 22) if batched else rand(5, 22)
    before = capture_program(Calls(lambda x: POOLS[case](x * 2)), x)
    after, rewrite = widen_pools(before)
    check_rewrite(before, after, x)
    assert rewrite.count == 1
    assert {"aten.max_pool2d.default", "aten.avg_pool2d.default", "aten.mean.dim"} & set(operators(after))


@given(st.tuples(*[st.integers(1, 3)] * 2), st.tuples(*[st.integers(1, 5)] * 2), st.booleans())
@settings(max_examples=examples(25), deadline=None)
def test_windows_that_leave_elements_out_stand_side_by_side(kernel, stride, batched):
    assume(any(step > window for step, window in zip(stride, kernel, strict=True)))
    x = rand(2, 3, 13, 17) if batched else rand(3, 13, 17)
    before = capture_program(Calls(lambda x: F.max_pool2d(x * 2, kernel, stride)), x)
    after, rewrite = write_max_pools(before)
    check_rewrite(before, after, x)
    assert rewrite.count == 1
    pools = [node for node in after.exported.graph.nodes if node.target == torch.ops.aten.max_pool2d.default]
    assert all(step <= window for node in pools for step, window in zip(node.args[2], node.args[1], strict=True))


@given(st.integers(-3, 2), st.integers(1, 9), st.integers(1, 9))
@settings(max_examples=examples(30), deadline=None)
def test_frames_are_slices(dim, size, step):
    x = rand(9, 10, 11)
    before = capture_program(Calls(lambda x: (x * 2).unfold(dim, size, step) * 3), x)
    after, rewrite = write_folds(before)
    check_rewrite(before, after, x)
    assert rewrite.count == 1
    assert "aten.unfold.default" not in operators(after)


def test_frames_of_audio_are_a_few_slices():
    x = rand(1, 1600)
    after, _ = write_folds(capture_program(Calls(lambda x: (x * 2).unfold(-1, 400, 160) * 3), x))
    assert len(operators(after)) < 16


def test_frames_of_too_many_parts_are_left():
    program = capture_program(Calls(lambda x: (x * 2).unfold(-1, 200, 1) * 3), rand(1, 300))
    assert write_folds(program) == (program, None)
