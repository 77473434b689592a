"""Large images are resized as sums of rows, with the weights that PyTorch has."""

from __future__ import annotations

import pytest
import torch
from rewriting import Calls, capture_program, operators, run_program
from torch.nn import functional as F

from benchmarks.operators.proof import prove
from edgex.export.rewrites.images.rows import resize_by_rows

IMAGE = torch.randn(1, 2, 9, 12, generator=torch.Generator().manual_seed(0))
VOLUME = torch.randn(1, 2, 5, 6, 7, generator=torch.Generator().manual_seed(1))

TAKEN = {
    "bicubic": (lambda x: F.interpolate(x, (20, 31), mode="bicubic"), IMAGE),
    "bicubic, corners": (lambda x: F.interpolate(x, (20, 31), mode="bicubic", align_corners=True), IMAGE),
    "bicubic, by factors": (lambda x: F.interpolate(x, scale_factor=(1.7, 2.3), mode="bicubic"), IMAGE),
    "bicubic, smaller": (lambda x: F.interpolate(x, (4, 5), mode="bicubic"), IMAGE),
    "bicubic, of few rows": (lambda x: F.interpolate(x[:, :, :3], (7, 12), mode="bicubic"), IMAGE),
    "a sequence": (lambda x: F.interpolate(x[:, :, 0], 31, mode="linear"), IMAGE),
    "a sequence, corners": (lambda x: F.interpolate(x[:, :, 0], 31, mode="linear", align_corners=True), IMAGE),
    "a volume": (lambda x: F.interpolate(x, (9, 7, 12), mode="trilinear"), VOLUME),
    "the nearest in a volume": (lambda x: F.interpolate(x, (9, 7, 12)), VOLUME),
    "the nearest to the middle": (lambda x: F.interpolate(x, (20, 31), mode="nearest-exact"), IMAGE),
}
LEFT = {
    "bilinear": (lambda x: F.interpolate(x, (20, 31), mode="bilinear"), IMAGE),
    "another type": (lambda x: F.interpolate(x, (20, 31), mode="bicubic"), IMAGE.double()),
}


@pytest.mark.parametrize("name", TAKEN)
def test_the_numbers_stay(name):
    function, x = TAKEN[name]
    before = capture_program(Calls(function), x)
    after, rewrite = resize_by_rows(before)
    assert rewrite is not None and rewrite.count == 1, operators(before)
    assert not [name for name in operators(after) if "upsample" in name], operators(after)
    (expected,), (found,) = run_program(before, x), run_program(after, x)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", LEFT)
def test_the_rest_is_left_alone(name):
    function, x = LEFT[name]
    before = capture_program(Calls(function), x)
    assert resize_by_rows(before) == (before, None)


@pytest.mark.parametrize("target", ["xnnpack", "onednn"])
def test_large_images_take_it_and_small_ones_products(target):
    large = torch.randn(1, 1, 300, 400, generator=torch.Generator().manual_seed(2))
    for x, name in ((large, "resize_by_rows"), (IMAGE, "write_resizes")):
        size = (x.shape[2] * 2, x.shape[3] * 2 - 1)
        proved = prove(Calls(lambda x, size=size: F.interpolate(x, size, mode="bicubic")).eval(), (x,), target)
        assert proved.exit_code == 0, proved.reason
        assert name in proved.rewrites
