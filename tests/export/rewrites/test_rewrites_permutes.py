"""Permutes in two steps that copy rows, for ONNX Runtime."""

from math import prod

import pytest
import torch
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.operators.proof import prove
from edgex.export.rewrites.folding.permutes import split_permutes
from tests.support.rewriting import Calls, capture_program, check_rewrite, operators

SPLIT = {
    "windows and heads": ([1, 4, 4, 8, 7, 7, 64], [0, 3, 6, 1, 4, 2, 5], 2),
    "pixels to channels": ([1, 3, 28, 4, 28, 4], [0, 1, 3, 5, 2, 4], 2),
    "patches, channels last": ([1, 64, 4, 8, 4, 8], [0, 2, 4, 3, 5, 1], 2),
    "windows to channels first": ([4, 4, 8, 8, 64], [4, 0, 2, 1, 3], 2),
    "turned around": ([2, 16, 32, 32], [3, 2, 1, 0], 2),
    "two dimensions that are four": ([1, 16, 16, 8, 8], [0, 3, 4, 1, 2], 1),
    "negative": ([4, 5, 6, 70], [-1, -2, 0, 1], 2),
}
LEFT = {
    "one moves": ([1, 64, 28, 28], [0, 2, 3, 1]),
    "heads": ([2, 64, 32, 32], [0, 2, 1, 3]),
    "windows of rows": ([1, 32, 8, 7, 8, 7], [0, 2, 4, 1, 3, 5]),
    "short rows": ([128, 7, 9, 5], [2, 3, 1, 0][::-1]),
    "small": ([4, 5, 6, 7], [3, 2, 0, 1]),
    "nothing": ([1, 64, 1, 128], [2, 1, 0, 3]),
}


@pytest.mark.parametrize("case", SPLIT)
def test_permutes_copy_rows(case):
    shape, order, count = SPLIT[case]
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    before = capture_program(Calls(lambda x: x.permute(order)), x)
    after, rewrite = split_permutes(before)
    assert rewrite.count == 1
    assert check_rewrite(before, after, x) == 300
    assert operators(after).count("aten.permute.default") == count


@pytest.mark.parametrize("case", LEFT)
def test_quick_permutes_stay(case):
    shape, order = LEFT[case]
    program = capture_program(Calls(lambda x: x.permute(order)), torch.randn(shape))
    assert split_permutes(program) == (program, None)


@settings(max_examples=examples(40), deadline=None)
@given(st.data())
def test_any_order_gives_the_same(data):
    rank = data.draw(st.integers(3, 6))
    shape = data.draw(st.lists(st.sampled_from([1, 2, 3, 4, 8, 12]), min_size=rank, max_size=rank))
    shape[data.draw(st.integers(0, rank - 1))] *= -(-4096 // prod(shape))
    order = data.draw(st.permutations(range(rank)))
    x = torch.arange(prod(shape), dtype=torch.float32).reshape(shape)
    before = capture_program(Calls(lambda x: x.permute(list(order)) + 1), x)
    after, rewrite = split_permutes(before)
    assert rewrite is None or check_rewrite(before, after, x) == 300


def test_swapped_dimensions_on_onnx_cpu():
    x = torch.randn(2, 16, 12, 20, generator=torch.Generator().manual_seed(0))
    proved = prove(Calls(lambda x: x.transpose(1, 3) * 2), (x,), "onnx-cpu")
    assert proved.exit_code == 0, proved.reason
    assert "split_permutes" in proved.rewrites
