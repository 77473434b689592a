"""Padding that is told by a word (`same` of even windows pads one side more than the other), and reversals."""

from __future__ import annotations

import pytest
import torch
from rewriting import Calls, capture_program, check_rewrite, operators
from torch import nn

from edgex.export.rewrites.indexing.mirrors import write_mirrors
from edgex.export.rewrites.products.conv3d import flatten_conv3d
from edgex.export.rewrites.products.depthwise import split_depthwise

VOLUME = torch.randn(1, 3, 4, 6, 5, generator=torch.Generator().manual_seed(0))
IMAGE = torch.randn(1, 4, 30, 30, generator=torch.Generator().manual_seed(0))
CASES = {
    "volumes": (flatten_conv3d, nn.Conv3d(3, 2, (1, 4, 1), padding="same"), VOLUME),
    "volumes, all even": (flatten_conv3d, nn.Conv3d(3, 2, (2, 4, 2), padding="same"), VOLUME),
    "volumes, dilated": (flatten_conv3d, nn.Conv3d(3, 2, (2, 3, 2), padding="same", dilation=(1, 2, 3)), VOLUME),
    "depthwise": (split_depthwise, nn.Conv2d(4, 4, (14, 13), padding="same", groups=4), IMAGE),
}


@pytest.mark.parametrize("name", CASES)
def test_the_longer_side_is_padded_first(name: str) -> None:
    run, module, x = CASES[name]
    before = capture_program(module, x)
    after, rewrite = run(before)
    assert rewrite is not None
    assert "aten.pad.default" in operators(after) or "aten.constant_pad_nd.default" in operators(after)
    check_rewrite(before, after, x)


@pytest.mark.parametrize("dims", [(-1,), (0,), (1, 2), (3, 1), (0, 1, 2, 3)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool])
def test_reversals_are_rows_in_another_order(dims: tuple[int, ...], dtype: torch.dtype) -> None:
    x = (torch.randn(2, 3, 8, 9, generator=torch.Generator().manual_seed(0)) * 3).to(dtype)
    before = capture_program(Calls(lambda x: x.flip(dims)), x)
    after, rewrite = write_mirrors(before)
    assert rewrite is not None
    assert "aten.flip.default" not in operators(after)
    check_rewrite(before, after, x)


def test_short_reversals_stay() -> None:
    assert write_mirrors(capture_program(Calls(lambda x: x.flip(0)), torch.arange(40.0)))[1] is None
