"""Distances, shifts and tables for which engines have no operator: the numbers stay, on every target."""

from __future__ import annotations

import math

import pytest
import torch
from rewriting import Untouched, capture_program, check_rewrite, operators
from torch import nn

from benchmarks.operators.proof import prove
from edgex.export.rewrites.folding.literals import fold_factories
from edgex.export.rewrites.operators.divisions import divide_as_eager
from edgex.export.rewrites.products.distances import write_distances

X = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(0))


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


@pytest.mark.parametrize("p", [0, 1, 2, 3, math.inf])
def test_distances_in_every_norm(p):
    def both(x):
        return torch.cdist(x, x[:1, :3] * 2, p), nn.functional.pdist(x[0], p)

    before = capture_program(Function(both), X)
    untouched = Untouched(before, X)
    after, rewrite = write_distances(before)
    check_rewrite(before, after, X, untouched=untouched)
    assert rewrite.count == 2
    assert not [operator for operator in operators(after) if "dist" in operator]


def test_large_sets_are_products():
    x = torch.randn(130, 300, generator=torch.Generator().manual_seed(1))
    before = capture_program(Function(lambda x: torch.cdist(x, x.flip(1))), x)
    untouched = Untouched(before, x)
    after, _ = write_distances(before)
    check_rewrite(before, after, x, untouched=untouched)
    assert "aten.matmul.default" in operators(after)
    left = capture_program(Function(lambda x: torch.cdist(x, x.flip(1), 1.0)), x)
    assert write_distances(left)[0] is left


def test_shifts_of_numbers():
    def shifted(x):
        y = (x * 100).to(torch.int32)
        return y << 2, y >> 3, torch.bitwise_left_shift(y, 1), torch.bitwise_right_shift(y, 30)

    before = capture_program(Function(shifted), X)
    after, rewrite = divide_as_eager(before)
    check_rewrite(before, after, X)
    assert rewrite.count == 4


def test_tables_become_constants():
    def tables(x):
        waves = x * torch.fft.fftfreq(8) + torch.fft.rfftfreq(14)[None] * 14
        return waves, x * torch.kaiser_window(8) * torch.bartlett_window(8)

    before = capture_program(Function(tables), X)
    after, rewrite = fold_factories(before)
    check_rewrite(before, after, X)
    assert rewrite.count == 4
    assert fold_factories(after)[1] is None


@pytest.mark.parametrize("target", ["onnx-cpu", "xnnpack", "onednn"])
def test_every_target_has_them(target):
    def all_of_them(x):
        y = torch.cdist(x, x.flip(1) * 2) * torch.logspace(0, 1, 5)
        return y, ((x * 9).to(torch.int32) << 2) >> 1, x * torch.blackman_window(8)

    proved = prove(Function(all_of_them), (X,), target)
    assert proved.exit_code == 0, proved.reason
