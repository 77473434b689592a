"""Products that repeat no factor, and weights that are parts of others: the numbers stay, and engines take them."""

from __future__ import annotations

import pytest
import torch
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from rewriting import capture_program, check_rewrite, operators, run_program, worst_sqnr_db
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

from benchmarks.operators.proof import prove
from edgex.export.rewrites.folding.constants import fold_constants
from edgex.export.rewrites.matrices.pairs import pair_factors
from edgex.export.rewrites.matrices.shared import share_factors, share_weights


class Product(nn.Module):
    def __init__(self, function, *sizes):
        super().__init__()
        self.function = function
        generator = torch.Generator().manual_seed(1)
        self.weights = nn.ParameterList(nn.Parameter(torch.randn(size, generator=generator)) for size in sizes)

    def forward(self, *x):
        return self.function(*x, *self.weights)


def _random(*size: int) -> torch.Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(2))


# The function, the sizes of weights, the input's.
FEW_MATRICES = {
    "heads over rows": (lambda x, w: x.unsqueeze(1) @ w, [(8, 24, 10)], (2, 50, 24)),
    "heads on the left": (lambda x, w: w @ x.unsqueeze(1), [(8, 10, 24)], (2, 24, 50)),
    "capsules": (lambda x, w: torch.matmul(w, x[:, None, :, :, None]).squeeze(-1), [(5, 30, 6, 4)], (2, 30, 4)),
    "columns": (lambda x, w: w @ x[..., None], [(6, 12)], (3, 7, 12)),
    "groups of queries": (lambda x: x.view(2, 2, 3, 5, 6) @ x[:, :2, None].transpose(-1, -2), [], (2, 6, 5, 6)),
    "both are repeated": (lambda x, w: x.view(3, 1, 4, 6) @ w, [(5, 6, 7)], (3, 4, 6)),
}
EQUATIONS = {
    "a head of its own": ("bnd,hde->bhne", (3, 12, 4)),
    "a weight for each": ("bnd,nde->bne", (5, 12, 4)),
    "two dimensions made": ("bnd,dce->bnce", (12, 3, 4)),
    "two dimensions summed": ("bnd,cnd->bc", (4, 5, 12)),
    "rows mixed": ("bnd,kn->bkd", (7, 5)),
}


@pytest.mark.parametrize("case", FEW_MATRICES)
def test_a_factor_is_not_repeated(case):
    function, weights, size = FEW_MATRICES[case]
    x = _random(*size)
    before = capture_program(Product(function, *weights), x)
    after, rewrite = share_factors(before)
    assert rewrite.count == 1
    check_rewrite(before, after, x)
    assert "aten.matmul.default" not in operators(after)


@pytest.mark.parametrize("weight_first", [False, True])
@pytest.mark.parametrize("case", EQUATIONS)
def test_sums_with_a_weight_are_products_of_matrices(case, weight_first):
    equation, size = EQUATIONS[case]
    x = _random(2, 5, 12)
    if weight_first:
        terms, out = equation.split("->")
        equation = ",".join(reversed(terms.split(","))) + "->" + out
    module = Product(lambda x, w: torch.einsum(equation, *((w, x) if weight_first else (x, w))), size)
    before = capture_program(module, x)
    after, rewrite = share_factors(before)
    assert rewrite.count == 1
    check_rewrite(before, after, x)
    assert "aten.einsum.default" not in operators(after)


LEFT = {
    "both computed": (lambda x: torch.einsum("bnd,bmd->bnm", x, x), []),
    "an ellipsis": (lambda x, w: torch.einsum("...d,de->...e", x, w), [(12, 3)]),
    "a diagonal": (lambda x, w: torch.einsum("bnd,ddk->bnk", x, w), [(12, 12, 3)]),
    "no sum": (lambda x, w: torch.einsum("bnd,n->bnd", x, w), [(5,)]),
    "one element that is repeated": (lambda x, w: torch.einsum("bnd,de->bne", x, w), [(1, 3)]),
    "a sum of one factor": (lambda x, w: torch.einsum("bnd,dek->bne", x, w), [(12, 3, 2)]),
    "as many matrices": (lambda x, w: x @ w, [(2, 12, 3)]),
    "a vector": (lambda x, w: x @ w, [(12,)]),
    "few repetitions of little": (lambda x: x[:1, :2] @ torch.cat([x.transpose(1, 2)] * 9, 2), []),
}


