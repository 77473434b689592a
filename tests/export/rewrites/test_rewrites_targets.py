"""Rewrites that some targets ask for: numbers stay, the operator in question goes, what must not match does not."""

import math

import pytest
import torch
from rewriting import capture_program, check_rewrite
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from edgex.delegates.registry import delegate_names, get_delegate
from edgex.export import rewrites
from edgex.export.rewrites.attention.empty_rows import guard_empty_rows
from edgex.export.rewrites.attention.masks import write_masks
from edgex.export.rewrites.attention.products import unfold_attention
from edgex.export.rewrites.attention.windows import write_windows
from edgex.export.rewrites.editing.substitution import substitute
from edgex.export.rewrites.folding.literals import (
    ALLOWANCE_BYTES,
    LOOKUP_BYTES,
    fold_literals,
    fold_lookups,
    fold_tables,
)
from edgex.export.rewrites.indexing.writes import return_writes
from edgex.export.rewrites.numbers.scalars import split_alpha
from edgex.export.rewrites.pooling.uneven import write_uneven_averages
from edgex.export.rewrites.precision import convert_precision
from edgex.export.rewrites.weights.crops import crop_transposed
from edgex.export.rewrites.weights.dilation import fill_dilation

aten = torch.ops.aten


class Call(nn.Module):
    """A function of the inputs, with a mask as a buffer where one is given."""

    def __init__(self, function, mask=None):
        super().__init__()
        self.function = function
        self.register_buffer("mask", mask)

    def forward(self, *args):
        return self.function(*args) if self.mask is None else self.function(*args, self.mask)


def program_of(function, *args, mask=None, **options):
    return capture_program(Call(function, mask), *args, randomise=False, **options)


def operators(program):
    return [node.target for node in program.exported.graph.nodes if node.op == "call_function"]


def random_like(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


QUERY, KEY, VALUE = (random_like(2, 3, 5, 4, seed=seed) for seed in range(3))


@pytest.mark.parametrize("function", [torch.add, torch.sub])
def test_alpha_becomes_a_multiplication(function):
    args = random_like(3, 4), random_like(4, seed=1)
    before = program_of(lambda x, y: function(function(x, y, alpha=2), y, alpha=0.25), *args)
    after, rewrite = split_alpha(before)
    check_rewrite(before, after, *args)
    assert (rewrite.name, rewrite.count) == ("split_alpha", 2)
    assert operators(after).count(aten.mul.Tensor) == 2
    assert all("alpha" not in node.kwargs for node in after.exported.graph.nodes)


def test_alpha_of_whole_numbers_stays():
    before = program_of(lambda x, y: torch.add(x, y, alpha=2), torch.arange(4), torch.arange(4))
    assert split_alpha(before) == (before, None)


def causal(q, k, v):
    return scaled_dot_product_attention(q, k, v, is_causal=True)


def masked(q, k, v, mask):
    return scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=0.3)


LOWER = torch.ones(5, 5, dtype=torch.bool).tril()
BIAS = torch.zeros(1, 1, 5, 5).masked_fill(~LOWER, -math.inf) + 0.5
EMPTY_ROW = LOWER.clone()
EMPTY_ROW[2] = False
BY_HEAD = random_like(3, 5, 5, seed=4)
ATTENTION = {
    "a row without any key": (masked, EMPTY_ROW),
    "a bias for each head": (masked, BY_HEAD),
    "no mask": (scaled_dot_product_attention, None),
    "causal": (causal, None),
    "boolean mask": (masked, LOWER),
    "additive mask": (masked, BIAS),
}


@pytest.mark.parametrize("name", ATTENTION)
def test_attention_becomes_products_of_matrices(name):
    function, mask = ATTENTION[name]
    before = program_of(function, QUERY, KEY, VALUE, mask=mask)
    after, rewrite = unfold_attention(before)
    check_rewrite(before, after, QUERY, KEY, VALUE)
    assert (rewrite.name, rewrite.count) == ("unfold_attention", 1)
    assert aten.scaled_dot_product_attention.default not in operators(after)


def shared(q, k, v, mask):
    return scaled_dot_product_attention(q, k[:, :1], v[:, :1], attn_mask=mask, enable_gqa=True)


