"""What masks and numbers choose, which the backend does by itself: every form against eager."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from onednn_support import Network, capture, check, load, lower, needs_onednn, random
from torch import nn

from edgex.errors import RunError

pytestmark = needs_onednn
Function = Callable[..., torch.Tensor]


def numbers(*shape: int, below: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.randint(0, below, shape, generator=torch.Generator().manual_seed(1)).to(dtype)


X, Y, MASK = random(2, 3, 7, 19), random(2, 3, 7, 19, seed=1), random(2, 3, 7, 19, seed=2) > 0
WHERES: dict[str, tuple[Function, tuple[torch.Tensor, ...]]] = {
    "two_tensors": (torch.where, (MASK, X, Y)),
    "a_number_left": (lambda m, x: torch.where(m, 0.5, x), (MASK, X)),
    "a_number_right": (lambda m, x: torch.where(m, x, -2.0), (MASK, X)),
    "filled": (lambda m, x: x.masked_fill(m, -7.0), (MASK[:, :1, :1], X)),
    "a_mask_of_rows": (torch.where, (MASK[:, :, :, :1], X, Y)),
    "repeated_tensors": (torch.where, (MASK, X[:1, :, :1], Y[..., :1])),
    "repeated_mask_and_right": (torch.where, (MASK[0, 0], X, Y[0, 0, 0])),
    "permuted": (
        lambda m, x, y: torch.where(m, x.transpose(1, 2).exp(), y.transpose(1, 2)),
        (random(2, 7, 3, 19, seed=3) > 0, X, Y),
    ),
}


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", WHERES)
def test_every_form_of_where(name: str, precision: str) -> None:
    function, inputs = WHERES[name]
    dense = [x.contiguous() for x in inputs]
    lowered = check(Network(lambda *x: function(*x) * 2), *dense, precision=precision)
    assert lowered.plan.delegate_calls == 1


def test_special_values_on_either_side() -> None:
    """None is computed with: what is not chosen leaves no trace, and what is stays as it was."""
    left, right = torch.full((3, 40), float("nan")), torch.full((40,), float("-inf"))
    mask = numbers(3, 40, below=2) == 1
    with load(lower(capture(Network(torch.where), [mask, left, right]))) as loaded:
        (found,) = loaded(mask, left, right)
    assert torch.equal(found.isnan(), mask)
    assert torch.equal(found == float("-inf"), ~mask)


def test_a_constant_mask() -> None:
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mask", torch.ones(9, 9).tril().bool())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.where(self.mask, x @ x.mT, -1.0) * 0.5

    check(Masked(), random(2, 9, 9))


def test_enough_elements_for_several_threads() -> None:
    mask, x, number = random(300, 1, seed=2) > 0, random(300, 257), numbers(300, 200, below=257)
    check(Network(lambda m, x, i: (torch.where(m, x, 0.5), torch.gather(x, 1, i))), mask, x, number)


GATHERS: dict[str, tuple[Function, tuple[torch.Tensor, ...]]] = {
    "last": (lambda x, i: x.gather(-1, i), (X, numbers(2, 3, 7, 11, below=19))),
    "middle": (lambda x, i: x.gather(1, i), (X, numbers(2, 5, 7, 19, below=3))),
    "first": (lambda x, i: x.gather(0, i), (X[0, 0], numbers(9, 19, below=7))),
    "fewer_rows": (lambda x, i: x.gather(2, i), (X, numbers(1, 2, 30, 8, below=7))),
    "repeated_numbers": (lambda x, i: x.gather(-1, i.expand(2, 3, 7, 7)), (X, numbers(1, 1, 7, 7, below=19))),
    "of_permuted": (lambda x, i: x.exp().mT.gather(-1, i), (X, numbers(2, 3, 19, 4, below=7))),
    "one_dimension": (lambda x, i: x.gather(0, i), (X[0, 0, 0], numbers(5, below=19))),
}


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", GATHERS)
def test_every_form_of_gather(name: str, precision: str) -> None:
    function, inputs = GATHERS[name]
    outside = {"repeated_numbers": 1}.get(name, 0)  # integers are repeated by ExecuTorch
    dense = [x.contiguous() for x in inputs]
    check(Network(lambda *x: function(*x) * 2), *dense, precision=precision, left=outside)


@pytest.mark.parametrize("number", [19, -1, 1 << 40])
def test_a_number_outside_is_refused(number: int) -> None:
    function, (x, good) = GATHERS["last"]
    bad = good.clone()
    bad[1, 2, 3, 4] = number
    with load(lower(capture(Network(function), [x, good]))) as loaded:
        with pytest.raises(RunError):
            loaded(x, bad)
        assert torch.equal(loaded(x, good)[0], function(x, good))


def test_sizes_known_only_when_it_runs() -> None:
    shapes = {"inputs": ({0: torch.export.Dim("rows", min=2, max=64)},) * 3}
    cases = [(random(rows, 1, seed=rows) > 0, random(rows, 8), numbers(rows, 3, below=8)) for rows in (5, 2, 40)]
    network = Network(lambda m, x, i: (torch.where(m, x, x.exp()), x.gather(1, i)))
    check(network, *cases[0], shapes=shapes, more=cases[1:])