@pytest.mark.parametrize("case", LEFT)
def test_others_are_left_alone(case):
    function, weights = LEFT[case]
    program = capture_program(Product(function, *weights), _random(2, 5, 12))
    assert share_factors(program) == (program, None)


def test_onednn_is_given_what_copies_nothing():
    x = _random(3, 7, 12)
    before = capture_program(Product(lambda x, w: w @ x[..., None], (6, 12)), x)
    after, rewrite = share_weights(before)
    assert rewrite.count == 1
    check_rewrite(before, after, x)
    for function, size in ((lambda x, w: x.unsqueeze(1) @ w, (8, 12, 5)), (lambda x: x[:, None] @ x[..., None], None)):
        program = capture_program(Product(function, *([size] if size else [])), x)
        assert share_weights(program) == (program, None)


@settings(max_examples=examples(25), deadline=None)
@given(data=st.data())
def test_stacks_of_any_sizes_keep_their_numbers(data):
    rank = data.draw(st.integers(1, 3))
    over = [data.draw(st.lists(st.sampled_from([1, size]), min_size=2, max_size=2)) for size in (2, 3, 4)[:rank]]
    high, deep, wide = (data.draw(st.integers(1, 4)) for _ in range(3))
    x, weight = _random(*(one for one, _ in over), high, deep), (*(other for _, other in over), deep, wide)
    before = capture_program(Product(lambda x, w: x @ w, weight), x)
    after, rewrite = share_factors(before)
    if rewrite is not None:
        check_rewrite(before, after, x)


PARTS = {
    "of a stack": lambda x, w: F.linear(x, w.view(3, 12, 12)[1]),
    "rows": lambda x, w: F.linear(x, w[12:24]),
    "of several": lambda x, w: [F.linear(x, part) for part in w.chunk(3)],
    "turned": lambda x, w: x @ w.view(3, 12, 12).transpose(1, 2)[2],
    "another form": lambda x, w: x @ w.view(12, 36),
}


@pytest.mark.parametrize("case", PARTS)
def test_parts_of_weights_that_multiply_are_weights(case):
    x = _random(2, 5, 12)
    before = capture_program(Product(PARTS[case], (36, 12)), x)
    after, rewrite = fold_constants(before)
    assert rewrite is not None
    check_rewrite(before, after, x)
    assert set(operators(after)) <= {"aten.linear.default", "aten.matmul.default"}


SEEN = {
    "a matrix that is turned": lambda x, w: x @ w.t(),
    "no factor": lambda x, w: x + w[:5],
    "one that is read whole, too": lambda x, w: F.linear(F.embedding(x[..., 0].long() % 4, w), w[:30000]),
}


@pytest.mark.parametrize("case", SEEN)
def test_other_views_of_weights_stay(case):
    size = (40000, 12) if "whole" in case else (12, 12)
    program = capture_program(Product(SEEN[case], size), _random(2, 5, 12))
    assert fold_constants(program) == (program, None)


@pytest.mark.parametrize("target", ["xnnpack", "onednn"])
def test_low_ranks_of_stacked_experts_are_exported(target):
    def forward(x, outer, inner):
        low = [torch.tanh(inner[at] @ x.unsqueeze(2)) for at in range(3)]
        return torch.stack([(outer[at].t() @ one).squeeze(2) for at, one in enumerate(low)], 1)

    proved = prove(Product(forward, (3, 6, 24), (3, 6, 24)).eval(), (_random(16, 24),), target)
    assert proved.exit_code == 0, proved.reason
    assert "fold_constants" in proved.rewrites


SUMS = {
    "states of Mamba 2": "bclhn,bcshn,bhcls,bcshp->bclhp",
    "what is passed on": "bclhn,bhcl,bclhp->bchpn",
    "two of seven letters": "abcde,fgcde->abfg",
    "outer products": "wj,wl,ijl->wi",
    "all elementwise": "bld,bln,bld->bldn",
    "a sum of one factor": "bld,bln,dm->bl",
    "one number of all": "a,b,ab->ab",
}
SIZES = {letter: 2 + at % 4 for at, letter in enumerate("abcdefghijklmnopqrstuvwxyz")}


