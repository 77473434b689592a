"""Refusals name ways out that are true, and what the exporter need not do again is spared."""

import pytest
import torch
from torch import nn

from edgex.delegates.graph.decomposition import spare_decompositions
from edgex.delegates.other_targets import name_other_targets


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        return torch.relu(self.linear(x))


class Writes(Plain):
    def forward(self, x):
        return self.linear(x).add_(1)


class Counts(Plain):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        self.count.add_(1)
        return self.linear(x) + self.count


class Trains(nn.Module):
    def forward(self, x):
        return nn.functional.batch_norm(x, torch.zeros(3), torch.ones(3), training=True)


class Branches(Plain):
    def forward(self, x):
        return torch.cond(x.sum() > 0, torch.relu, torch.neg, (self.linear(x),))


def export(model):
    return torch.export.export(model.eval(), (torch.rand(2, 3),))


def test_operators_of_the_users_own_run_nowhere():
    text = name_other_targets(["aten.relu.default", "mine.twice.default"], "xnnpack,reference")
    assert "mine.twice.default" in text
    assert "--target" not in text
    assert "edgex why" not in text
    assert "edgex why MODEL -t xnnpack,reference" in name_other_targets(["aten.sort.default"], "xnnpack,reference")


def test_a_program_without_writes_is_functional_already():
    program = export(Plain())
    spared = spare_decompositions(program)
    assert spared.run_decompositions({}) is spared
    decomposed = spared.run_decompositions(torch.export.default_decompositions())
    assert torch.ops.aten.linear.default not in {node.target for node in decomposed.graph.nodes}
    assert decomposed.run_decompositions(torch.export.default_decompositions()) is decomposed
    assert torch.ops.aten.linear.default in {node.target for node in program.graph.nodes}, "it is not changed"
    x = torch.rand(2, 3)
    assert torch.allclose(decomposed.module()(x), program.module()(x))


@pytest.mark.parametrize("model", [Writes, Counts, Trains, Branches])
def test_a_program_that_may_write_is_made_functional(model):
    spared = spare_decompositions(export(model()))
    assert spared.run_decompositions({}) is not spared


def test_what_was_kept_in_vain_is_taken_apart():
    spared = spare_decompositions(export(Plain()))
    table = torch.export.default_decompositions()
    table.pop(torch.ops.aten.linear.default)
    kept = spared.run_decompositions(table)
    assert torch.ops.aten.linear.default in {node.target for node in kept.graph.nodes}
    full = kept.run_decompositions(torch.export.default_decompositions())
    assert full is not kept
    assert torch.ops.aten.linear.default not in {node.target for node in full.graph.nodes}


def test_the_first_decomposition_is_a_real_one():
    """What the exporter edits afterwards must not be the program that it was given."""

    class Relu(nn.Module):
        def forward(self, x):
            return torch.relu(x)

    program = export(Relu())
    spared = spare_decompositions(program)
    decomposed = spared.run_decompositions({}).run_decompositions(torch.export.default_decompositions())
    assert decomposed.graph is not program.graph
