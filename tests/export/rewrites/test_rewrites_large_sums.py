"""Means and sums of very many numbers, added in steps: as exact as eager's on every engine."""

from __future__ import annotations

import pytest
import torch
from rewriting import Calls, Untouched, capture_program, check_rewrite, operators
from torch.nn import functional as F

from benchmarks.operators.proof import prove
from edgex.export.rewrites.reductions.large_sums import row_length, write_large_sums

# Far from zero, as pictures are: what rounding loses shows.
IMAGE = torch.rand(1, 2, 160, 240, generator=torch.Generator().manual_seed(0)) * 10 + 120
SOUND = torch.rand(2, 24_000, generator=torch.Generator().manual_seed(1)) + 1

TAKEN = {
    "a plane": (lambda x: x.mean((2, 3)), IMAGE),
    "a plane that stays": (lambda x: x.sum((-1, -2), keepdim=True), IMAGE),
    "a plane of the last memory order": (lambda x: x.permute(0, 2, 3, 1).mean((1, 2)), IMAGE),
    "dimensions apart": (lambda x: x.sum((0, 1, 3)) / x.mean((1, 3)).amax(), IMAGE.reshape(80, 2, 2, 240)),
    "all": (lambda x: x.mean(), IMAGE),
    "all, a sum": (lambda x: x.sum(), IMAGE),
    "a pooling": (lambda x: F.adaptive_avg_pool2d(x, 1), IMAGE),
    "a pooling of sound": (lambda x: F.adaptive_avg_pool1d(x, 1), SOUND),
    "a row": (lambda x: x.mean(-1), SOUND),
    "a column": (lambda x: x.t().sum(0, keepdim=True), SOUND),
}
LEFT = {
    "few numbers": (lambda x: x[..., :64, :64].mean((2, 3)), IMAGE),
    "integers": (lambda x: x.long().sum((2, 3)), IMAGE),
    "another type": (lambda x: x.mean((2, 3), dtype=torch.float64), IMAGE),
    "a prime number of numbers": (lambda x: x[:, :23_981].mean(-1), SOUND),
    "a pooling to several": (lambda x: F.adaptive_avg_pool2d(x, 2), IMAGE),
}


@pytest.mark.parametrize("name", TAKEN)
def test_the_numbers_stay(name):
    function, x = TAKEN[name]
    before = capture_program(Calls(function), x)
    untouched = Untouched(before, x)
    after, rewrite = write_large_sums(before)
    check_rewrite(before, after, x, untouched=untouched)
    assert "in steps" in rewrite.detail
    assert not any("adaptive" in name for name in operators(after))


@pytest.mark.parametrize("name", LEFT)
def test_the_rest_is_left_alone(name):
    function, x = LEFT[name]
    before = capture_program(Calls(function), x)
    assert write_large_sums(before) == (before, None)


def test_sizes_that_only_a_run_knows_are_left_alone():
    module = Calls(lambda x: x.mean(-1))
    program = capture_program(module, SOUND, dynamic_shapes=[({1: torch.export.Dim("n", min=2, max=48_000)},)])
    assert write_large_sums(program) == (program, None)


def test_rows_are_as_long_as_columns():
    assert [row_length(count) for count in (172_800, 24_000, 23_981, 1)] == [400, 150, 1, 1]


@pytest.mark.parametrize("target", ["xnnpack", "onednn", "onnx-cpu"])
def test_a_mean_that_all_else_is_taken_from_has_eagers_numbers(target):
    class Centred(torch.nn.Module):
        """What is left of a picture without its mean, enlarged: an error of the mean is one of every pixel."""

        def forward(self, x):
            return (x.mean((2, 3), keepdim=True) - 121) * 10

    x = torch.rand(1, 2, 360, 480, generator=torch.Generator().manual_seed(0)) * 10 + 120
    proof = prove(Centred(), (x,), target)
    assert proof.exit_code == 0, (proof.reason, proof.error)
    assert {"write_large_sums", "average_in_steps"} & set(proof.rewrites)
