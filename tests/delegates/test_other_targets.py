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


def _main(a):
    """A few steps to the largest singular value."""
    v = torch.ones(3) / 3**0.5
    for _ in range(60):
        v = nn.functional.normalize(a.mT @ (a @ v), dim=0)
    return (a @ v).norm()


def test_operators_without_a_rewrite_have_advice_that_is_right():
    for operator in ("aten._linalg_svd.default", "aten.linalg_qr.default", "aten.linalg_pinv.atol_rtol_tensor"):
        fix = name_other_targets([operator], "onnx-cpu")
        assert "keep the result in a buffer" in fix and "edgex why MODEL -t onnx-cpu" in fix
    assert "edgex why" not in name_other_targets(["torchvision.roi_pool.default"], "onnx-cpu")
    a = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(_main(a), torch.linalg.svdvals(a)[0])
    torch.testing.assert_close(torch.linalg.solve(a.mT @ a, a.mT), torch.linalg.pinv(a), rtol=1e-3, atol=1e-4)
    small = a[:3] / 50
    powers = torch.eye(3) + small + small @ small / 2
    torch.testing.assert_close(powers, torch.linalg.matrix_exp(small), rtol=1e-3, atol=1e-4)
    ids = torch.tensor([3, 1, 1, 0, 3])
    assert (ids[:, None] == torch.arange(4)).sum(0).count_nonzero() == len(ids.unique())
