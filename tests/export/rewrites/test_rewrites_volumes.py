"""Volumes that are sampled at places, as rows of a table: the same as torch's, and in a target without a kernel."""

from __future__ import annotations

import pytest
import torch
from rewriting import Calls, capture_program, check_rewrite, operators
from torch.nn import functional as F

from benchmarks.operators.proof import prove
from edgex.export.rewrites.products.sampling import gather_samples

GENERATOR = torch.Generator().manual_seed(0)
VOLUME = torch.randn(2, 3, 4, 5, 6, generator=GENERATOR)
# Some of the places are outside.
PLACES = torch.randn(2, 3, 7, 2, 3, generator=GENERATOR)


def sample(padding, corners):
    return Calls(lambda x, g: F.grid_sample(x, g, padding_mode=padding, align_corners=corners))


@pytest.mark.parametrize("corners", [True, False])
@pytest.mark.parametrize("padding", ["zeros", "border"])
def test_a_volume_is_sampled_as_torch_does(padding, corners):
    before = capture_program(sample(padding, corners), VOLUME, PLACES)
    after, rewrite = gather_samples(before)
    check_rewrite(before, after, VOLUME, PLACES)
    assert rewrite.count == 1
    assert not any("grid_sampler" in operator for operator in operators(after))


def test_reflections_stay():
    program = capture_program(sample("reflection", False), VOLUME, PLACES)
    assert gather_samples(program) == (program, None)


@pytest.mark.parametrize("target", ["xnnpack", "onednn"])
def test_a_volume_is_sampled_on_targets_without_a_kernel(target):
    proved = prove(sample("border", True), (VOLUME[:1], PLACES[:1]), target)
    assert proved.exit_code == 0, proved.reason
    assert "gather_samples" in proved.rewrites
