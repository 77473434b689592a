"""Numbers that are stacked and read apart stay apart: the same as torch's, or left alone."""

from __future__ import annotations

import pytest
import torch
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from rewriting import capture_program, check_rewrite, operators
from torch import nn

from edgex.export.rewrites.complex.planes import keep_planes

X = torch.randn(2, 6, 9, generator=torch.Generator().manual_seed(0))


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.weights = nn.Parameter(torch.randn(6, 9, 2, generator=torch.Generator().manual_seed(1)))

    def forward(self, x):
        return self.function(x, self.weights)


def stacked(x, dim=-1):
    return torch.stack([x.sin(), x.cos()], dim)


def filtered(x, weights):
    """As filters in the frequency domain are written: parts are weighed, repeated and taken apart."""
    z = (stacked(x) * weights).repeat_interleave(2, dim=-3).transpose(-3, -4)
    z = nn.functional.pad(z * 2.0, (0, 0, 0, 3))
    length = (z[..., 0] ** 2 + z[..., 1] ** 2 + 1e-6).sqrt()
    unit = z / length.unsqueeze(-1)
    return unit[..., 0] @ unit[..., 1].transpose(-1, -2)


def halved_ends(x, _):
    z = stacked(x) * 2
    z = torch.select_scatter(z, z[:, :, 0] / 2, 2, 0)
    z = torch.slice_scatter(z, z[:, 1:3] + 1, 1, 1, 3)
    return z.pow(2).sum(-1).sqrt()


def ahead(x, _):
    z = stacked(x, 0).permute(1, 0, 3, 2).reshape(2, 2, 54)
    one, other = z.unbind(1)
    return one - other, z.select(1, 1), z[:, 0:1]


def kept_dimension(x, _):
    return (stacked(x, 1).abs() > 0.5).to(x.dtype), stacked(x).square().sum(-1, keepdim=True)


CASES = {
    "filtered": (filtered, 1, 0),
    "halved ends": (halved_ends, 1, 0),
    "ahead": (ahead, 1, 0),
    # The first is an output as it is stacked.
    "kept dimension": (kept_dimension, 1, 1),
    "larger beside one": (lambda x, _: torch.maximum(stacked(x), x.unsqueeze(-1)).select(-1, 1), 1, 0),
    "a number of fewer dimensions": (lambda x, _: (stacked(x, 0) * x[0, 0]).select(0, -1), 1, 0),
    "four": (lambda x, _: torch.stack([x, -x, x * 2, x.sin()], 1).exp().sum([1]), 1, 0),
}


@pytest.mark.parametrize("case", CASES)
def test_planes_stay_apart(case):
    function, stacks, left = CASES[case]
    before = capture_program(Function(function), X, randomise=False)
    after, rewrite = keep_planes(before)
    check_rewrite(before, after, X)
    assert rewrite.name == "keep_planes"
    assert rewrite.count == stacks
    assert operators(after).count("aten.stack.default") == left


def viewed_across(x, _):
    """The view joins what is stacked with its neighbours."""
    z = torch.stack([x, -x], 2).reshape(2, 12, 9)
    return z[:, 0]


def written_before(x, _):
    h = x * 2
    z = torch.stack([h, x], -1)
    h.add_(1)
    return z[..., 0] * h + z[..., 1]


def written_after(x, _):
    z = stacked(x)
    z.add_(1)
    return z.sum(-1) + x


LEFT = {
    "written before": written_before,
    "written after": written_after,
    "truths that are counted": lambda x, _: torch.stack([x > 0, x > 1], -1).sum(-1) * 2,
    "of two kinds": lambda x, _: torch.stack([x.round().long(), x], -1).select(-1, 0) * 1,
    "numbers": lambda x, _: (torch.stack([x.sum(), x.mean()], 0) * 2).sum(0),
    "an input that is returned": lambda x, _: torch.stack([x, x.exp()], -1)[..., 0],
    "read as it is stacked": lambda x, _: stacked(x).reshape(2, 6, 18) @ torch.ones(18, 3),
    "one reader of two": lambda x, _: (stacked(x).sum(-1), stacked(x.exp() * 2).flatten(2) * 2),
    "viewed across": viewed_across,
    "softmax over the planes": lambda x, _: stacked(x).softmax(-1)[..., 0],
    "sum over more": lambda x, _: (stacked(x) * 2).sum([-1, -2]),
    "many": lambda x, _: torch.stack([x * factor for factor in range(5)], 0).exp()[0],
    "computed weights": lambda x, weights: (stacked(x) * (weights * x.mean()))[..., 0],
    "joined with others": lambda x, _: torch.cat([stacked(x), stacked(x) * 2], 1)[..., 0],
    "a stack of stacks": lambda x, _: torch.stack([stacked(x)] * 5, 0).sum(0),
}


@pytest.mark.parametrize("case", LEFT)
def test_what_reads_stacked_numbers_gets_them(case):
    program = capture_program(Function(LEFT[case]), X, randomise=False)
    after, rewrite = keep_planes(program)
    if case == "one reader of two":
        assert rewrite.count == 1
        assert operators(after).count("aten.stack.default") == 1
    else:
        assert rewrite is None
        assert after is program


def test_a_program_without_a_stack_is_left_as_it_is():
    program = capture_program(Function(lambda x, weights: x @ weights[0] + 1), X)
    after, rewrite = keep_planes(program)
    assert after is program
    assert rewrite is None


@given(st.permutations(range(4)), st.integers(0, 3), st.integers(-1, 1), st.booleans())
@settings(max_examples=examples(25), deadline=None)
def test_any_order_and_place(order, dim, chosen, mirrored):
    def run(x, _):
        z = stacked(x, dim).permute(order) * 3
        at = list(order).index(dim)
        z = nn.functional.pad(z, [0, 0] * (3 - (at + 1) % 4) + [1, 2]) if mirrored and at != 3 else z
        return z.select(at, chosen), torch.ops.aten.slice.Tensor(z, at, 1, 2)

    before = capture_program(Function(run), X, randomise=False)
    after, _ = keep_planes(before)
    check_rewrite(before, after, X)
    assert "aten.stack.default" not in operators(after)
