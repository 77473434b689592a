"""Views behind what lies in another order than before stay valid, so that rewrites hold."""

from __future__ import annotations

import pytest
import torch
from rewriting import capture_program, check_rewrite, operators
from torch import nn

from edgex.export.rewrites.attention.products import unfold_attention
from edgex.export.rewrites.complex.numbers import split_complex
from edgex.export.rewrites.products.conv3d import flatten_conv3d

VIDEO = torch.randn(1, 3, 4, 5, 6, generator=torch.Generator().manual_seed(0))


class Viewed(nn.Module):
    def __init__(self, between):
        super().__init__()
        self.convolve = nn.Conv3d(3, 4, (3, 1, 1), padding=(1, 0, 0))
        self.between = between

    def forward(self, x):
        y = self.between(self.convolve(x))
        return y.view(y.shape[0], -1, y.shape[-1])


BETWEEN = {
    "at once": lambda y: y,
    "behind elements": lambda y: y.relu() * 2,
    "behind a slice and a view": lambda y: y[:, :2].view(1, 2, 20, 6) + 1,
    "behind a concatenation": lambda y: torch.cat([y, y], 1),
    "behind what has no tag": lambda y: nn.functional.hardswish(y),
    "behind one of several": lambda y: y.chunk(2, 1)[1].exp(),
}


@pytest.mark.parametrize("case", BETWEEN)
def test_views_of_another_order_are_reshaped(case):
    before = capture_program(Viewed(BETWEEN[case]), VIDEO)
    assert "aten.view.default" in operators(before)
    after, _ = flatten_conv3d(before)
    check_rewrite(before, after, VIDEO)
    assert "aten.reshape.default" in operators(after)


def test_views_of_what_is_computed_anew_stay():
    before = capture_program(Viewed(lambda y: y @ y.transpose(-1, -2)), VIDEO)
    after, _ = flatten_conv3d(before)
    check_rewrite(before, after, VIDEO)
    assert "aten.view.default" in operators(after)


class Attention(nn.Module):
    """Rotated by complex numbers, whose parts lie in another order, and of the types of what they were."""

    def __init__(self):
        super().__init__()
        self.register_buffer("turns", torch.randn(5, 4, 2, generator=torch.Generator().manual_seed(1)))

    def forward(self, x):
        q, k, v = x.view(1, 5, 3, 2, 8).permute(2, 0, 3, 1, 4)
        turns = torch.view_as_complex(self.turns)
        q, k = (
            torch.view_as_real(torch.view_as_complex(y.reshape(*y.shape[:-1], 4, 2)) * turns).flatten(3).type_as(y)
            for y in (q, k)
        )
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        return y.transpose(1, 2).contiguous().view(1, 5, 16)


@pytest.mark.parametrize("rewrite", [split_complex, unfold_attention])
def test_views_behind_attention_are_reshaped(rewrite):
    x = torch.randn(1, 5, 48, generator=torch.Generator().manual_seed(0))
    before = capture_program(Attention(), x, randomise=False)
    assert "aten.view.default" in operators(before)[-1:]
    after, _ = rewrite(before)
    check_rewrite(before, after, x)
    assert operators(after)[-1] == "aten.reshape.default"
