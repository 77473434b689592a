"""Steps that show a state: the example again, integers that count up to it, or a skipped case that says so."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from benchmarks.operators.proof import prove
from edgex.export.proof.sequences import STATE_NOT_SHOWN, make_sequence_case
from edgex.runtime.artifact.golden import Step

TOKENS = np.array([5, 6], np.int64)


class Memory:
    """Eager in miniature: a table of what was written where."""

    def __init__(self, update):
        self._update = update
        self.runs = []

    def __call__(self, inputs, fresh):
        if fresh:
            self.table = np.zeros(10, np.float32)
        self.runs.append(inputs)
        return Step(inputs, {"y": self._update(self.table, **inputs)})


def test_the_example_is_repeated_where_that_shows_the_state():
    def add(table, x):
        table[0] += x.sum()
        return table.copy()

    x = np.ones(3, np.float32)
    case = make_sequence_case(Memory(add), (), {"x": x})
    assert (case.kind, len(case.steps)) == ("compare", 4)
    assert all(step.inputs["x"] is x for step in case.steps)


def test_a_place_counts_up_to_the_examples():
    def write(table, x, at):
        table[at] = x[0]
        return table.copy()

    case = make_sequence_case(Memory(write), (), {"x": np.arange(4, dtype=np.float32), "at": np.array(7)})
    assert [int(step.inputs["at"]) for step in case.steps] == [4, 5, 6, 7]
    np.testing.assert_array_equal(case.steps[-1].inputs["x"], np.arange(4, dtype=np.float32))
    assert case.steps[-1].outputs["y"][4:].tolist() == [3, 2, 1, 0, 0, 0]  # what was turned last is first


def test_places_that_come_several_at_a_time_count_by_as_many():
    def write(table, at):
        if at[0] % 2:
            raise IndexError("places begin at even numbers")
        table[at] = at
        return table.copy()

    case = make_sequence_case(Memory(write), (), {"at": np.array([6, 7])})
    assert [step.inputs["at"].tolist() for step in case.steps] == [[0, 1], [2, 3], [4, 5], [6, 7]]


@pytest.mark.parametrize("given", [[], [{"x": np.ones(2, np.float32)}]], ids=["nothing given", "given steps"])
def test_no_state_is_said(given):
    case = make_sequence_case(Memory(lambda table, x: x * 2), given, {"x": np.ones(2, np.float32)})
    assert (case.kind, case.reason) == ("skipped", STATE_NOT_SHOWN)


class Cache(nn.Module):
    """A decoder's cache, written at a place that is an input."""

    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(1, 16, 8))
        self.layer = nn.Linear(8, 8)

    def forward(self, x, place):
        self.cache[:, place] = self.layer(x)
        seen = torch.arange(16) <= place
        scores = (self.cache @ x.transpose(0, 1)).squeeze(-1).masked_fill(~seen, -torch.inf)
        return torch.softmax(scores, -1) @ self.cache[0]


@pytest.mark.parametrize("target", ["xnnpack", "onnx-cpu", "onednn"])
def test_a_cache_written_at_an_input_is_proved(target):
    proved = prove(Cache(), (torch.randn(1, 8), torch.tensor(9)), target)
    assert proved.exit_code == 0, proved.reason
    assert any(case["name"].startswith("state: 4 steps in a row") for case in proved.verification["cases"])
