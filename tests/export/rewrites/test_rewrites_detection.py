"""Operators of torchvision: the numbers of plain loops, on every target; what stays refused is named with a way on."""

from __future__ import annotations

import pytest
import torch
import torchvision_ops
from rewriting import Calls, Untouched, capture_program, check_rewrite, operators
from torch import nn

from benchmarks.operators.proof import prove
from edgex.export.rewrites.detection.regions import write_regions
from edgex.export.rewrites.detection.suppression import suppress_neighbours

VISION = torchvision_ops.register()
TARGETS = ["xnnpack", "onnx-cpu", "onednn"]


def randn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def boxes_of(count, size=20.0, seed=1):
    corners = torch.rand(count, 2, 2, generator=torch.Generator().manual_seed(seed)) * size
    return torch.cat([corners.amin(1), corners.amax(1) + 1.0], 1)


X = randn(2, 4, 12, 10)
ROIS = torch.cat(
    [torch.tensor([[0.0], [1.0], [1.0]]), torch.tensor([[1, 2, 9, 11], [-3, -2, 30, 6], [4, 4, 4.2, 4.1]])], 1
)


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("scale, samples", [(1.0, 2), (0.5, 3)])
def test_regions(aligned, scale, samples):
    module = Calls(lambda x, rois: VISION.roi_align(x, rois, scale, 3, 2, samples, aligned))
    before = capture_program(module, X, ROIS)
    untouched = Untouched(before, X, ROIS)
    after, rewrite = write_regions(before)
    check_rewrite(before, after, X, ROIS, untouched=untouched)
    assert rewrite.count == 1 and not [name for name in operators(after) if "torchvision" in name]


@pytest.mark.parametrize("groups, offset_groups, masked", [(1, 1, True), (2, 2, True), (1, 2, False)])
def test_deformable_convolutions(groups, offset_groups, masked):
    weight, bias = randn(6, 4 // groups, 3, 2, seed=2), randn(6, seed=3)
    offset = randn(2, offset_groups * 12, 6, 5, seed=4) * 2
    mask = randn(2, offset_groups * 6, 6, 5, seed=5).sigmoid() if masked else torch.zeros(2, 1)

    def forward(x, offset, mask):
        return VISION.deform_conv2d(x, weight, offset, mask, bias, 2, 2, 1, 0, 1, 1, groups, offset_groups, masked)

    before = capture_program(Calls(forward), X, offset, mask)
    after, rewrite = write_regions(before)
    check_rewrite(before, after, X, offset, mask)
    assert rewrite.count == 1


def test_a_deformable_convolution_that_moves_nothing_is_a_convolution():
    weight, bias = randn(6, 4, 3, 3, seed=2), randn(6, seed=3)
    found = torchvision_ops.deform_conv2d(
        X, weight, torch.zeros(2, 18, 12, 10), torch.zeros(2, 1), bias, 1, 1, 1, 1, 1, 1, 1, 1, False
    )
    torch.testing.assert_close(found, nn.functional.conv2d(X, weight, bias, padding=1))


@pytest.mark.parametrize("most", [0.2, 0.5])
def test_suppression(most):
    boxes, scores = boxes_of(24), torch.rand(24, generator=torch.Generator().manual_seed(2))
    scores[3] = scores[7]  # ties keep their order
    before = capture_program(Calls(lambda boxes, scores: VISION.nms(boxes, scores, most)), boxes, scores)
    after, _ = suppress_neighbours(before)
    for seed in range(3):
        boxes = boxes_of(24, seed=seed)
        found = after.exported.module()(boxes, scores)
        expected = torchvision_ops.nms(boxes, scores, most)
        assert torch.equal(found, expected) and 1 < len(expected) < 24


class Detector(nn.Module):
    """A head, its boxes without their neighbours, and what a region of each looks like."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Conv2d(3, 8, 3, padding=1)
        self.scores = nn.Linear(4, 1)

    def forward(self, x, boxes):
        x = self.layer(x)
        kept = VISION.nms(boxes, self.scores(boxes / 10).squeeze(1), 0.3)
        rois = torch.cat([torch.zeros_like(boxes[:, :1]), boxes], 1)
        return boxes[kept], VISION.roi_align(x, rois, 0.5, 2, 2, 2, True)


@pytest.mark.parametrize("target", TARGETS)
def test_targets(target):
    proved = prove(Detector(), (randn(1, 3, 12, 12), boxes_of(12)), target)
    assert proved.exit_code == 0, proved.reason
    assert {"suppress_neighbours", "write_regions"} <= set(proved.rewrites)


@pytest.mark.parametrize("target", ["xnnpack", "onednn"])
@pytest.mark.parametrize(
    "call, advice",
    [
        (lambda x, rois: VISION.roi_align(x, rois, 1.0, 2, 2, -1, True), "sampling_ratio=2"),
        (lambda x, rois: VISION.roi_pool(x, rois, 1.0, 2, 2)[0], "roi_align"),
        (lambda x, rois: VISION.nms(rois[:, 1:].repeat(100, 1), rois[:, 0].repeat(100), 0.5), "256"),
    ],
)
def test_what_is_refused_has_a_way_on(target, call, advice):
    proved = prove(Calls(call), (X, ROIS), target)
    assert proved.exit_code == 5 and "torchvision" in proved.reason
    assert "test_rewrites_detection.py:" in proved.reason and advice in proved.error.fix
