"""Grouped convolutions whose windows span a dimension, as products."""

from __future__ import annotations

import pytest
import torch
from rewriting import capture_program, check_rewrite, operators
from torch import nn

from edgex.export.rewrites.weights.spans import write_spans


def signal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


CASES = {
    "rows": (nn.Conv2d(8, 16, (22, 1), groups=8), signal(1, 8, 22, 50)),
    "columns": (nn.Conv2d(4, 4, (1, 9), groups=4, bias=False), signal(3, 4, 20, 9)),
    "two channels a group": (nn.Conv2d(6, 9, (5, 1), groups=3), signal(2, 6, 5, 7)),
    "named padding": (nn.Conv2d(2, 6, (5, 1), groups=2, padding="valid"), signal(2, 2, 5, 7)),
    "a stride where there is one place": (nn.Conv2d(2, 6, (5, 1), stride=(5, 1), groups=2), signal(2, 2, 5, 7)),
}
KEPT = {
    "one group": (nn.Conv2d(8, 16, (22, 1)), signal(1, 8, 22, 50)),
    "part of the rows": (nn.Conv2d(8, 16, (21, 1), groups=8), signal(1, 8, 22, 50)),
    "two dimensions": (nn.Conv2d(8, 16, (22, 3), groups=8), signal(1, 8, 22, 50)),
    "strides": (nn.Conv2d(8, 16, (22, 1), stride=(1, 2), groups=8), signal(1, 8, 22, 50)),
    "padding": (nn.Conv2d(8, 16, (22, 1), padding=(0, 1), groups=8), signal(1, 8, 22, 50)),
    "holes": (nn.Conv2d(8, 16, (11, 1), dilation=(2, 1), groups=8), signal(1, 8, 22, 50)),
    "one place": (nn.Conv2d(8, 16, (22, 1), groups=8), signal(1, 8, 22, 1)),
    "one tap": (nn.Conv2d(8, 16, 1, groups=8), signal(1, 8, 1, 50)),
}


@pytest.mark.parametrize("name", CASES)
def test_products_with_the_same_numbers(name: str) -> None:
    module, x = CASES[name]
    before = capture_program(module, x)
    after, rewrite = write_spans(before)
    assert rewrite is not None
    check_rewrite(before, after, x, min_sqnr_db=120)
    assert not any("conv" in name for name in operators(after))


@pytest.mark.parametrize("name", KEPT)
def test_other_convolutions_stay(name: str) -> None:
    before = capture_program(*KEPT[name])
    after, rewrite = write_spans(before)
    assert after is before
    assert rewrite is None
