"""What numbers choose, as rows of a matrix: the same as torch's, and copied whole by ExecuTorch's kernels."""

from __future__ import annotations

import pytest
import torch
from rewriting import Calls, capture_program, check_rewrite, operators, run_program

from benchmarks.operators.proof import prove
from edgex.export.rewrites.scattering.rows import add_elements, add_rows, choose_rows

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(2, 3, 5, 7, generator=GENERATOR)
ROWS = torch.randn(9, 7, generator=GENERATOR)


def numbers(*shape: int, below: int, least: int = 0) -> torch.Tensor:
    return torch.randint(least, below, shape, generator=GENERATOR)


INDEX, PUT, GATHER = "aten.index.Tensor", "aten.index_put.default", "aten.gather.default"
CASES = {
    "several dimensions of numbers": (lambda x, i: x[:, :, i], X, numbers(4, 6, below=5, least=-5)),
    "two, one behind the other": (lambda x, i: x[:, i, i.T % 5], X, numbers(3, 3, below=3)),
    "repeated to each other": (lambda x, i: x[torch.arange(2)[:, None], i], X, numbers(2, 4, below=3, least=-3)),
    "all but one": (lambda x, i: x.mT[i, i, i], torch.randn(2, 3, 9, 4), numbers(4, below=2)),
    "of a repeated tensor": (
        lambda x, i: x.unsqueeze(1).expand(-1, 6, -1, -1, -1)[:, torch.arange(6)[:, None], i],
        X,
        numbers(6, 2, below=3),
    ),
    "of permuted": (lambda x, i: x.transpose(1, 2)[:, i, i], X, numbers(2, 3, below=3)),
    "gather": (lambda x, i: x[0].gather(1, i.expand(3, 4, 7)), X, numbers(1, 4, 1, below=5)),
    "gather of a part": (lambda x, i: x.gather(2, i.expand(1, 1, 4, 6)), X, numbers(1, 1, 4, 1, below=5)),
    "gather of several matrices": (lambda x, i: x.gather(2, i.expand(-1, -1, -1, 7)), X, numbers(2, 3, 4, 1, below=5)),
    "gather of the same rows of each": (lambda x, i: x.gather(2, i.expand(2, 3, 4, 7)), X, numbers(4, 1, below=5)),
    "of a tensor that is repeated twice": (
        lambda x, i: x.expand(4, 9).expand(3, 4, 9)[i, i],
        *(torch.randn(1, 9), torch.tensor([[0, 1], [2, -3]])),
    ),
    "of a repeated dimension alone": (
        lambda x, i: x[:, None].expand(-1, 6, -1)[:, i],
        *(torch.randn(4, 9), numbers(2, 5, below=6)),
    ),
    "of a repeated part": (
        lambda x, i: x[:, None].expand(-1, 6, -1).unsqueeze(0).expand(3, 4, 6, 9)[i, i, i],
        *(torch.randn(4, 9), numbers(5, below=3)),
    ),
    "gather along the first": (lambda x, i: x.gather(0, i.expand(4, 3, 5, 7)), X, numbers(4, 1, 1, 1, below=2)),
    "put": (
        lambda x, i, s: x.clone().index_put((torch.arange(2)[:, None], i), s),
        *(X, torch.tensor([[0, 2], [1, -1]]), torch.randn(2, 2, 5, 7, generator=GENERATOR)),
    ),
    "put a repeated row behind another dimension": (
        lambda x, i, s: x.clone().index_put((torch.tensor([[0], [1]]), i), s),
        *(X, torch.tensor([[0, 2], [1, -1]]), torch.randn(7, generator=GENERATOR)),
    ),
    "sums": (
        lambda x, i, s: x.index_put((i % 2, i), s, accumulate=True),
        *(X, numbers(8, below=3), torch.randn(8, 5, 7, generator=GENERATOR)),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_rows_are_chosen(case):
    function, *args = CASES[case]
    before = capture_program(Calls(function), *args)
    after, rewrite = choose_rows(before)
    assert rewrite.count == 1
    check_rewrite(before, after, *args)
    chosen = [node for node in after.exported.graph.nodes if str(node.target) in (INDEX, PUT, GATHER)]
    for node in chosen:
        assert str(node.target) != GATHER
        assert [index.meta["val"].dim() for index in node.args[1] if index is not None] == [1]


LEFT = {
    "one element of each row": (lambda x, i: x[:, :, i, i], X[:1, :1], numbers(4, below=5)),
    "a few rows of a large tensor": (lambda x, i: x[i, i], torch.randn(9, 90, 8), numbers(2, below=9)),
    "a cache that is written in place": (
        lambda x, i: x.index_put((torch.arange(2)[:, None], i), x.new_ones(5, 7)),
        *(X, torch.tensor([[0], [1]])),
    ),
    "gather of the last of each": (
        lambda x, i: x.gather(1, i.expand(3, 1, 7)),
        *(torch.randn(3, 9, 7), numbers(3, 1, 1, below=9)),
    ),
    "gather with an example that repeats its numbers": (
        lambda x, i: x.gather(0, i),
        *(ROWS, numbers(4, 1, below=9).expand(4, 7)),
    ),
    "a number a row": (lambda x, i: x[:, :, i], X, numbers(4, below=5)),
    "dimensions apart": (lambda x, i: x[i, :, i], X, numbers(4, below=2)),
    "a mask": (lambda x, i: x[0, 0].index_put((x[0, 0] > 0,), i.float().sum()), X, numbers(1, below=2)),
    "gather with numbers of their own": (lambda x, i: x.gather(1, i), X, numbers(2, 3, 5, 7, below=3)),
}


@pytest.mark.parametrize("case", LEFT)
def test_others_are_left_alone(case):
    function, *args = LEFT[case]
    program = capture_program(Calls(function), *args)
    assert choose_rows(program) == (program, None)


def test_a_size_that_only_a_run_knows_is_left_alone():
    shapes = {"args": ({0: torch.export.Dim("rows", min=2, max=30)}, {})}
    program = capture_program(Calls(lambda x, i: x[i, i]), ROWS, numbers(4, below=7), dynamic_shapes=shapes)
    assert choose_rows(program) == (program, None)


ROW, TOKEN = torch.export.Dim("row", min=2, max=30), torch.export.Dim("token", min=1, max=20)
VARYING = {
    "experts of every token": (
        lambda w, i: w[i],
        torch.randn(8, 5, 7),
        numbers(3, 2, below=8, least=-8),
        {},
        {0: TOKEN},
    ),
    "tokens of every text": (lambda x, i: x[i], ROWS, numbers(4, 6, below=9, least=-9), {}, {0: TOKEN, 1: ROW}),
    "of rows that vary, along another dimension": (
        lambda x, i: x[:, i],
        *(torch.randn(6, 9, 4), numbers(4, 2, below=9), {0: ROW}, {0: TOKEN}),
    ),
}


@pytest.mark.parametrize("case", VARYING)
def test_rows_are_chosen_where_their_number_varies(case):
    function, x, index, *shapes = VARYING[case]
    before = capture_program(Calls(function), x, index, dynamic_shapes={"args": tuple(shapes)})
    after, rewrite = choose_rows(before)
    assert rewrite.count == 1
    (chosen,) = [node for node in after.exported.graph.nodes if str(node.target) == INDEX]
    assert [number.meta["val"].dim() for number in chosen.args[1] if number is not None] == [1]
    more = torch.cat([index] * 4)
    for args in ((x, index), (x, more), (x[:, :9] if shapes[0] else x, index)):
        assert torch.equal(run_program(after, *args)[0], function(*args))


@pytest.mark.parametrize("target", ["xnnpack", "onednn"])
def test_experts_chosen_for_every_token_are_read_whole(target):
    def mix(x, weights):
        chosen = torch.topk(x[:, :8], 2).indices - 8
        return torch.einsum("nd,nkfd->nkf", x, weights[chosen]).sum(1)

    args = torch.randn(5, 16, generator=GENERATOR), torch.randn(8, 6, 16, generator=GENERATOR)
    proved = prove(Calls(mix), args, target, dynamic_shapes={"args": ({0: TOKEN}, {})})
    assert proved.exit_code == 0, proved.reason
    assert "choose_rows" in proved.rewrites


def test_reading_element_by_element_is_named():
    args = torch.randn(400, 300, generator=GENERATOR), numbers(400, 300, below=300)
    proved = prove(Calls(lambda x, i: x[i % 400, i] * 2), args, "xnnpack")
    assert proved.exit_code == 0, proved.reason
    (warning,) = [text for text in proved.warnings if "computes the place of each" in text]
    assert "aten.index.Tensor at " in warning
    assert "120,000" in warning


@pytest.mark.parametrize("number", [5, -6, 1 << 40])
def test_an_outside_number_is_refused_and_not_another_row(number):
    """As one number it would name a row of the next matrix."""
    args = X[0], torch.tensor([0, 1]), torch.tensor([0, 1])
    after, _ = choose_rows(capture_program(Calls(lambda x, i, j: x[i, j]), *args))
    with pytest.raises((IndexError, RuntimeError), match=r"out of (range|bounds)"):
        run_program(after, args[0], args[1], torch.tensor([0, number]))


SUMS = {
    "index_add": (lambda x, i, s: x.index_add(0, i, s), ROWS, numbers(20, below=9), torch.randn(20, 7)),
    "index_add of a multiple": (
        lambda x, i, s: x.index_add(1, i, s, alpha=2),
        *(ROWS, numbers(20, below=7), torch.randn(9, 20)),
    ),
    "index_put": (
        lambda x, i, s: x.index_put((i,), s, accumulate=True),
        *(ROWS, numbers(20, below=9, least=-9), torch.randn(20, 7)),
    ),
    "index_put of a repeated row": (
        lambda x, i, s: x.index_put((i,), s, accumulate=True),
        *(ROWS, numbers(20, below=9), torch.randn(7)),
    ),
}


@pytest.mark.parametrize("case", SUMS)
def test_sums_of_rows_become_sums_of_elements(case):
    function, *args = SUMS[case]
    before = capture_program(Calls(function), *args)
    after, rewrite = add_elements(before)
    assert rewrite.count == 1
    check_rewrite(before, after, *args)
    assert "aten.scatter_add.default" in operators(after)


@pytest.mark.parametrize("number", [9, -10, -19])
def test_a_sum_at_an_outside_place_is_refused(number):
    """ONNX counts from the end, too: once wrapped, it would be a place again."""
    function, x, index, rows = SUMS["index_put"]
    after, _ = add_elements(capture_program(Calls(function), x, index, rows))
    outside = torch.where(torch.arange(20) == 3, number, index)
    with pytest.raises((IndexError, RuntimeError), match=r"out of (range|bounds)"):
        run_program(after, x, outside, rows)


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("number", [-1, 9])
def test_a_scattered_sum_that_eager_refuses_is_refused(batch, number):
    """Sums of rows count from the end."""
    args = torch.randn(batch, 9, 7), numbers(batch, 20, 1, below=9), torch.randn(batch, 20, 7)
    after, _ = add_rows(capture_program(Calls(lambda x, i, s: x.scatter_add(1, i.expand(-1, -1, 7), s)), *args))
    args[1][0, 3] = number
    with pytest.raises((IndexError, RuntimeError), match=r"out of (range|bounds)"):
        run_program(after, *args)


def test_sums_of_integers_are_left_alone():
    args = torch.zeros(9, 7, dtype=torch.int64), numbers(20, 1, below=9), numbers(20, 7, below=5)
    program = capture_program(Calls(lambda x, i, s: x.scatter_add(0, i.expand(-1, 7), s)), *args)
    assert add_rows(program) == (program, None)


def test_rows_that_replace_others_are_no_sums():
    args = ROWS, torch.tensor([2, 4]), ROWS[:2] * 2
    program = capture_program(Calls(lambda x, i, s: x.index_put((i,), s)), *args)
    assert add_elements(program) == (program, None)


@pytest.mark.parametrize("batch", [1, 3])
def test_sums_of_elements_become_sums_of_rows(batch):
    args = torch.randn(batch, 9, 7), numbers(batch, 20, 1, below=9), torch.randn(batch, 20, 7)
    before = capture_program(Calls(lambda x, i, s: x.scatter_add(1, i.expand(-1, -1, 7), s)), *args)
    after, rewrite = add_rows(before)
    assert rewrite.count == 1
    check_rewrite(before, after, *args)
    assert "aten.scatter_add.default" not in operators(after)


@pytest.mark.parametrize("target", ["xnnpack", "onednn"])
def test_messages_along_the_edges_of_a_graph_are_exported(target):
    def messages(x, edges):
        sent = x[edges[0]] * torch.sigmoid(x[edges[1]])
        total = torch.zeros_like(x).index_add(0, edges[1], sent)
        near = x[edges.reshape(2, 10, 6)].amax(2)
        return total.scatter_add(0, edges[0][:, None].expand(-1, 16), sent), near

    args = torch.randn(20, 16, generator=GENERATOR), numbers(2, 60, below=20)
    proved = prove(Calls(messages), args, target)
    assert proved.exit_code == 0, proved.reason
    assert {"choose_rows", "add_rows" if target == "onednn" else "add_elements"} <= set(proved.rewrites)


def test_no_sum_is_lost_between_threads():
    """ONNX Runtime adds rows on several: 6,000 to 12 places had 30 dB."""
    args = torch.zeros(12, 96), numbers(6000, below=12), torch.randn(6000, 96, generator=GENERATOR)
    proved = prove(Calls(lambda x, i, s: torch.tanh(x.index_add(0, i, s) * 0.01)), args, "onnx-cpu")
    assert proved.exit_code == 0, proved.reason
    assert "add_elements" in proved.rewrites