PADDING = torch.tensor([[True, True, True, False, False], [False] * 5])[:, None, None]
AT_RUN_TIME = {
    "padding": (masked, PADDING),
    "added": (masked, BIAS.masked_fill(~EMPTY_ROW, -math.inf)),
    "by head": (masked, BY_HEAD),
    "one key for all heads": (shared, EMPTY_ROW),
}


@pytest.mark.parametrize("name", AT_RUN_TIME)
def test_masks_of_a_run_become_one_bias(name):
    function, mask = AT_RUN_TIME[name]
    args = QUERY, KEY, VALUE, mask
    before = program_of(lambda q, k, v, mask: function(function(q, k, v, mask), k, v, mask), *args)
    after, rewrite = unfold_attention(before)
    check_rewrite(before, after, *args)
    assert rewrite.count == 2
    assert operators(after).count(aten.where.ScalarOther) == 1


@pytest.mark.parametrize("mask", [None, LOWER])
def test_repeated_keys_are_read_as_they_were(mask):
    def repeated(x):
        return x[:, :, None].expand(2, 1, 3, 5, 4).reshape(2, 3, 5, 4)

    args = QUERY, KEY[:, :1], VALUE[:, :1]
    before = program_of(
        lambda q, k, v, m=None: scaled_dot_product_attention(q, repeated(k), repeated(v), m), *args, mask=mask
    )
    after, _ = unfold_attention(before)
    check_rewrite(before, after, *args)
    (first, _) = [node for node in after.exported.graph.nodes if node.target is aten.bmm.default]
    assert tuple(first.meta["val"].shape) == (2, 15, 5)


def test_attention_of_any_batch():
    batch = torch.export.Dim("batch", min=1, max=8)
    before = program_of(causal, QUERY, KEY, VALUE, dynamic_shapes={"args": ({0: batch}, {0: batch}, {0: batch})})
    after, _ = unfold_attention(before)
    check_rewrite(before, after, QUERY, KEY, VALUE)
    check_rewrite(before, after, *(torch.cat([t, t]) for t in (QUERY, KEY, VALUE)))


def test_layers_share_one_bias():
    before = program_of(lambda q, k, v: causal(causal(q, k, v), k, v), QUERY, KEY, VALUE)
    after, _ = unfold_attention(before)
    check_rewrite(before, after, QUERY, KEY, VALUE)
    assert len(after.exported.constants) == 1


KEPT = {
    "three dimensions": (scaled_dot_product_attention, (QUERY[0], KEY[0], VALUE[0]), None),
    "another number of heads": (scaled_dot_product_attention, (QUERY, KEY[:, :1], VALUE[:, :1]), None),
    "a mask of rows": (masked, (QUERY, KEY, VALUE, torch.ones(5, 1, dtype=torch.bool)), None),
}


@pytest.mark.parametrize("name", KEPT)
def test_attention_that_stays(name):
    function, args, mask = KEPT[name]
    before = program_of(function, *args, mask=mask)
    assert unfold_attention(before) == (before, None)


def test_a_mask_made_in_forward_becomes_a_constant():
    before = program_of(lambda x: x.masked_fill(torch.ones(6, 6).tril() == 0, -9.0), random_like(6, 6))
    after, rewrite = fold_literals(before)
    check_rewrite(before, after, random_like(6, 6))
    assert rewrite.name == "fold_literals"
    assert operators(after) == [aten.masked_fill.Scalar]


def written_mask(x):
    mask = torch.zeros(300, 300, dtype=torch.bool)
    mask[-100:, :50] = True
    mask[:50, -100:] = True
    return x + torch.where(mask, -9.0, 0.0)


def test_a_large_mask_that_forward_writes_into_becomes_a_constant():
    x = random_like(300, 300)
    before = program_of(written_mask, x)
    functional, _ = return_writes(before)
    after, rewrite = fold_literals(functional)
    check_rewrite(before, after, x)
    assert rewrite.name == "fold_literals"
    assert operators(after) == [aten.add.Tensor]
    assert len(after.literals) == 1


