"""Each kind of operator decomposed once: the same program as when all of them are."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from edgex.delegates.graph.decomposition import spare_decompositions
from edgex.delegates.graph.kinds import decompose_kinds


class Block(nn.Module):
    """Operators with several results, views, numbers, casts, no-ops, and one that reads a tensor twice."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.drop, self.head = nn.Dropout(), nn.Linear(8, 8)

    def forward(self, x):
        x = self.drop(torch.relu(self.norm(self.conv(x))) * 0.5 + 1)
        low, high = x.split(2, 1)
        x = torch.cat([high, low + low], 1).to(torch.float64).to(torch.float32)
        value, _ = x.max(-1, keepdim=True)
        return nn.functional.gelu(self.head(x.flatten(2).reshape(x.shape))) - value


class Net(nn.Module):
    def __init__(self, blocks=3):
        super().__init__()
        self.blocks = nn.Sequential(*(Block() for _ in range(blocks)))
        self.register_buffer("scale", torch.full((8,), 2.0))

    def forward(self, x, y):
        x = self.blocks(x) * self.scale
        return {"sum": x + y, "same": y, "pooled": nn.functional.max_pool2d(x, 2).mean((2, 3))}


def inputs():
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randn(2, 4, 8, 8, generator=generator) for _ in range(2))


def operators(program):
    """Name and shape of each, without the checks that exporters drop."""
    found = []
    for node in program.graph.nodes:
        if node.op == "call_function" and "_assert" not in str(node.target):
            value = node.meta.get("val")
            found.append((str(node.target), value.shape if isinstance(value, torch.Tensor) else None))
    return found


@pytest.fixture(scope="module")
def program():
    torch.manual_seed(0)
    return torch.export.export(Net().eval(), inputs())


def without_keeping(*names):
    """PyTorch's table, without what a target keeps whole."""
    table = torch.export.default_decompositions()
    for name in names:
        table.pop(name, None)
    return table


@pytest.mark.parametrize("kept", [(), (torch.ops.aten.linear.default, torch.ops.aten.max_pool2d.default)])
def test_the_program_is_that_of_a_whole_decomposition(program, kept):
    seen = []

    def decompose(kinds):
        seen.append(len(operators(kinds)))
        return kinds.run_decompositions(without_keeping(*kept))

    made = decompose_kinds(program, decompose, settled=True)
    whole = program.run_decompositions(without_keeping(*kept))
    assert operators(made) == operators(whole)
    assert len(seen) == 1
    assert seen[0] < len(operators(program)) / 2, "three equal blocks make one"
    for own, other in zip(made.module()(*inputs()).values(), whole.module()(*inputs()).values(), strict=True):
        assert torch.equal(own, other)
    assert made.graph_signature.user_outputs[1] == whole.graph_signature.user_outputs[1] == "y"


def test_operators_keep_their_own_module_and_line(program):
    made = decompose_kinds(program, lambda kinds: kinds.run_decompositions(torch.export.default_decompositions()))
    convolutions = made.graph.find_nodes(op="call_function", target=torch.ops.aten.convolution.default)
    paths = [list(node.meta["nn_module_stack"].values())[-1][0] for node in convolutions]
    assert [path.split("blocks.")[1] for path in paths] == ["0.conv", "1.conv", "2.conv"]
    assert all("test_kinds.py" in node.meta["stack_trace"] for node in convolutions)


def test_the_original_is_not_changed(program):
    before = [node.format_node() for node in program.graph.nodes]
    decompose_kinds(program, lambda kinds: kinds.run_decompositions(torch.export.default_decompositions()))
    assert [node.format_node() for node in program.graph.nodes] == before


class Attention(nn.Module):
    """PyTorch's kernel and what it is taken apart into lay out their result differently: one needs no copy after."""

    def forward(self, x):
        mixed = nn.functional.scaled_dot_product_attention(x, x, x)
        return mixed.transpose(1, 2).contiguous().flatten(2) + 1


def test_where_a_result_moves_in_memory_the_whole_program_is_decomposed():
    program = torch.export.export(Attention(), (torch.ones(1, 2, 5, 4),))
    table = torch.export.default_decompositions()
    moved = decompose_kinds(program, lambda kinds: kinds.run_decompositions(table), settled=True)
    whole = program.run_decompositions(torch.export.default_decompositions())
    spared = spare_decompositions(program, by_kind=True).run_decompositions(torch.export.default_decompositions())
    assert moved is None
    assert operators(spared) == operators(whole)


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x):
        self.count.add_(1)
        return x + self.count


class Branch(nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))


def test_what_is_not_suited_is_left_to_pytorch():
    x = torch.ones(4, 3)
    batch = {0: torch.export.Dim("batch", min=2, max=8)}
    exported = [
        torch.export.export(nn.Linear(3, 3), (x,), dynamic_shapes=(batch,)),
        torch.export.export(Branch(), (x,)),
        torch.export.export(Counter(), (x,)).run_decompositions({}),
    ]
    for program in exported:
        assert decompose_kinds(program, lambda kinds: pytest.fail("decomposed")) is None
        spared = spare_decompositions(program, by_kind=True)
        decomposed = spared.run_decompositions(torch.export.default_decompositions())
        assert operators(decomposed) == operators(program.run_decompositions(torch.export.default_decompositions()))
