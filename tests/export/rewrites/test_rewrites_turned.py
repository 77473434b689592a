"""Products with transposed weights: the numbers stay, and XNNPACK takes them."""

from __future__ import annotations

import pytest
import torch
from rewriting import Untouched, capture_program, check_rewrite, operators
from torch import nn

from benchmarks.operators.proof import prove
from edgex.export.rewrites.weights.turned import turn_weights

X = torch.randn(2, 5, 12, generator=torch.Generator().manual_seed(0))


class Product(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.table, self.square = nn.Parameter(torch.randn(7, 12)), nn.Parameter(torch.randn(12, 12))

    def forward(self, x):
        return self.function(x, self.table, self.square)


TAKEN = {
    "of images of rows": lambda x, table, _: x @ table.transpose(-1, -2),
    "of rows": lambda x, table, _: torch.mm(x[0], table.t()),
    "by a permute": lambda x, table, _: x @ table.permute(1, 0),
    "by T": lambda x, table, _: x @ table.T,
    "by mT": lambda x, table, _: x @ table.mT,
    "on the left": lambda x, _, square: square @ x.transpose(1, 2),
    "on the left of columns": lambda x, table, _: table @ x.view(10, 12, 1),
    "on the left of stacks": lambda x, table, _: table @ x.view(2, 5, 12, 1).expand(2, 5, 12, 3),
    "of as many rows as columns": lambda x, _, square: x @ square.t(),
}
LEFT = {
    "as it stands": lambda x, _, square: x @ square,
    "in the same order": lambda x, _, square: x @ square.permute(0, 1),
    "computed": lambda x, _, __: x @ x[0].t(),
    "on the left of one": lambda x, table, _: table @ x[0].t(),
    "a bias for each element": lambda x, table, _: torch.addmm(x[0, :, :7], x[1], table.t()),
    "a row alone": lambda x, table, _: x[0, 0] @ table.t(),
}


@pytest.mark.parametrize("name", TAKEN)
def test_the_numbers_stay(name):
    before = capture_program(Product(TAKEN[name]), X)
    untouched = Untouched(before, X)
    after, rewrite = turn_weights(before)
    check_rewrite(before, after, X, untouched=untouched)
    assert (rewrite.name, rewrite.count) == ("turn_weights", 1)
    assert "aten.linear.default" in operators(after)
    assert turn_weights(after) == (after, None)


@pytest.mark.parametrize("name", LEFT)
def test_other_products_stay(name):
    before = capture_program(Product(LEFT[name]), X)
    assert turn_weights(before) == (before, None)


def test_the_product_is_xnnpacks():
    proved = prove(Product(TAKEN["of images of rows"]), (X,), "xnnpack")
    assert proved.exit_code == 0, proved.reason
    assert not [warning for warning in proved.warnings if "left out" in warning]


class Biased(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.bias = nn.Parameter(torch.randn(7, 12)), nn.Parameter(torch.randn(7))

    def forward(self, x):
        return torch.addmm(self.bias, x, self.table.t())


def test_a_bias_is_the_layers():
    before = capture_program(Biased(), X[0])
    after, _ = turn_weights(before)
    check_rewrite(before, after, X[0])
    assert operators(after) == ["aten.linear.default"]
