"""How much larger an artifact may become for what its weights alone decide."""

from __future__ import annotations

import pytest
import torch
from rewriting import capture_program, check_rewrite, operators
from torch import nn

from edgex.export.rewrites.folding.constants import SIZE_ALLOWANCE_BYTES, fold_constants


def fold(module, x):
    """Capture, fold, check; returns the program after, and the report."""
    before = capture_program(module, x)
    after, rewrite = fold_constants(before)
    check_rewrite(before, after, x)
    return after, rewrite


class Expanding(nn.Module):
    """An outer product: 2 x `size` floats of weights make `size`^2."""

    def __init__(self, size):
        super().__init__()
        self.u, self.v = nn.Parameter(torch.ones(size, 1)), nn.Parameter(torch.ones(1, size))

    def forward(self, x):
        return x * ((self.u * 2.0) @ self.v).exp()


def test_size_rule_folds_small_and_leaves_large_products():
    small, large = 64, 160
    assert small**2 * 4 < SIZE_ALLOWANCE_BYTES < large**2 * 4
    after, rewrite = fold(Expanding(small), torch.randn(small, small))
    assert operators(after) == ["aten.mul.Tensor"]
    assert rewrite.count == 3
    # The product would outgrow the weights; the vector that it starts from does not.
    after, rewrite = fold(Expanding(large), torch.randn(large, large))
    assert operators(after) == ["aten.matmul.default", "aten.exp.default", "aten.mul.Tensor"]
    assert rewrite.count == 1


class RelativePlaces(nn.Module):
    """Layers for the tokens and for a table of places (DeBERTa), of a network with `others` times their weights."""

    def __init__(self, places, width, others):
        super().__init__()
        self.table = nn.Parameter(torch.randn(places, width))
        self.key, self.query = nn.Linear(width, width), nn.Linear(width, width)
        self.rest = nn.Linear(width, width * others)

    def forward(self, x):
        key, query = self.key(x) @ self.query(self.table).mT, self.query(x) @ self.key(self.table).mT
        return self.rest(x), key + query


@pytest.mark.parametrize(
    ("places", "width", "others", "is_folded"),
    [(128, 256, 8, True), (128, 256, 1, False), (2048, 16, 2048, False)],
    ids=["dear", "of a small network", "cheap to compute"],
)
def test_what_is_dear_to_compute_may_cost_more(places, width, others, is_folded):
    x = torch.randn(3, width, generator=torch.Generator().manual_seed(0))
    before = capture_program(RelativePlaces(places, width, others), x)
    assert places * width * 4 > SIZE_ALLOWANCE_BYTES
    after, rewrite = fold_constants(before)
    assert operators(before).count("aten.linear.default") == 5
    if is_folded:
        check_rewrite(before, after, x)
        assert rewrite.count == 4 and operators(after).count("aten.linear.default") == 3
    else:
        assert (after, rewrite) == (before, None)


class Filters(nn.Module):
    """Filters that are computed from two numbers each, as SincNet's."""

    def __init__(self, taps):
        super().__init__()
        self.low = nn.Parameter(torch.rand(80, 1))
        self.register_buffer("times", torch.arange(1.0, taps + 1) / taps)

    def forward(self, x):
        half = torch.sin(self.low * 3 * self.times) / self.times
        return nn.functional.conv1d(x, torch.cat([half.flip(1), half], 1).unsqueeze(1), stride=10)


def test_weights_of_layers_may_cost_more():
    x = torch.randn(1, 1, 4000, generator=torch.Generator().manual_seed(0))
    before = capture_program(Filters(300), x)
    assert 2 * SIZE_ALLOWANCE_BYTES < 80 * 600 * 4
    after, _ = fold_constants(before)
    check_rewrite(before, after, x)
    assert operators(after) in (["aten.conv1d.default"], ["aten.unsqueeze.default", "aten.conv1d.default"])
