"""Scattered maxima, written in order of the values: the same as torch's, and in ExecuTorch's kernels."""

from __future__ import annotations

import pytest
import torch
from rewriting import Calls, capture_program, check_rewrite, operators, run_program

from benchmarks.operators.proof import prove
from edgex.export.rewrites.scattering.in_order import scatter_in_order

GENERATOR = torch.Generator().manual_seed(0)
EDGES = torch.randint(0, 40, (600,), generator=GENERATOR)
VALUES = torch.randn(600, 3, generator=GENERATOR)
START = torch.randn(50, 3, generator=GENERATOR)

CASES = {
    **{
        f"{reduce}{', and what was there' if own else ''}": lambda x, s, r=reduce, o=own: x.scatter_reduce(
            0, EDGES[:, None].expand(600, 3), s, r, include_self=o
        )
        for reduce in ("amax", "amin")
        for own in (False, True)
    },
    "along the last": lambda x, s: x.t().scatter_reduce(1, EDGES.expand(3, 600), s.t(), "amax"),
    "rows": lambda x, s: x.index_reduce(0, EDGES, s, "amin"),
}


@pytest.mark.parametrize("case", CASES)
def test_extremes_are_written_in_order(case):
    before = capture_program(Calls(CASES[case]), START, VALUES)
    after, rewrite = scatter_in_order(before)
    check_rewrite(before, after, START, VALUES)
    assert rewrite.count == 1
    assert {"aten.topk.default", "aten.scatter.src"} <= set(operators(after))


WIDE, WIDE_START = torch.randn(600, 4, 5, generator=GENERATOR), torch.randn(50, 4, 5, generator=GENERATOR)
ROWS = {
    **{
        f"{reduce}{', and what was there' if own else ''}": lambda x, s, r=reduce, o=own: x.scatter_reduce(
            0, EDGES[:, None, None].expand(600, 4, 5), s, r, include_self=o
        )
        for reduce in ("amax", "amin")
        for own in (False, True)
    },
    "along the second": lambda x, s: x.transpose(0, 1).scatter_reduce(
        1, EDGES[None, :, None].expand(4, 600, 5), s.transpose(0, 1), "amax"
    ),
    "like the values": lambda x, s: x.scatter_reduce(0, EDGES.view(-1, 1, 1).expand_as(s), s, "amax"),
    "rows": lambda x, s: x.index_reduce(0, EDGES, s, "amin", include_self=False),
    "of infinity": lambda x, s: x.scatter_reduce(0, EDGES[:, None, None].expand_as(s), s.log(), "amax"),
}


@pytest.mark.parametrize("case", ROWS)
def test_whole_rows_are_compared_in_order_of_their_places(case):
    args = WIDE_START, WIDE.abs().floor() if case == "of infinity" else WIDE
    before = capture_program(Calls(ROWS[case]), *args)
    after, rewrite = scatter_in_order(before)
    check_rewrite(before, after, *args)
    assert rewrite.count == 1
    assert "aten.scatter.src" not in operators(after) and "aten.maximum.default" in operators(after)


@pytest.mark.parametrize("reduce", ["amax", "amin"])
def test_what_is_no_number_wins(reduce):
    def spread(x, s):
        return x.scatter_reduce(0, torch.tensor([0, 0, 0, 1]), s, reduce)

    args = torch.ones(2), torch.tensor([0.5, torch.nan, 0.25, 2.0])
    after, _ = scatter_in_order(capture_program(Calls(spread), *args))
    (found,) = run_program(after, *args)
    torch.testing.assert_close(found, spread(*args), equal_nan=True)


def test_sums_are_left_alone():
    program = capture_program(
        Calls(lambda x, s: x.scatter_reduce(0, EDGES[:, None].expand(600, 3), s, "sum")), START, VALUES
    )
    assert scatter_in_order(program) == (program, None)


@pytest.mark.parametrize("target", ["xnnpack", "onednn"])
@pytest.mark.parametrize("heads", [2, 8])
def test_softmax_over_the_edges_of_a_graph_is_exported(target, heads):
    def softmax(scores, places):
        index = places[:, None].expand_as(scores)
        most = torch.full((50, heads), -torch.inf).scatter_reduce(0, index, scores, "amax")
        raised = (scores - most[places]).exp()
        return raised / torch.zeros(50, heads).scatter_add(0, index, raised)[places]

    proved = prove(Calls(softmax), (torch.randn(600, heads, generator=GENERATOR), EDGES), target)
    assert proved.exit_code == 0, proved.reason
    assert "scatter_in_order" in proved.rewrites
