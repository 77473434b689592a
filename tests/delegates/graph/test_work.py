from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

from edgex.delegates.graph.work import add_flops, count_flops, sum_flops


class Call(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function, *modules):
        super().__init__()
        self.function = function
        self.parts = torch.nn.ModuleList(modules)

    def forward(self, *args):
        return self.function(*self.parts, *args)


def graph_nodes(module, *args, dynamic_shapes=None, decompose=False):
    program = torch.export.export(module.eval(), args, dynamic_shapes=dynamic_shapes)
    if decompose:
        program = program.run_decompositions()
    return [node for node in program.graph.nodes if node.op == "call_function"]


def counted(module, *args):
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        module(*args)
    return counter.get_total_flops()


conv = torch.nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2)
transposed = torch.nn.ConvTranspose2d(4, 6, 3, stride=2, groups=2)
CASES = {
    "linear": (Call(lambda m, x: m(x), torch.nn.Linear(5, 7)), torch.randn(2, 3, 5)),
    "convolution": (Call(lambda m, x: m(x), conv), torch.randn(2, 4, 9, 8)),
    "transposed convolution": (Call(lambda m, x: m(x), transposed), torch.randn(2, 4, 5, 6)),
    "convolution 1d": (Call(lambda m, x: m(x), torch.nn.Conv1d(3, 4, 5)), torch.randn(1, 3, 11)),
    "matmul": (Call(lambda x: x @ x.transpose(1, 2)), torch.randn(2, 3, 4)),
    "matmul, broadcast": (Call(lambda x: x @ torch.ones(4, 6)), torch.randn(2, 3, 4)),
    "mm": (Call(lambda x: torch.mm(x, x.T)), torch.randn(3, 4)),
    "addmm": (Call(lambda x: torch.addmm(x, x, torch.ones(4, 4))), torch.randn(3, 4)),
}


@pytest.mark.parametrize("decompose", [False, True], ids=["whole", "decomposed"])
@pytest.mark.parametrize("name", CASES)
def test_a_graph_counts_what_torch_counts_at_run_time(name, decompose):
    module, *args = CASES[name]
    expected = counted(module, *args)
    assert expected > 0
    assert sum_flops(graph_nodes(module, *args, decompose=decompose)) == expected


def test_attention_counts_two_products_for_each_head():
    attention = Call(F.scaled_dot_product_attention)
    query, key, value = torch.randn(1, 2, 3, 8), torch.randn(1, 2, 5, 8), torch.randn(1, 2, 5, 6)
    (node,) = graph_nodes(attention, query, key, value)
    assert count_flops(node) == 2 * (2 * 3 * 5 * 8) + 2 * (2 * 3 * 5 * 6)


def test_an_edge_operator_counts_like_the_one_it_wraps():
    linear = torch.ops.aten.linear.default
    (node,) = graph_nodes(CASES["linear"][0], CASES["linear"][1])
    assert node.target is linear

    class Wrapper:
        _op = linear

    expected = count_flops(node)
    node.target = Wrapper()
    assert count_flops(node) == expected == 2 * 2 * 3 * 5 * 7


def test_an_operator_without_a_formula_has_no_count():
    (node,) = graph_nodes(Call(torch.relu), torch.randn(3))
    assert count_flops(node) is None


def test_a_dynamic_size_counts_with_the_size_of_the_example():
    batch = torch.export.Dim("batch", min=2, max=16)
    nodes = graph_nodes(CASES["linear"][0], torch.randn(4, 3, 5), dynamic_shapes={"args": ({0: batch},)})
    linear = next(node for node in nodes if node.target is torch.ops.aten.linear.default)
    assert count_flops(linear) == 2 * 4 * 3 * 5 * 7


def test_a_size_that_depends_on_data_has_no_count():
    def rows_above_zero(weight, x):
        rows = torch.nonzero(x[:, 0] > 0).squeeze(1)
        return F.linear(x[rows], weight.weight)

    nodes = graph_nodes(Call(rows_above_zero, torch.nn.Linear(4, 2)), torch.randn(3, 4))
    linear = next(node for node in nodes if node.target is torch.ops.aten.linear.default)
    assert count_flops(linear) is None


def test_unknown_counts_add_up_to_unknown_not_to_zero():
    assert add_flops([None, None]) is None
    assert add_flops([]) is None
    assert add_flops([3, None, 4]) == 7
