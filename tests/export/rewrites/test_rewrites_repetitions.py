"""What is repeated is a product with ones, of any sizes, and keeps NaN, infinity and the sign of zero."""

from __future__ import annotations

import pytest
import torch
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from rewriting import Calls, capture_program, check_rewrite, operators, run_program

from benchmarks.operators.proof import prove
from edgex.export.rewrites.operators.identities import drop_identities
from edgex.export.rewrites.products.nearest import repeat_by_products


def rand(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def check(run, x: torch.Tensor) -> list[str]:
    before = capture_program(Calls(lambda x: run(x * 1.5)), x)
    after, rewrite = repeat_by_products(before)
    assert rewrite is not None
    assert rewrite.count == 1
    check_rewrite(before, after, x)
    return operators(after)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(0, 3), st.integers(2, 5))
@settings(max_examples=examples(15), deadline=None)
def test_elements_are_repeated_in_place(shape, dim, repeats):
    found = check(lambda x: x.repeat_interleave(repeats, dim % len(shape)), rand(*shape))
    assert "aten.repeat_interleave.self_int" not in found


@given(st.lists(st.integers(1, 3), min_size=1, max_size=3), st.lists(st.integers(1, 3), min_size=3, max_size=4))
@settings(max_examples=examples(15), deadline=None)
def test_tensors_are_repeated_as_a_whole(shape, repeats):
    if max(repeats) == 1:
        repeats = [*repeats[:-1], 2]
    found = check(lambda x: x.repeat(repeats), rand(*shape))
    assert "aten.repeat.default" not in found


def test_no_number_changes():
    x = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0, 1e-42, 3.4e38])
    before = capture_program(Calls(lambda x: (x.clone().repeat(2, 2), x.clone().repeat_interleave(3, 0))), x)
    after, rewrite = repeat_by_products(before)
    assert rewrite.count == 2
    for one, other in zip(run_program(before, x), run_program(after, x), strict=True):
        assert torch.equal(one.view(torch.int32), other.view(torch.int32))


LEFT = {
    "one by one": lambda x: x.repeat(1, 1, 1),
    "whole numbers": lambda x: (x > 0).long().repeat(2, 1, 1),
    "flat": lambda x: (x * 2).repeat_interleave(2),
    "nothing": lambda x: (x[:0] * 1).repeat_interleave(2, 1),
    "none of it": lambda x: (x * 2).repeat(0, 1, 1),
    "shared heads": lambda x: torch.nn.functional.scaled_dot_product_attention(
        x.view(1, 4, 6, 5), *[(x[:2] * 2).view(1, 2, 6, 5).repeat_interleave(2, 1)] * 2
    ),
}


@pytest.mark.parametrize("case", LEFT)
def test_the_rest_is_left(case):
    program = capture_program(Calls(LEFT[case]), rand(4, 6, 5))
    after, rewrite = repeat_by_products(program)
    assert after is program
    assert rewrite is None


READERS = {
    "expand": (lambda x, y: x * 2 + y.exp().expand(3, 4, 5), (3, 4, 5), (1, 4, 1)),
    "expand into more dimensions": (lambda x, y: torch.maximum(x * 2, y.exp().expand(3, 4, 5)), (3, 4, 5), (4, 1)),
    "repeat": (lambda x, y: x * 2 - y.exp().repeat(3, 1, 5), (3, 4, 5), (1, 4, 1)),
    "repeat into more dimensions": (lambda x, y: x / y.exp().repeat(3, 1, 1), (3, 4, 5), (4, 5)),
}


@pytest.mark.parametrize("case", READERS)
def test_readers_repeat_by_themselves(case):
    run, *shapes = READERS[case]
    inputs = [rand(*shape) for shape in shapes]
    before = capture_program(Calls(run), *inputs)
    after, rewrite = drop_identities(before)
    assert rewrite.count == 1
    check_rewrite(before, after, *inputs)
    assert not {"aten.expand.default", "aten.repeat.default"} & set(operators(after))


NOT_BY_READERS = {
    "two that count on each other": (lambda x, y: x.exp().expand(3, 4) * y.exp().expand(3, 4), (3, 1), (3, 1)),
    "two of them by `repeat`": (lambda x, y: x.exp().repeat(1, 4) * y.exp().repeat(3, 4), (3, 1), (1, 1)),
    "more than one element": (lambda x, y: x * y.exp().repeat(1, 2), (3, 4), (3, 2)),
    "a reader that does not": (lambda x, y: torch.cat([x, y.exp().repeat(3, 4)]), (3, 4), (1, 1)),
}


