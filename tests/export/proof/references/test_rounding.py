"""Eager with other roundings: results of arithmetic move, numbers that are chosen, placed and counted do not."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from edgex.export.proof.references.rounding import RoundedDifferently

SHARE = 1e-6
X = torch.randn(4, 32, generator=torch.Generator().manual_seed(0))

MOVED = {
    "a product": lambda x: x @ x.mT,
    "a mean": lambda x: x.mean(1),
    "an exponential": torch.exp,
    "in place": lambda x: x.clone().mul_(1.5),
}
EXACT = {
    "a copy": lambda x: x.clone(),
    "a view": lambda x: x.view(8, 16)[2:].mT,
    "a choice": lambda x: torch.where(x > 0, x, x.flip(0)),
    "a maximum": lambda x: x.amax(1),
    "what dropout gives at rest": lambda x: F.dropout(x, 0.5, training=False),
    "counts": lambda x: (x > 0).float().sum(1) * 2,
    "places": lambda x: torch.arange(32).float() * 3 - 1 + 0 * x.round(),
    "whole numbers": lambda x: (x * 0).long() + 3,
}


@pytest.mark.parametrize("name", MOVED)
def test_results_of_arithmetic_move_by_a_share_of_themselves(name):
    expected = MOVED[name](X)
    with torch.no_grad(), RoundedDifferently(1, SHARE):
        found = MOVED[name](X)
    share = ((found - expected) / expected).abs()
    assert 0 < float(share.max()) <= 1.2 * SHARE
    with torch.no_grad(), RoundedDifferently(1, SHARE):
        assert torch.equal(MOVED[name](X), found), "the same draw, the same answer"


@pytest.mark.parametrize("name", EXACT)
def test_what_no_engine_rounds_stays(name):
    with torch.no_grad(), RoundedDifferently(1, SHARE):
        found = EXACT[name](X)
    assert torch.equal(found, EXACT[name](X))


def test_a_constant_series_less_its_mean_is_rounding():
    """Which moved inputs and weights do not show: the constant is another one, and its mean as exact."""
    x = torch.full((1, 336), 3.7)
    with torch.no_grad(), RoundedDifferently(1, SHARE):
        found = x - x.mean(1, keepdim=True)
    assert 3.7 * SHARE / 100 < float(found.abs().max()) < 3.7 * SHARE * 2


def test_what_it_is_given_stays_as_it_is():
    x = X.clone()
    with torch.no_grad(), RoundedDifferently(1, SHARE):
        F.dropout(x, 0.5, training=False) + x.view(-1)[0]
        x.expand(3, 4, 32) * 1.5
    assert torch.equal(x, X)