LITERALS = {
    "random numbers": lambda x: x + torch.rand(4),
    "what the model writes to": lambda x: torch.zeros(4).add_(x),
    "an output": lambda x: (x * 2, torch.arange(4) * 2)[1],
    "too large": lambda x: x.sum() + torch.ones(ALLOWANCE_BYTES // 4 + 1).cumsum(0),
}


@pytest.mark.parametrize("name", LITERALS)
def test_literals_that_stay(name):
    before = program_of(LITERALS[name], random_like(4))
    assert aten.mul.Tensor in operators(fold_literals(before)[0]) or fold_literals(before)[1] is None


class Positions(nn.Module):
    """Relative positions: rows of a weight at the differences of places."""

    def __init__(self, places, width):
        super().__init__()
        self.table = nn.Parameter(random_like(2 * places - 1, width))
        self.places = places

    def forward(self, x):
        places = torch.arange(self.places)
        return x + self.table[places[:, None] - places[None, :] + self.places - 1]


def test_rows_of_a_weight_at_places_made_in_forward_become_a_constant():
    x = random_like(40, 40, 24, seed=1)
    before = capture_program(Positions(40, 24), x)
    after, rewrite = fold_lookups(before)
    check_rewrite(before, after, x)
    assert rewrite.name == "fold_lookups"
    assert operators(after) == [aten.add.Tensor]
    assert fold_lookups(after) == (after, None)


def test_what_is_computed_of_rows_folds_with_them():
    class Bias(Positions):
        def forward(self, x):
            rows = super().forward(torch.zeros(())).view(self.places, self.places, -1)
            return x + 16 * rows.permute(2, 0, 1).contiguous().unsqueeze(0).sigmoid()

    x = random_like(2, 24, 40, 40, seed=1)
    before = capture_program(Bias(40, 24), x)
    after, _ = fold_lookups(before)
    check_rewrite(before, after, x)
    assert operators(after) == [aten.add.Tensor]


def test_rows_that_need_far_more_than_their_table_stay():
    places = 64
    width = LOOKUP_BYTES // (4 * places * places) + 4
    before = capture_program(Positions(places, width), random_like(places, places, width))
    assert fold_lookups(before) == (before, None)


def test_rows_at_places_that_are_inputs_stay():
    before = capture_program(nn.Embedding(5, 4), torch.tensor([1, 2]))
    assert fold_lookups(before) == (before, None)


@pytest.mark.parametrize("target", delegate_names())
def test_every_target_gets_what_it_asks_for_and_no_more(target):
    wanted = rewrites.wanted_rewrites(get_delegate(target))
    before = program_of(lambda x: torch.add(x, causal(x, x.sin(), x.cos()), alpha=2), QUERY)
    _, applied = rewrites.apply_rewrites(before, wanted)
    assert {rewrite.name for rewrite in applied} == {"unfold_attention", "split_alpha"}.intersection(wanted)


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_a_mask_made_in_forward_is_clamped_where_its_numbers_do_not_fit(precision):
    before = program_of(lambda x: x + torch.full((4, 4), torch.finfo(torch.float32).min).triu(1), random_like(4, 4))
    after, _ = fold_literals(before)
    (name,) = after.literals
    mask = convert_precision(after, precision).exported.constants[name]
    assert mask.isfinite().all() and mask.min() == torch.finfo(mask.dtype).min
    buffer = program_of(lambda x, mask: x + mask, random_like(4, 4), mask=torch.full((4, 4), -3.4e38))
    assert not fold_literals(buffer)[0].literals


def row_mask(dtype):
    """`[length, keys]`; the second query has no key."""
    seen = torch.ones(5, 5, dtype=torch.bool).tril()
    seen[1] = False
    return seen if dtype == torch.bool else torch.zeros(5, 5).masked_fill(~seen, -math.inf)


@pytest.mark.parametrize("dtype", [torch.bool, torch.float32])
def test_rows_without_a_key_are_guarded_once_for_all_layers(dtype):
    def two_layers(x, mask):
        y = scaled_dot_product_attention(x, x, x, mask)
        return scaled_dot_product_attention(y + 1, x, x, attn_mask=mask)

    mask = row_mask(dtype)
    before = program_of(two_layers, QUERY, mask)
    after, rewrite = guard_empty_rows(before)
    check_rewrite(before, after, QUERY, mask)
    assert rewrite.count == 2
    assert operators(after).count(aten.any.dim) == 1
    assert operators(after).count(aten.where.ScalarOther) == 2


@pytest.mark.parametrize(
    ("function", "mask"),
    [
        (lambda x: scaled_dot_product_attention(x, x, x), None),
        (lambda x, mask: scaled_dot_product_attention(x, x, x, mask), torch.ones(5, 5, dtype=torch.bool).tril()),
    ],
    ids=["without a mask", "a constant mask with a key in every row"],
)
def test_rows_with_keys_are_not_guarded(function, mask):
    before = program_of(function, QUERY, mask=mask)
    assert guard_empty_rows(before) == (before, None)


def test_a_constant_mask_with_an_empty_row_is_guarded():
    before = program_of(lambda x, mask: scaled_dot_product_attention(x, x, x, mask), QUERY, mask=row_mask(torch.bool))
    assert guard_empty_rows(before)[1].count == 1


def test_constant_boolean_masks_become_one_that_is_added():
    mask = row_mask(torch.bool)
    before = program_of(lambda x, mask: masked(masked(x, x, x, mask), x, x, mask), QUERY, mask=mask)
    after, rewrite = write_masks(before)
    check_rewrite(before, after, QUERY)
    assert (rewrite.name, rewrite.count) == ("write_masks", 2)
    (added,) = after.exported.constants.values()
    assert torch.equal(added == 0, mask) and torch.equal(added == -math.inf, ~mask)
    assert operators(after) == operators(before)


@pytest.mark.parametrize("name", ["no mask", "causal", "additive mask"])
def test_masks_that_stay(name):
    function, mask = ATTENTION[name]
    before = program_of(function, QUERY, KEY, VALUE, mask=mask)
    assert write_masks(before) == (before, None)


def test_a_mask_of_an_input_stays():
    before = program_of(masked, QUERY, KEY, VALUE, LOWER)
    assert write_masks(before) == (before, None)


def test_a_rewrite_narrows_no_dynamic_size():
    """A convolution of the example's six items asks torch whether there are fewer than 16, to choose a kernel."""
    batch = torch.export.Dim("batch", min=2, max=64)
    program = program_of(lambda x: x.sum(1, keepdim=True), torch.randn(6, 4, 4), dynamic_shapes=(({0: batch},),))
    before = str(program.exported.range_constraints)
    after, rewrite = rewrites.apply_rewrites(program, ("write_channel_means",))
    assert rewrite and str(after.exported.range_constraints) == before
    (value,) = (node.meta["val"] for node in after.exported.graph.find_nodes(op="placeholder") if node.name != "mask")
    size = value.shape[0]
    assert not [guard for guard in size.node.shape_env.guards if str(size.node.expr) in str(guard.expr)]


def test_tables_of_pairs_are_folded_through_their_rows():
    x = random_like(2, 4, 4)

    def pairs(x):
        rows, columns = torch.tril_indices(4, 4, -1)
        return x[:, rows, columns]

    before = program_of(pairs, x)
    after, rewrite = fold_literals(before)
    check_rewrite(before, after, x)
    assert rewrite.count == 2  # the table, and its parting; a tuple's element is none
    assert operators(after) == [aten.index.Tensor]


def test_operators_that_are_alike_are_traced_once():
    x, y = random_like(3, 4), random_like(3, 4, seed=1)
    seen = []

    def multiplied(one, other):
        seen.append((tuple(one.shape), one is other))
        return one.square() if one is other else other * one

    before = program_of(lambda x, y: (x * y, y * x * x, x * x, x[:2] * y[:2], x.t() * y.t()), x, y)
    after, rewrite = substitute(before, "swap", {aten.mul.Tensor: multiplied}, "{count}")
    check_rewrite(before, after, x, y)
    assert rewrite.count == 6
    # Alike are neither a product with itself nor other sizes, nor another order in memory.
    assert seen == [((3, 4), False), ((3, 4), True), ((2, 4), False), ((4, 3), False)]


@pytest.mark.parametrize("options", [{}, {"padding": 1}, {"padding": 2, "output_padding": 1, "groups": 2}])
def test_holes_of_transposed_convolutions_become_zeros(options):
    layer = nn.ConvTranspose2d(4, 6, (3, 2), stride=(2, 3), dilation=(2, 3), **options)
    before = capture_program(layer, random_like(2, 4, 5, 4))
    after, rewrite = fill_dilation(before)
    check_rewrite(before, after, random_like(2, 4, 5, 4))
    assert rewrite.name == "fill_dilation"
    (node,) = after.exported.graph.find_nodes(op="call_function", target=aten.conv_transpose2d.input)
    assert list(node.args[1].meta["val"].shape[2:]) == [5, 4] and not any(hole > 1 for hole in node.args[7:8])


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1), (2, 4, 5, 4)),
        (
            nn.ConvTranspose2d(4, 6, (4, 3), stride=(2, 3), padding=(1, 0), output_padding=(0, 2), groups=2),
            (1, 4, 5, 4),
        ),
        (nn.ConvTranspose1d(4, 6, 5, stride=3, padding=1, output_padding=2), (1, 4, 7)),
    ],
)
def test_padding_of_transposed_convolutions_becomes_a_crop(layer, shape):
    before = capture_program(layer, random_like(*shape))
    after, rewrite = crop_transposed(before)
    check_rewrite(before, after, random_like(*shape))
    assert rewrite.count == 1
    assert crop_transposed(after) == (after, None)


