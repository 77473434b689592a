"""Parts that a program writes into a tensor of its own: joined with what they lie in."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from rewriting import Calls, capture_program, check_rewrite, operators

from edgex.export.rewrites.indexing.joins import join_steps, join_writes
from edgex.export.rewrites.indexing.writes import return_writes

X = torch.randn(2, 6, 5, generator=torch.Generator().manual_seed(0))


def of_two_encodings(x: torch.Tensor) -> torch.Tensor:
    """By assignment and by `copy_`, both repeated along a dimension, as a signal's positions are put together."""
    made = x.new_zeros((2, 3, 6, 5))
    made[..., :2] = x[:, None, :1, :2]
    made[..., 2:5].copy_(x[0, :, 2:] * 2)
    return made


def between(x: torch.Tensor) -> torch.Tensor:
    made = x * 3
    made[:, 2:4] = x[:, :2] + 1
    made[:, :1] -= x[:, 3:4]
    made[:, -1:] = x[:, -2:-1]
    return made


def whole(x: torch.Tensor) -> torch.Tensor:
    made = x.clone()
    made[:] = x[:1]
    return made + x


def of_another_type(x: torch.Tensor) -> torch.Tensor:
    made = torch.zeros(2, 6, 5)
    made[:, :3].copy_(x[:, :3] > 0)
    return made + x


def an_input(x: torch.Tensor) -> torch.Tensor:
    made = torch.empty_like(x)
    made.copy_(x)
    return made


CASES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    case.__name__: case for case in (of_two_encodings, between, whole, of_another_type, an_input)
}


@pytest.mark.parametrize("name", [*CASES, *(f"{name}, any batch" for name in ("between", "whole", "an_input"))])
def test_nothing_is_written_and_the_numbers_stay(name: str) -> None:
    name, *dynamic = name.split(",")
    shapes = {"args": ({0: torch.export.Dim("batch", min=2, max=9)},)} if dynamic else None
    before, _ = return_writes(capture_program(Calls(CASES[name]), X, dynamic_shapes=shapes))
    after, rewrite = join_writes(before)
    assert rewrite is not None
    assert not {"aten.copy.default", "aten.slice_scatter.default"} & set(operators(after))
    check_rewrite(before, after, X)


def test_steps_stay() -> None:
    def every_second(x: torch.Tensor) -> torch.Tensor:
        made = x * 3
        made[:, ::2] = x[:, :3]
        return made

    before, _ = return_writes(capture_program(Calls(every_second), X))
    after, _ = join_writes(before)
    assert operators(after).count("aten.slice_scatter.default") == 1


def step_by_step(x: torch.Tensor) -> torch.Tensor:
    made = torch.zeros(2, 6, 5)
    for t in range(6):
        made[:, t] = x[:, t].tanh() * (t + 1)
    return made * 2


def from_the_step_before(x: torch.Tensor) -> torch.Tensor:
    made = x.new_zeros(2, 8, 5)
    made[:, 0] = x[:, 0]
    for t in range(1, 6):
        made[:, t] = made[:, t - 1] * 0.5 + x[:, t]
    made[:, -1:] = made[:, 2:3] - made[:, 3:4]
    return made[:, 1:]


def backwards_and_twice(x: torch.Tensor) -> torch.Tensor:
    made = x + 1
    for t in reversed(range(4)):
        made[..., t] = made[..., t + 1] + x[..., t]
        made[..., t] = made[..., t] * 2
    return made


def read_whole_between(x: torch.Tensor) -> torch.Tensor:
    made = torch.ones(2, 6, 5)
    for t in range(3):
        made[:, t] = x[:, t] + made.sum(1)
    return made


def along_two_dimensions(x: torch.Tensor) -> torch.Tensor:
    made = torch.ones(2, 6, 5)
    made[:, 0] = x[:, 0]
    made[:, :, 1] = x[:, :, 1]
    made[:, 1:3] = x[:, 2:4]
    made[:, 3] = x[:, 4]
    return made.exp()


def branches(x: torch.Tensor) -> torch.Tensor:
    made = torch.select_scatter(x, x[:, 0] * 2, 1, 1)
    one, other = torch.select_scatter(made, x[:, 2], 1, 3), torch.select_scatter(made, x[:, 3], 1, 4)
    return one * other + made[:, 1].unsqueeze(1)


STEPS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], int]] = {
    "step by step": (step_by_step, 1),
    "from the step before": (from_the_step_before, 1),
    "backwards and twice": (backwards_and_twice, 1),
    "read whole between": (read_whole_between, 3),
    "along two dimensions": (along_two_dimensions, 3),
    "branches": (branches, 3),
}


@pytest.mark.parametrize("case", STEPS)
def test_what_a_loop_writes_is_joined_once(case: str) -> None:
    function, joins = STEPS[case]
    before, _ = return_writes(capture_program(Calls(function), X))
    after, rewrite = join_steps(before)
    check_rewrite(before, after, X)
    assert rewrite is not None
    assert operators(after).count("aten.cat.default") == joins, operators(after)
    assert "aten.select_scatter.default" not in operators(after)
    assert join_steps(after) == (after, None)


def test_an_output_that_is_what_was_written_has_memory_of_its_own() -> None:
    def write_and_return(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        made = torch.zeros(2, 2, 6, 5)
        made[:, 0] = x
        made[:, 1] = x * 2
        return made[:, 0], made.sum(1)

    before, _ = return_writes(capture_program(Calls(write_and_return), X))
    after, _ = join_steps(before)
    check_rewrite(before, after, X)
    assert "aten.clone.default" in operators(after)


def test_one_slice_alone_is_left_to_join_writes() -> None:
    before, _ = return_writes(capture_program(Calls(lambda x: torch.slice_scatter(x, x[:, :2], 1, 2, 4)), X))
    assert join_steps(before) == (before, None)
