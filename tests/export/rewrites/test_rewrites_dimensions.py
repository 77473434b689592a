"""Operators over more dimensions than engines hold: the numbers stay, the dimensions go."""

from __future__ import annotations

import pytest
import torch
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from rewriting import Calls, capture_program, check_rewrite
from torch import nn

from benchmarks.operators.proof import prove
from edgex.export.rewrites.folding.dimensions import fold_dimensions

X = torch.randn(1, 2, 9, 2, 3, 4, 5, generator=torch.Generator().manual_seed(0))
NEAR = torch.randn(1, 2, 9, 1, 1, 4, 5, generator=torch.Generator().manual_seed(1))


TAKEN = {
    "softmax": lambda x, _: x.softmax(2),
    "logarithms of it": lambda x, _: x.log_softmax(-1),
    "a mean": lambda x, _: x.mean((3, 4)),
    "a sum that keeps its dimension": lambda x, _: x.sum(-2, keepdim=True),
    "largest of several": lambda x, _: x.amax((0, 1)),
    "all": lambda x, _: x.sum((0, 1, 2, 3, 4, 5, 6)),
    "a dimension of one element among them": lambda x, _: x.mean((0, 2)),
    "products": lambda x, near: x * near,
    "a difference the other way round": lambda x, near: near - x,
    "a number": lambda x, _: x * 2.0,
    "of fewer dimensions": lambda x, near: x + near[0, 0, 0],
    "an activation": lambda x, _: nn.functional.gelu(x, approximate="tanh"),
    "an order": lambda x, _: x.permute(0, 1, 3, 2, 4, 5, 6) * 2.0,
    "an order that is read in another form": lambda x, _: x.permute(0, 1, 5, 3, 6, 4, 2).reshape(2, 8, 15, 9),
    "a chain": lambda x, near: (x.softmax(2) * near).sum(2).permute(0, 1, 4, 2, 5, 3).reshape(1, 2, 8, 15),
    "a view of a view": lambda x, _: x.relu().view(2, 9, 1, 6, 1, 4, 5).exp().flatten(1),
}


@pytest.mark.parametrize("case", TAKEN)
def test_dimensions_that_are_alike_become_one(case):
    before = capture_program(Calls(TAKEN[case]), X, NEAR)
    after, rewrite = fold_dimensions(before)
    assert rewrite is not None
    check_rewrite(before, after, X, NEAR)
    views = ("reshape", "view", "flatten", "unsqueeze", "squeeze", "clone")
    for node in after.exported.graph.nodes:
        if node.op == "call_function" and not any(word in str(node.target) for word in views):
            assert node.meta["val"].dim() <= 6, node


@pytest.mark.parametrize(
    "run",
    [
        lambda x: x.half() * torch.tensor(2.5).view(1, 1, 1, 1, 1, 1, 1),
        lambda x: x * x.sum().double().reshape(1, 1, 1, 1, 1, 1, 1),
        lambda x: x[:, :1, :1, :1, :1, :1, :1] * torch.tensor(2.5, dtype=torch.float64),
        lambda x: x[:, :1, :1, :1, :1, :1, :1] * x.sum().reshape(1, 1, 1, 1, 1, 1, 1),
        lambda x: x * x.sum(),
    ],
)
def test_the_type_of_a_result_stays(run):
    before = capture_program(Calls(lambda x, _: run(x)), X, NEAR)
    after, rewrite = fold_dimensions(before)
    if rewrite is not None:
        check_rewrite(before, after, X, NEAR)


def test_a_copy_made_before_a_write_is_read_as_it_was():
    class Sums(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("kept", torch.arange(60.0).view(3, 4, 5))

        def forward(self, x):
            before = self.kept.transpose(0, 1).reshape(1, 1, 1, 12, 1, 5, 1)
            self.kept.add_(x)
            return before.softmax(3)

    x = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(4))
    before = capture_program(Sums(), x, state=("kept",))
    after, rewrite = fold_dimensions(before)
    assert rewrite is not None
    check_rewrite(before, after, x)


LEFT = {
    "few dimensions": lambda x, _: x[0, 0].softmax(0),
    "no two alike": lambda x, _: x.view(3, 3, 2, 2, 3, 4, 5).mean((0, 2, 4, 6)),
    "a sum of truths": lambda x, _: (x > 0).any(2),
}


@pytest.mark.parametrize("case", LEFT)
def test_others_are_left_alone(case):
    program = capture_program(Calls(LEFT[case]), X, NEAR)
    assert fold_dimensions(program) == (program, None)


@settings(max_examples=examples(40), deadline=None)
@given(data=st.data())
def test_any_sizes_and_dimensions_keep_their_numbers(data):
    sizes = data.draw(st.lists(st.sampled_from([1, 1, 2, 3]), min_size=6, max_size=8))
    other = [data.draw(st.sampled_from([1, size])) for size in sizes]
    order = data.draw(st.permutations(range(len(sizes))))
    dims = data.draw(st.lists(st.sampled_from(range(len(sizes))), min_size=1, max_size=3, unique=True))
    generator = torch.Generator().manual_seed(2)
    x, y = torch.randn(sizes, generator=generator), torch.randn(other, generator=generator)
    before = capture_program(Calls(lambda x, y: ((x - y).permute(order).mean(dims), (x + y).softmax(dims[0]))), x, y)
    after, rewrite = fold_dimensions(before)
    if rewrite is not None:
        check_rewrite(before, after, x, y)


@pytest.mark.parametrize("target", ["xnnpack", "onednn"])
def test_flow_is_enlarged_by_convex_sums(target):
    class Enlarge(nn.Module):
        def forward(self, flow, mask):
            mask = mask.view(1, 1, 9, 4, 4, 6, 7).softmax(2)
            near = nn.functional.unfold(4 * flow, 3, padding=1).view(1, 2, 9, 1, 1, 6, 7)
            return (mask * near).sum(2).permute(0, 1, 4, 2, 5, 3).reshape(1, 2, 24, 28)

    generator = torch.Generator().manual_seed(3)
    x = (torch.randn(1, 2, 6, 7, generator=generator), torch.randn(1, 144, 6, 7, generator=generator))
    proved = prove(Enlarge(), x, target)
    assert proved.exit_code == 0, proved.reason
    assert "fold_dimensions" in proved.rewrites