@pytest.mark.parametrize(("size", "wanted"), [((2, 2), (7, 7)), ((7, 5), (3, None)), ((9, 4), (2, 3))])
def test_averages_over_windows_of_different_sizes_become_products(size, wanted):
    x = random_like(2, 3, *size)
    before = program_of(lambda x: nn.functional.adaptive_avg_pool2d(x, wanted), x)
    after, rewrite = write_uneven_averages(before)
    check_rewrite(before, after, x)
    assert rewrite.count == 1 and aten.adaptive_avg_pool2d.default not in operators(after)


def test_averages_over_equal_windows_are_left_alone():
    before = program_of(lambda x: nn.functional.adaptive_avg_pool2d(x, 2), random_like(1, 3, 8, 6))
    assert write_uneven_averages(before) == (before, None)


@pytest.mark.parametrize("order", [(0, 1, 3, 2, 4, 5), (0, 2, 4, 1, 3, 5), (5, 3, 4, 0, 2, 1), (1, 0, 2, 3, 5, 4)])
def test_permutations_of_many_dimensions_become_several_of_four(order):
    x = random_like(2, 12, 15, 4)

    def windows(x):
        y = x.view(2, 4, 3, 5, 3, 4).permute(order).contiguous()
        return torch.relu(y.view(-1, 9, 4)) + 1

    before = program_of(windows, x)
    after, rewrite = write_windows(before)
    check_rewrite(before, after, x, min_sqnr_db=200)
    assert rewrite.count == 1
    dims = [node.meta["val"].dim() for node in after.exported.graph.nodes if "val" in node.meta]
    assert max(dims) <= 5, dims


