"""Rows that are read and written at a tensor without dimensions: as in eager, and without numbers that a run finds."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from rewriting import operators
from torch import nn

from edgex.delegates.graph.schema import operator_name
from edgex.export.capture.program import Capture, capture

X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))


class Table(nn.Module):
    def __init__(self, forward):
        super().__init__()
        self.register_buffer("table", torch.arange(40.0).view(10, 4))
        self.layer = nn.Linear(4, 4)
        self._forward = forward

    def forward(self, x, t):
        return self.layer(x) + self._forward(self, x, t)


def _capture(forward) -> Capture:
    return capture(Table(forward), (X, torch.tensor(3)), source_root=Path(__file__).parent)


def _check(captured: Capture) -> None:
    """Eager's numbers, also elsewhere than at the example's index; and no number that a run finds."""
    program, model = captured.program.exported, captured.eager.module
    for t in (0, 5, 9):
        inputs = X, torch.tensor(t)
        torch.testing.assert_close(program.module()(*inputs)[0], model(*inputs))
    numbers = [node for node in program.graph.nodes if operator_name(node) == "aten::item"]
    assert not [user for number in numbers for user in number.users if operator_name(user) == "aten::select"]


@pytest.mark.parametrize(
    "read",
    [
        lambda self, x, t: self.table[t],
        lambda self, x, t: self.table[t, 1:3].sum(),
        lambda self, x, t: self.table[:, t % 4].sum(),
        lambda self, x, t: self.table[..., t % 4, None].mean(),
        lambda self, x, t: self.table[t - 10],
        lambda self, x, t: self.table.select(0, t.item()),
        lambda self, x, t: x[x[:, 0].argmax()],
    ],
    ids=["row", "part", "column", "new", "negative", "item", "argmax"],
)
def test_reads(read):
    _check(_capture(read))


def _row(self, x, t):
    y = torch.zeros(10, 4)
    y[t] = x[0]
    y[t, 1:3] = 2.0
    y[:, t % 4] += 1.0
    return y.sum(0)


def _parts(self, x, t):
    y = torch.zeros(2, 10, 3, 4)
    y[..., t, :, 1:3] = x[:, 1:3]
    y[1, None, t] = 2
    y[:, t - 2, t % 3] = x[:1].double()
    return y.sum((0, 1))


def _rows(self, x, t):
    y = torch.zeros(2, 16, 4)
    y[:, t : t + 3] = x
    y[1, t + 3 : t + 6] = x[None] * 2
    return y.cumsum(1).sum((0, 1))


def _views(self, x, t):
    y = torch.zeros(10, 4)
    before = y[t]
    y[t].add_(x[0])
    after = y[t]
    y[t] = after * 2
    return before + after


def _sequences(self, x, t):
    y = torch.zeros(10, 4)
    y[(t, t - 1), :2] = 2.0
    y[[t, 0], (t % 4, 3)] += x[0, :2]
    return y.sum(0)


@pytest.mark.parametrize("write", [_row, _parts, _rows, _views, _sequences])
def test_writes(write):
    captured = _capture(write)
    _check(captured)
    assert "index_put_" in " ".join(operators(captured.program))


def test_a_row_may_be_an_output():
    class Row(nn.Module):
        def forward(self, table, t):
            return table[t], table * 2, table[:, t]

    captured = capture(Row().eval(), (torch.arange(9.0).view(3, 3), torch.tensor(1)), source_root=Path(__file__).parent)
    program, table = captured.program.exported.module(), torch.arange(9.0).view(3, 3)
    for t in range(3):
        for found, expected in zip(program(table, torch.tensor(t)), (table[t], table * 2, table[:, t]), strict=True):
            assert torch.equal(found, expected)


def test_what_python_turns_into_a_number_is_captured_too():
    def write(self, x, t):
        y = torch.zeros(10, 4)
        y[int(t)] = x[0]
        return y.sum(0)

    captured = _capture(write)
    assert captured.strict
    _check(captured)


def test_a_slice_of_one_row_or_of_unknown_length_is_left_to_torch():
    def write(self, x, t):
        y = torch.zeros(10, 4)
        y[t : t + 1] = x[:1]
        return y.sum(0)

    captured = _capture(write)
    inputs = X, torch.tensor(5)
    torch.testing.assert_close(captured.program.exported.module()(*inputs)[0], captured.eager.module(*inputs))


def test_sequences_of_numbers_that_a_run_finds_are_stacked():
    def read(self, x, t):
        rows = x[(t % 3, 0), :] + x[tuple(torch.stack([t, t + 1]) % 3), :]
        return rows.sum(0) * torch.as_tensor([x[0, 0], 1.0, t, 2]) + torch.as_tensor([t, 1, 2, 3], dtype=torch.float32)

    captured = _capture(read)
    assert not captured.strict
    _check(captured)