@pytest.mark.parametrize("case", NOT_BY_READERS)
def test_what_readers_do_not_repeat_stays(case):
    run, *shapes = NOT_BY_READERS[case]
    program = capture_program(Calls(run), *(rand(*shape) for shape in shapes))
    after, rewrite = drop_identities(program)
    assert after is program
    assert rewrite is None


REPEATED_BY_READERS = {
    "a mask of heads": lambda x: x.masked_fill((x[:1, :1, :] > 0).expand(-1, 6, -1).repeat(4, 1, 1), -1e9),
    "a mask that is repeated for each head": lambda x: x.masked_fill(
        (x[:2, :1, :] > 0).expand(-1, 6, -1).repeat(2, 1, 1), -1e9
    ),
    "a mask that chooses": lambda x: torch.where((x[:, :1] > 0).expand(4, 6, 5), x, 0.0),
    "what is chosen": lambda x: torch.where(x > 0, x, x[:1, :, :1].expand(4, 6, 5)),
    "a bound": lambda x: x > x[:, :, :1].expand(-1, -1, 5),
    "of another rank": lambda x: x.masked_fill((x[0, 0] > 0).expand(6, 5).repeat(4, 1, 1), 0.5),
}


@pytest.mark.parametrize("case", REPEATED_BY_READERS)
def test_readers_repeat_masks_and_bounds_by_themselves(case):
    x = rand(4, 6, 5)
    before = capture_program(Calls(REPEATED_BY_READERS[case]), x)
    after, rewrite = drop_identities(before)
    assert rewrite is not None
    check_rewrite(before, after, x)
    assert "aten.expand.default" not in operators(after)
    assert ("aten.repeat.default" in operators(after)) == (case == "a mask that is repeated for each head")


@pytest.mark.parametrize(
    "run",
    [
        lambda x: x.masked_fill((x[:1, :, :1] > 0).expand(2, 6, 5).repeat(2, 1, 1), 0.5),
        lambda x: x.masked_fill((x[:, :1] > 0).expand(4, 2, 5).repeat(1, 3, 1), 0.5),
        lambda x: (x[:1] > 0).expand(4, 6, 5) & (x > 1),
        lambda x: (x[:1].expand(4, 6, 5) > 0, x),
    ],
    ids=["repeated as a whole", "repeated where it grew", "truths", "nothing else is as large"],
)
def test_repetitions_that_readers_need_stay(run):
    program = capture_program(Calls(run), rand(4, 6, 5))
    after, _ = drop_identities(program)
    assert "aten.expand.default" in operators(after)
    if after is not program:
        check_rewrite(program, after, rand(4, 6, 5))


def test_a_dynamic_size_that_is_as_large_stays_dynamic():
    x, mask = rand(6, 6, 5), rand(1, 5)
    batch = torch.export.Dim("batch", min=2, max=8)
    proved = prove(
        Calls(lambda x, mask: torch.relu(x.masked_fill((mask > 0).expand(6, 5), 0.5))),
        (x, mask),
        "xnnpack",
        dynamic_shapes=(({0: batch}, {}),),
    )
    assert proved.exit_code == 0, proved.reason


@pytest.mark.parametrize(
    "run",
    [
        lambda x: x.masked_fill((x[:2, :1] > 0).repeat(2, 1, 1).expand(4, 6, 5), 0.5),
        lambda x: x + x[:2, :1].exp().repeat(2, 1, 1).expand(-1, 6, -1),
        lambda x: x.masked_fill((x[:2, :1] > 0).repeat(2, 1, 1).repeat(1, 6, 1), 0.5),
        lambda x: x + x[:2].exp().repeat(2, 1, 1).repeat(1, 1, 1),
    ],
)
def test_what_repeats_more_than_one_element_stays(run):
    before = capture_program(Calls(run), rand(4, 6, 5))
    after, rewrite = drop_identities(before)
    if rewrite is not None:
        check_rewrite(before, after, rand(4, 6, 5))
    assert "aten.repeat.default" in operators(after)


def test_what_was_repeated_before_a_write_is_read_before_it():
    class Counts(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("kept", torch.arange(5.0).view(1, 1, 5))

        def forward(self, x):
            first = self.kept.repeat(1, 6, 1)
            self.kept.add_(1.0)
            return x + first.expand(4, 6, 5)

    x = rand(4, 6, 5)
    before = capture_program(Counts(), x, state=("kept",))
    after, rewrite = drop_identities(before)
    assert rewrite is not None
    check_rewrite(before, after, x)
    assert "aten.repeat.default" in operators(after)