@pytest.mark.parametrize("case", SUMS)
def test_sums_of_several_factors_are_of_two_each(case):
    equation = SUMS[case]
    x = [_random(*(SIZES[letter] for letter in word)) for word in equation.split("->")[0].split(",")]
    before = capture_program(Product(lambda *x: torch.einsum(equation, *x)), *x)
    after, rewrite = pair_factors(before)
    assert rewrite.count == 1
    check_rewrite(before, after, *x)
    assert "aten.einsum.default" not in operators(after)
    most = max(6 if case != "two of seven letters" else 5, *(one.dim() for one in x))
    assert all(
        value.dim() <= most
        for node in after.exported.graph.nodes
        if isinstance(value := node.meta.get("val"), torch.Tensor)
    )


# Letters of sizes that vary, and the operators that are left beside views.
VARYING = {
    "heads of latent attention": ("bshd,hdc->bshc", "s", ["bmm", "permute", "permute"]),
    "scores over a latent cache": ("bshc,btc->bsht", "st", ["bmm", "transpose"]),
    "what is read of it": ("bsht,btc->bshc", "st", ["bmm"]),
    "a batch that varies": ("bshc,btc->bsht", "bst", ["bmm", "transpose"]),
    "the dual form of Mamba 2": (
        "bln,bsn,bhls,bshp->blhp",
        "ls",
        ["bmm", "transpose", "mul", "permute", "bmm", "permute"],
    ),
    "what a state has seen": ("bsn,bhs,bshp->bhpn", "s", ["permute", "mul", "permute", "bmm"]),
    "the state's part": ("bln,bhpn,bhl->blhp", "l", ["permute", "bmm", "transpose", "mul"]),
    "sums of one factor": ("bs,sd->s", "s", ["sum", "sum", "mul"]),
}


@pytest.mark.parametrize("case", VARYING)
def test_sums_over_sizes_that_vary_are_few_operators(case):
    equation, letters, expected = VARYING[case]
    words = equation.split("->")[0].split(",")
    dims = {letter: Dim(f"size_{letter}", max=9) for letter in letters}
    shapes = tuple({at: dims[letter] for at, letter in enumerate(word) if letter in dims} for word in words)

    def factors(sizes):
        return [_random(*(sizes[letter] for letter in word)) for word in words]

    known = SIZES | {"b": 1} | {letter: 4 + at for at, letter in enumerate(letters)}
    module = Product(lambda *x: torch.einsum(equation, *x))
    before = capture_program(module, *factors(known), dynamic_shapes=(shapes,))
    after, rewrite = pair_factors(before)
    assert rewrite.count == 1
    for size in (1, 2, 9):
        x = factors(known | dict.fromkeys(letters, size))
        assert worst_sqnr_db(run_program(before, *x), run_program(after, *x)) > 100
    found = [name.split(".")[1] for name in operators(after) if name.startswith("aten.")]
    assert sorted(name for name in found if name not in ("sym_size", "reshape", "view")) == sorted(expected)


def test_a_linear_layer_over_sizes_that_vary_is_one():
    module = Product(lambda x, w: torch.einsum("bsd,hde->bshe", x, w), (3, 8, 4))
    before = capture_program(module, _random(1, 5, 8), dynamic_shapes=(({1: Dim("length", max=9)},),))
    after, rewrite = pair_factors(before)
    assert rewrite.count == 1
    assert "aten.linear.default" in operators(after)
    for length in (1, 9):
        x = _random(1, length, 8)
        assert worst_sqnr_db(run_program(before, x), run_program(after, x)) > 100


def test_a_weight_among_several_factors_is_a_linear_layer():
    x, y = _random(7, 4), _random(7, 3)
    module = Product(lambda x, y, w: torch.einsum("wj,wl,ijl->wi", x, y, w), (5, 4, 3))
    before = capture_program(module, x, y)
    after, rewrite = pair_factors(before)
    assert rewrite.count == 1
    check_rewrite(before, after, x, y)
    assert "aten.linear.default" in operators(after)


@pytest.mark.parametrize("equation", ["ab,ab,aa->ab", "ab,bc->ac", "...b,bc,c->...c", "ab,bc,cd,de,ef->af"])
def test_other_sums_are_left_alone(equation):
    words = equation.split("->")[0].split(",")
    x = [_random(*(3 for _ in word.replace("...", "x"))) for word in words]
    program = capture_program(Product(lambda *x: torch.einsum(equation, *x)), *x)
    assert pair_factors(program) == (program, None)


