"""Reductions of a few parts, one after another: the same numbers, without a copy of all of them."""

from __future__ import annotations

import pytest
import torch
from rewriting import Calls, capture_program, check_rewrite, operators, run_program

from benchmarks.operators.proof import prove
from edgex.export.rewrites.pooling.parts import multiply_parts, reduce_planes, reduce_stacks

A, B, C = torch.randn(3, 2, 5, 7, generator=torch.Generator().manual_seed(0)).unbind()

STACKS = {
    "mean": lambda *x: torch.stack(x, -1).mean(-1),
    "sum": lambda *x: torch.stack(x).sum(0),
    "largest, kept": lambda *x: torch.stack(x, 1).amax(1, keepdim=True),
    "smallest": lambda *x: torch.stack(x, 2).amin((2,)),
    "product": lambda *x: torch.stack(x, 3).prod(-1),
}


@pytest.mark.parametrize("case", STACKS)
def test_stacks_are_reduced_part_by_part(case):
    before = capture_program(Calls(STACKS[case]), A, B, C)
    after, rewrite = reduce_stacks(before)
    assert rewrite.count == 1
    check_rewrite(before, after, A, B, C)
    assert "aten.stack.default" not in operators(after)


STACKS_LEFT = {
    "another dimension": lambda *x: torch.stack(x, -1).mean(1),
    "two dimensions": lambda *x: torch.stack(x, -1).sum((1, -1)),
    "read twice": lambda *x: (lambda whole: whole.mean(-1, keepdim=True) - whole)(torch.stack(x, -1)),
    "many": lambda *x: torch.stack(x * 6, -1).mean(-1),
    "of doubles": lambda *x: torch.stack(x, -1).mean(-1, dtype=torch.float64),
}


@pytest.mark.parametrize("case", STACKS_LEFT)
def test_other_stacks_are_left_alone(case):
    program = capture_program(Calls(STACKS_LEFT[case]), A, B, C)
    assert reduce_stacks(program) == (program, None)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 13])
@pytest.mark.parametrize("keepdim", [False, True])
def test_products_become_products_of_two(count, keepdim):
    x = torch.randn(4, count, 3, generator=torch.Generator().manual_seed(1))
    before = capture_program(Calls(lambda x: x.prod(1, keepdim=keepdim)), x)
    after, rewrite = multiply_parts(before)
    assert rewrite.count == 1
    check_rewrite(before, after, x)
    assert not any("prod" in name for name in operators(after))


def test_zeros_and_what_is_no_number_in_a_product():
    x = torch.tensor([[0.0, 2, -3], [torch.nan, 1, 1], [torch.inf, -1, 2], [torch.inf, 0, 1]])
    after, _ = multiply_parts(capture_program(Calls(lambda x: x.prod(1)), x))
    torch.testing.assert_close(run_program(after, x)[0], x.prod(1), equal_nan=True)


def test_products_of_integers_are_left_alone():
    program = capture_program(Calls(lambda x: x.long().prod(1)), A)
    assert multiply_parts(program) == (program, None)


@pytest.mark.parametrize("target", ["xnnpack", "onednn"])
def test_branches_and_products_are_exported(target):
    def mixed(x):
        branches = torch.stack([x, x.exp(), x.sigmoid()], -1).mean(-1)
        return branches, (1 - x.sigmoid()).prod(-2)

    proved = prove(Calls(mixed), (A,), target)
    assert proved.exit_code == 0, proved.reason
    assert "reduce_stacks" in proved.rewrites


PLANES = torch.randn(2, 3, 16, 12, 12, generator=torch.Generator().manual_seed(2))
ADDED = {
    "sum": lambda x: x.sum(1),
    "sum, kept": lambda x: x.sum(-4, keepdim=True),
    "mean": lambda x: x.mean(1),
    "two of them": lambda x: x.sum(0),
    "largest": lambda x: x.amax(1),
    "smallest, kept": lambda x: x.amin((1,), keepdim=True),
}


KEPT_OF_PLANES = ("narrow.default", "add.Tensor", "mul.Tensor", "maximum.default", "minimum.default", "squeeze.dim")


@pytest.mark.parametrize("case", ADDED)
def test_few_planes_are_added_one_to_another(case):
    before = capture_program(Calls(ADDED[case]), PLANES)
    after, rewrite = reduce_planes(before)
    assert rewrite.count == 1
    check_rewrite(before, after, PLANES, min_sqnr_db=130)
    assert set(operators(after)) <= {f"aten.{name}" for name in KEPT_OF_PLANES}


PLANES_LEFT = {
    "many": lambda x: x.sum(2),
    "two dimensions": lambda x: x.mean((0, 1)),
    "small ones": lambda x: x[..., :5, :5].sum(1),
    "elements of rows": lambda x: x.flatten(1, 3)[..., :3].sum(-1),
    "as doubles": lambda x: x.sum(1, dtype=torch.float64),
}


@pytest.mark.parametrize("case", PLANES_LEFT)
def test_other_sums_stay(case):
    program = capture_program(Calls(PLANES_LEFT[case]), PLANES)
    assert reduce_planes(program) == (program, None)


@pytest.mark.parametrize("target", ["xnnpack", "onnx-cpu"])
def test_targets_reduce_planes_of_any_number_of_images(target):
    """As split attention does: ResNeSt, selective kernels."""

    class Split(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 32, 1)

        def forward(self, x):
            y = self.conv(x).reshape(x.shape[0], 2, 16, 12, 12)
            return (y * y.sum(1, keepdim=True).mean((3, 4), keepdim=True)).sum(1)

    batch = torch.export.Dim("batch", min=1, max=8)
    proved = prove(Split(), (torch.randn(3, 3, 12, 12),), target, dynamic_shapes=({0: batch},))
    assert proved.exit_code == 0, proved.reason
    assert "reduce_planes" in proved.rewrites
