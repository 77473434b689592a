"""Sums, means and extremes over a dimension with others behind it, as products and halves."""

import pytest
import torch

from benchmarks.operators.proof import prove
from edgex.export.rewrites.reductions.leading import halve_extremes, multiply_sums
from tests.support.rewriting import Calls, capture_program, check_rewrite, operators

IMAGES = torch.randn(1, 11, 24, 20, generator=torch.Generator().manual_seed(0))
SUMS = {
    "sum": lambda x: x.sum(1),
    "mean, kept": lambda x: x.mean(1, keepdim=True),
    "negative, of two dimensions": lambda x: x.sum((-2, -3)).flatten() if x.shape[-1] > 31 else x.sum((-3,)),
    "with what is ahead": lambda x: x.mean((0, 1)),
    "of few sequences": lambda x: x.reshape(3, 11, 160).mean(1),
    "of height": lambda x: x.reshape(1, 1, 120, 44).sum(2),
}
EXTREMES = {
    "largest": lambda x: x.amax(1),
    "smallest, kept": lambda x: x.amin((1,), keepdim=True),
    "of many images": lambda x: x.reshape(40, 3, 44).amax(1),
    "of one pair": lambda x: x.reshape(2, 2640).amin(0),
    "of height": lambda x: x.reshape(1, 1, 120, 44).amax(2),
}
LEFT = {
    "the last": lambda x: (x.sum(-1), x.amax(-1)),
    "apart": lambda x: (x.sum((1, 3)), x.amax((1, 3))),
    "short rows": lambda x: (x.reshape(1, 1, 264, 20).mean(2), x.reshape(1, 1, 264, 20).amin(2)),
    "few numbers": lambda x: (x[:, :2, :1].flatten(2).repeat(1, 1, 2).sum(1), x[:, :2, :1].repeat(1, 1, 1, 2).amax(1)),
    "integers": lambda x: (x.to(torch.int64).sum(1), x.to(torch.int64).amax(1)),
}


@pytest.mark.parametrize("case", SUMS)
def test_sums_over_channels_become_products(case):
    before = capture_program(Calls(SUMS[case]), IMAGES)
    after, rewrite = multiply_sums(before)
    assert rewrite.count == 1
    check_rewrite(before, after, IMAGES, min_sqnr_db=130)
    assert not {"aten.sum.dim_IntList", "aten.mean.dim"} & set(operators(after))


@pytest.mark.parametrize("case", EXTREMES)
def test_extremes_over_channels_are_taken_in_halves(case):
    before = capture_program(Calls(EXTREMES[case]), IMAGES)
    after, rewrite = halve_extremes(before)
    assert rewrite.count == 1
    assert check_rewrite(before, after, IMAGES) == 300
    assert not {"aten.amax.default", "aten.amin.default"} & set(operators(after))


@pytest.mark.parametrize("case", LEFT)
def test_other_reductions_stay(case):
    program = capture_program(Calls(LEFT[case]), IMAGES)
    assert multiply_sums(program) == (program, None)
    assert halve_extremes(program) == (program, None)


def test_sums_of_many_images_stay():
    program = capture_program(Calls(lambda x: x.reshape(44, 3, 40).sum(1)), IMAGES)
    assert multiply_sums(program) == (program, None)


def test_sums_and_extremes_of_an_image_on_onnx_cpu():
    proved = prove(Calls(lambda x: (x.mean(1), x.sum(1, keepdim=True), x.amax(1), x.amin(1))), (IMAGES,), "onnx-cpu")
    assert proved.exit_code == 0, proved.reason
    assert {"multiply_sums", "halve_extremes"} <= set(proved.rewrites)