@settings(max_examples=examples(30), deadline=None)
@given(data=st.data())
def test_any_sum_with_weights_keeps_its_numbers(data):
    letters = "abcde"
    sizes = {letter: data.draw(st.sampled_from([1, 2, 3])) for letter in letters}
    count = data.draw(st.integers(2, 4))
    words = [data.draw(st.lists(st.sampled_from(letters), min_size=1, max_size=4, unique=True)) for _ in range(count)]
    known = sorted({letter for word in words for letter in word})
    out = data.draw(st.lists(st.sampled_from(known), min_size=1, max_size=4, unique=True))
    equation = ",".join("".join(word) for word in words) + "->" + "".join(out)
    at = data.draw(st.integers(0, count - 1))
    # Positive: nothing that is next to 0 by chance.
    factors = [_random(*(sizes[letter] for letter in word)).abs() + 0.1 for word in words]

    def forward(*given):
        *x, weight = given
        return torch.einsum(equation, *x[:at], weight, *x[at:])

    x = [factor for place, factor in enumerate(factors) if place != at]
    module = Product(forward, tuple(factors[at].shape))
    module.weights[0].data = factors[at]
    before = capture_program(module, *x)
    for write in (share_factors, share_weights, pair_factors):
        after, rewrite = write(before)
        if rewrite is not None:
            check_rewrite(before, after, *x)


def test_a_tied_head_keeps_one_weight():
    def forward(x, w):
        return torch.einsum("bnd,vd->bnv", F.embedding(x, w), w)

    x = torch.arange(6).view(2, 3)
    before = capture_program(Product(forward, (40, 12)), x)
    after, rewrite = share_factors(before)
    assert rewrite.count == 1
    check_rewrite(before, after, x)
    assert len(after.exported.state_dict) == 1


def test_a_large_weight_that_others_read_is_not_stored_in_two_orders():
    def forward(x, w):
        return torch.einsum("bnd,dv->bnv", x, w) + torch.cos(w)[:1]

    program = capture_program(Product(forward, (12, 30000)), _random(2, 5, 12))
    assert share_factors(program) == (program, None)


def test_the_steps_of_a_loop_share_their_weight():
    def forward(x, w):
        for factor in (1.0, 2.0, 3.0):
            x = torch.tanh(torch.einsum("bnd,hde->bnhe", x * factor, w).flatten(2))
        return x

    before = capture_program(Product(forward, (3, 12, 4)), _random(2, 5, 12))
    after, rewrite = share_factors(before)
    assert rewrite.count == 3
    check_rewrite(before, after, _random(2, 5, 12))
    assert len(after.exported.state_dict) == 1


def test_low_ranks_are_multiplied_one_after_the_other():
    module = Product(lambda x, a, b: torch.einsum("bnd,dr,rk->bnk", x, a, b), (128, 4), (4, 128))
    x = _random(1, 2048, 128)
    before = capture_program(module, x)
    after, rewrite = pair_factors(before)
    assert rewrite.count == 1
    check_rewrite(before, after, x)
    assert sum(tensor.numel() for tensor in after.exported.state_dict.values()) == 2 * 128 * 4


def test_factors_of_several_types_are_left_alone():
    def forward(x, y, z):
        return torch.einsum("ab,c,bc->ac", x.half(), y, z)

    program = capture_program(Product(forward), _random(4, 50), _random(6), _random(50, 6))
    assert pair_factors(program) == (program, None)


def test_parts_are_weights_though_something_large_beside_them_is_computed():
    def forward(x, w):
        large = torch.outer(w.flatten()[:400], w.flatten()[:400])
        return w[0] @ x, w[1] @ x, (large * x.sum()).sum(0)

    x = _random(64, 1)
    before = capture_program(Product(forward, (2, 64, 64)), x)
    after, rewrite = fold_constants(before)
    assert rewrite is not None
    check_rewrite(before, after, x)
    assert "aten.select.int" not in operators(after)
    assert "aten.outer.default" in operators(after)


def test_large_weights_that_others_read_are_not_paired():
    def forward(x, w, v):
        return torch.einsum("bnd,dv,v->bnv", x, w, v) + torch.cos(w)[:1]

    program = capture_program(Product(forward, (12, 30000), (30000,)), _random(2, 5, 12))
    assert pair_factors(program) == (program, None)
