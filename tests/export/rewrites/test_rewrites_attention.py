"""Attention of varying length as products: dynamic encoders, and decoders that read the filled part of a cache."""

import pytest
import torch
from rewriting import capture_program, check_rewrite, operators
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from edgex.export.rewrites.attention.products import unfold_attention
from edgex.export.rewrites.attention.ranks import join_ranks

aten = torch.ops.aten
LENGTH, KEYS = torch.export.Dim("length", min=2, max=64), torch.export.Dim("keys", min=2, max=64)


def random_like(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


class Call(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def repeat(x, times):
    batch, shared, keys, width = x.shape
    return x[:, :, None].expand(batch, shared, times, keys, width).reshape(batch, shared * times, keys, width)


def attend(q, k, v, mask=None):
    return scaled_dot_product_attention(q, k, v, mask)


def twice(q, k, v, mask):
    return attend(attend(q, k, v, mask), k, v, mask)


def causal(q, k, v):
    return scaled_dot_product_attention(scaled_dot_product_attention(q, k, v, is_causal=True), k, v, is_causal=True)


def grouped(q, k, v, mask=None):
    return attend(q, repeat(k, 3), repeat(v, 3), mask)


def fused_groups(q, k, v, mask=None):
    return scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)


def tensors(queries, keys, heads=3, shared=3, batch=2, mask=None):
    made = [random_like(batch, heads, queries, 4, seed=1)]
    made += [random_like(batch, shared, keys, 4, seed=seed) for seed in (2, 3)]
    return (*made, mask(queries, keys)) if mask else tuple(made)


def rows(queries, keys):
    """Of one row nothing is seen."""
    seen = torch.ones(1, 1, queries, keys, dtype=torch.bool).tril(keys - queries)
    seen[..., 0, :] = queries == 1
    return seen


def padding(queries, keys):
    return torch.arange(keys) < torch.tensor([keys, keys // 2])[:, None, None, None]


def biases(queries, keys):
    return random_like(1, 3, queries, keys, seed=5)


BOTH = {2: KEYS}
CASES = {
    # function, tensors, dimensions of the mask that vary
    "no mask": (attend, {}, None),
    "a mask of rows": (twice, {"mask": rows}, {2: LENGTH, 3: KEYS}),
    "padding": (twice, {"mask": padding}, {3: KEYS}),
    "a bias for each head": (twice, {"mask": biases}, {2: LENGTH, 3: KEYS}),
    "repeated keys": (grouped, {"shared": 1, "mask": rows}, {2: LENGTH, 3: KEYS}),
    "shared keys": (fused_groups, {"shared": 1, "mask": rows}, {2: LENGTH, 3: KEYS}),
    "causal": (causal, {}, None),
    "repeated keys without a mask": (grouped, {"shared": 1}, None),
}


@pytest.mark.parametrize("queries", ["many", "one"])
@pytest.mark.parametrize("name", CASES)
def test_lengths_may_vary(name, queries):
    function, how, mask = CASES[name]
    many = queries == "many"
    shapes = ({2: LENGTH} if many else {}, BOTH, BOTH)
    if mask is not None:
        shapes += ({dim: size for dim, size in mask.items() if many or size is not LENGTH},)
    args = tensors(5 if many else 1, 7, **how)
    before = capture_program(Call(function), *args, dynamic_shapes={"args": shapes})
    after, rewrite = unfold_attention(before)
    assert "aten.scaled_dot_product_attention.default" not in operators(after)
    assert rewrite.count == operators(before).count("aten.scaled_dot_product_attention.default")
    check_rewrite(before, after, *args)
    for lengths in ((3, 20), (9, 9)) if many else ((1, 20), (1, 2)):
        check_rewrite(before, after, *tensors(*lengths, **how))
    if "keys" in name:
        (product, *_) = [node for node in after.exported.graph.nodes if node.target is aten.bmm.default]
        assert product.meta["val"].shape[0] == 2, "keys are still repeated"


def test_layers_that_vary_share_a_bias():
    args = tensors(5, 7, mask=rows)
    shapes = ({2: LENGTH}, BOTH, BOTH, {2: LENGTH, 3: KEYS})
    after, _ = unfold_attention(capture_program(Call(twice), *args, dynamic_shapes={"args": shapes}))
    assert operators(after).count("aten.where.ScalarOther") == 1


def drawn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def attended(**how):
    return lambda *tensors: scaled_dot_product_attention(*tensors, **how)


BLOCKS = tuple(drawn(2, 3, 4, 5, 8, seed=seed) for seed in range(3))
RANKS = {
    "three dimensions": (attended(), [drawn(2, 5, 8, seed=seed) for seed in range(3)]),
    "blocks": (attended(), BLOCKS),
    "six dimensions": (attended(scale=0.5), [drawn(2, 1, 3, 2, 5, 8, seed=seed) for seed in range(3)]),
    "causal": (attended(is_causal=True), BLOCKS),
    "other values": (attended(), [*BLOCKS[:2], drawn(2, 3, 4, 5, 6)]),
    "a mask of all": (attended(), [*BLOCKS, drawn(5, 5) > -0.5]),
    "a bias of each": (attended(), [*BLOCKS, drawn(1, 3, 4, 5, 5)]),
    "a bias of images": (attended(), [*BLOCKS, drawn(2, 1, 1, 1, 5)]),
}


@pytest.mark.parametrize("name", RANKS)
def test_ranks_become_four(name):
    function, args = RANKS[name]
    before = capture_program(Call(function), *args)
    after, rewrite = join_ranks(before)
    assert rewrite.count == 1
    (made,) = [node for node in after.exported.graph.nodes if "attention" in str(node.target)]
    assert made.meta["val"].dim() == 4
    check_rewrite(before, after, *args)


@pytest.mark.parametrize(
    "args",
    [
        pytest.param([drawn(2, 3, 5, 8)] * 3, id="four already"),
        pytest.param([*BLOCKS, drawn(2, 1, 4, 5, 5)], id="a bias of some"),
    ],
)
def test_ranks_left_alone(args):
    before = capture_program(Call(attended()), *args)
    assert join_ranks(before) == (before, None)