def test_what_many_dimensions_are_read_in_stays():
    x = random_like(2, 3, 2, 3, 2, 3)
    before = program_of(lambda x: torch.softmax(x.transpose(1, 4), -1), x)
    after, rewrite = write_windows(before)
    check_rewrite(before, after, x, min_sqnr_db=200)
    assert rewrite.count == 1 and write_windows(program_of(lambda x: x[0].permute(4, 3, 2, 1, 0), x))[1] is None


class Decay(nn.Module):
    """A RetNet's: a number a head, to the power of the distance."""

    def __init__(self, heads):
        super().__init__()
        self.register_buffer("rates", torch.linspace(0.5, 0.9, heads))

    def forward(self, x):
        places = torch.arange(x.shape[-1])
        distance = places[:, None] - places[None]
        return x * torch.nan_to_num(self.rates.view(-1, 1, 1) ** distance.abs() * (distance >= 0).float())


def test_tables_of_few_numbers_become_constants():
    x = random_like(4, 90, 90, seed=1)
    before = capture_program(Decay(4), x)
    after, rewrite = fold_tables(before)
    check_rewrite(before, after, x)
    assert rewrite.name == "fold_tables"
    assert operators(after) == [aten.mul.Tensor]
    assert fold_tables(after) == (after, None)


@pytest.mark.parametrize(
    "run",
    [
        lambda x, rates: x * rates.view(-1, 1, 1),
        lambda x, rates: (x, torch.exp(rates.view(-1, 1, 1) * torch.arange(600 * 600).view(600, 600)) * x[0, 0, 0]),
        lambda x, rates: x * torch.exp(rates.view(-1, 1, 1) * x),
    ],
    ids=["a view", "of more than 4 MiB", "of an input"],
)
def test_what_costs_nothing_or_depends_on_inputs_stays(run):
    class Module(Decay):
        def forward(self, x):
            return run(x, self.rates)

    program = capture_program(Module(4), random_like(4, 5, 5))
    assert fold_tables(program) == (program, None)
