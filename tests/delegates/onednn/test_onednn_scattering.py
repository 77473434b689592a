"""What numbers add at its place, which the backend does by itself: every form against eager."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from onednn_support import Network, capture, check, load, lower, needs_onednn, random

from edgex.errors import RunError

pytestmark = needs_onednn
Function = Callable[..., torch.Tensor]


def numbers(*shape: int, below: int, least: int = 0) -> torch.Tensor:
    return torch.randint(least, below, shape, generator=torch.Generator().manual_seed(1))


X, ROWS = random(7, 19), random(40, 19, seed=1)
IMAGE, PARTS = random(2, 3, 7, 19), random(2, 3, 11, 19, seed=1)
CASES: dict[str, tuple[Function, tuple[torch.Tensor, ...]]] = {
    "rows": (lambda x, s, i: x.index_add(0, i, s), (X, ROWS, numbers(40, below=7))),
    "rows_from_the_end": (
        lambda x, s, i: x.index_put((i,), s, accumulate=True),
        (X, ROWS, numbers(40, below=7, least=-7)),
    ),
    "along_a_middle_dimension": (lambda x, s, i: x.index_add(2, i, s), (IMAGE, PARTS, numbers(11, below=7))),
    "along_the_last": (lambda x, s, i: x.index_add(1, i, s), (X, random(7, 5), numbers(5, below=19))),
    "of_one_dimension": (lambda x, s, i: x.index_add(0, i, s), (X[0], ROWS[:, 0], numbers(40, below=19))),
    "of_permuted": (
        lambda x, s, i: x.exp().mT.index_add(0, i, s.exp().mT),
        (random(19, 7), random(19, 40, seed=1), numbers(40, below=7)),
    ),
    "elements": (lambda x, s, i: x.scatter_add(0, i, s), (X, ROWS, numbers(40, 19, below=7))),
    "elements_of_a_part": (
        lambda x, s, i: x.scatter_add(1, i, s),
        (IMAGE, random(1, 9, 6, 18, seed=1), numbers(1, 9, 6, 18, below=3)),
    ),
    "elements_along_the_last": (lambda x, s, i: x.scatter_add(-1, i, s), (X, random(7, 30), numbers(7, 30, below=19))),
    "repeated_elements": (
        lambda x, s, i: x.scatter_add(0, i, s.expand(40, 19)),
        (X, random(1, 19, seed=1), numbers(40, 19, below=7)),
    ),
}


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", CASES)
def test_every_form(name: str, precision: str) -> None:
    function, inputs = CASES[name]
    lowered = check(Network(lambda *x: function(*x) * 2), *[x.contiguous() for x in inputs], precision=precision)
    assert lowered.plan.delegate_calls == 1


def test_rows_for_several_threads_come_in_their_order() -> None:
    """Sums of float32 depend on it: they are those of one thread, to the last bit."""
    x, rows, index = random(50, 64), random(4000, 64, seed=1) * 1e4, numbers(4000, below=50)
    wanted = x.clone()
    for place, row in zip(index.tolist(), rows, strict=True):
        wanted[place] += row
    network = Network(lambda x, rows, i: x.index_add(0, i, rows))
    for threads in (1, 4):
        with load(lower(capture(network, [x, rows, index])), threads=threads) as loaded:
            assert torch.equal(loaded(x, rows, index)[0], wanted)


@pytest.mark.parametrize(("name", "number"), [("rows", 7), ("rows", -8), ("elements", 7), ("elements", -1)])
def test_a_place_that_is_not_there_is_refused(name: str, number: int) -> None:
    function, (x, source, good) = CASES[name]
    bad = good.clone()
    bad.view(-1)[3] = number
    with load(lower(capture(Network(function), [x, source, good]))) as loaded:
        with pytest.raises(RunError):
            loaded(x, source, bad)
        torch.testing.assert_close(loaded(x, source, good)[0], function(x, source, good))


def test_sizes_known_only_when_it_runs() -> None:
    dims = {0: torch.export.Dim("edges", min=2, max=64)}
    cases = [(X, random(edges, 19, seed=edges), numbers(edges, below=7)) for edges in (5, 2, 40)]
    network = Network(lambda x, s, i: x.index_add(0, i, s.exp()))
    check(network, *cases[0], shapes={"inputs": ({}, dims, dims)}, more=cases[1:])


@pytest.mark.parametrize("accumulate", [True, False])
def test_what_is_repeated_or_replaced_stays_with_executorch(accumulate: bool) -> None:
    """It writes in place, where a region would copy: caches are written so."""
    rows = ROWS[0] if accumulate else ROWS[:5]
    network = Network(lambda x, s, i: (x * 2).index_put((i,), s, accumulate=accumulate))
    check(network, X, rows, torch.tensor([3, -7, 2, 6, 5]), left=1)
