"""Resizes become products with matrices that have the weights PyTorch resizes with."""

from __future__ import annotations

import pytest
import torch
from rewriting import Calls, capture_program, check_vals, run_program
from torch.nn import functional as F

from benchmarks.operators.proof import prove
from edgex.export.rewrites.products.resizes import write_corners, write_cubics, write_resizes


def rand(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))


VIDEO, IMAGE = rand(2, 3, 4, 8, 8), rand(2, 3, 12, 12)
RESIZES = {
    "bicubic, by a factor": (lambda x: F.interpolate(x, scale_factor=1.7, mode="bicubic"), IMAGE),
    "bicubic, corners": (lambda x: F.interpolate(x, size=(20, 5), mode="bicubic", align_corners=True), IMAGE),
    "a sequence": (lambda x: F.interpolate(x, scale_factor=2.5, mode="linear"), IMAGE[0]),
    "bicubic, antialiased": (lambda x: F.interpolate(x, size=(5, 20), mode="bicubic", antialias=True), IMAGE),
    "bilinear, antialiased": (lambda x: F.interpolate(x, scale_factor=0.4, mode="bilinear", antialias=True), IMAGE),
    "antialiased, corners": (
        lambda x: F.interpolate(x, size=(5, 7), mode="bilinear", align_corners=True, antialias=True), IMAGE
    ),
    "trilinear": (lambda x: F.interpolate(x, scale_factor=2, mode="trilinear"), VIDEO),
    "trilinear, corners": (lambda x: F.interpolate(x, size=(3, 9, 5), mode="trilinear", align_corners=True), VIDEO),
    "the nearest of a volume": (lambda x: F.interpolate(x, scale_factor=2), VIDEO),
    "the nearest of a volume, other sizes": (lambda x: F.interpolate(x, size=(3, 9, 5)), VIDEO),
    "the nearest of a sequence": (lambda x: F.interpolate(x, scale_factor=3), IMAGE[0]),
    "exactly the nearest": (lambda x: F.interpolate(x, size=(5, 20), mode="nearest-exact"), IMAGE),
    "exactly the nearest of a volume": (lambda x: F.interpolate(x, scale_factor=2, mode="nearest-exact"), VIDEO),
}  # fmt: skip
CUBICS = {
    "trilinear": (lambda x: F.interpolate(x, size=(3, 9, 5), mode="trilinear", align_corners=True), VIDEO),
    "the nearest of a volume": (lambda x: F.interpolate(x, scale_factor=2), VIDEO),
    "by a factor": (lambda x: F.interpolate(x, scale_factor=1.7, mode="bicubic"), IMAGE),
    "corners": (lambda x: F.interpolate(x, size=(20, 5), mode="bicubic", align_corners=True), IMAGE),
    "the same height": (lambda x: F.interpolate(x, size=(IMAGE.shape[2], 5), mode="bicubic"), IMAGE),
    "bilinear": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), IMAGE),
    "bilinear, corners": (lambda x: F.interpolate(x, size=(31, 5), mode="bilinear", align_corners=True), IMAGE),
}
CORNERS = {
    "larger": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True), IMAGE),
    "other sizes": (lambda x: F.interpolate(x, size=(5, 31), mode="bilinear", align_corners=True), IMAGE),
}
TABLES = {write_resizes: RESIZES, write_cubics: CUBICS, write_corners: CORNERS}
CASES = {f"{run.__name__}, {name}": (run, *case) for run, cases in TABLES.items() for name, case in cases.items()}
KEPT = {
    "a resize that ONNX Runtime does well": (write_cubics, lambda x: F.interpolate(x, scale_factor=2), IMAGE),
    "an image of thousands of rows": (
        write_cubics,
        lambda x: F.interpolate(x, scale_factor=0.5, mode="bicubic"),
        rand(1, 1, 2048, 4),
    ),
    "a large image": (write_cubics, lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), rand(1, 1, 64, 64)),
    "a resize without corners": (write_corners, lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), IMAGE),
}
BATCH = torch.export.Dim("batch", min=1, max=9)
OF_ANY_BATCH = {
    "bicubic": (write_cubics, torch.nn.Upsample(scale_factor=2, mode="bicubic"), IMAGE),
    "corners": (write_corners, torch.nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True), IMAGE),
    "bilinear": (write_cubics, torch.nn.Upsample(scale_factor=2, mode="bilinear"), IMAGE),
}


@pytest.mark.parametrize("name", CASES)
def test_the_operator_is_gone_and_its_numbers_stay(name):
    run, function, x = CASES[name]
    before = capture_program(Calls(function), x)
    after, rewrite = run(before)
    assert rewrite is not None
    assert (rewrite.name, rewrite.count) == (run.__name__, 1)
    after.exported.validate()
    check_vals(after)
    assert run(after) == (after, None)
    (expected,), (found,) = run_program(before, x), run_program(after, x)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=5e-6)


@pytest.mark.parametrize("name", KEPT)
def test_what_does_not_fit_stays_as_it_is(name):
    run, function, x = KEPT[name]
    before = capture_program(Calls(function), x)
    assert run(before) == (before, None)


@pytest.mark.parametrize("name", OF_ANY_BATCH)
def test_a_dynamic_batch_stays_dynamic(name):
    run, module, x = OF_ANY_BATCH[name]
    before = capture_program(module, x, dynamic_shapes=({0: BATCH},))
    after, rewrite = run(before)
    assert rewrite is not None
    for size in (1, 2, 7):
        given = rand(size, *x.shape[1:])
        (expected,), (found,) = run_program(before, given), run_program(after, given)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=5e-6)


def test_onnx_runtime_runs_small_images_so():
    for size, name in ((12, "write_cubics"), (64, None)):
        resize = torch.nn.Upsample(scale_factor=2, mode="bilinear")
        proved = prove(resize.eval(), (rand(1, 3, size, size),), "onnx-cpu")
        assert proved.exit_code == 0, proved.reason
        assert (name in proved.rewrites) == (name is not None)
