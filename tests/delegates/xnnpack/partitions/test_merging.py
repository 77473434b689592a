"""The groups are those of ExecuTorch's own partitioner, and many thousand operators take seconds."""

import operator

import torch
from examples import examples
from executorch.exir.backend.canonical_partitioners.pattern_op_partitioner import (
    generate_grouped_partitions_from_list_of_nodes,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.fx import Graph, GraphModule

from edgex.delegates.xnnpack.partitions.merging import merge_groups


def executorch_groups(graph, matched):
    found = generate_grouped_partitions_from_list_of_nodes(GraphModule({}, graph), matched)
    return [(one.id, set(one.nodes)) for one in found]


def own_groups(graph, matched):
    return [(group.number, set(group.nodes)) for group in merge_groups(graph, matched)]


@st.composite
def programs(draw):
    """A graph of operators of one to three operands, some with items, and groups of one to three of its nodes."""
    graph = Graph()
    values = [graph.placeholder("x"), graph.placeholder("y")]
    free = []
    for _ in range(draw(st.integers(1, 24))):
        operands = draw(st.lists(st.sampled_from(values[-9:]), min_size=1, max_size=3))
        node = graph.call_function(torch.add, tuple(operands))
        taken = [node]
        if draw(st.integers(0, 4)) == 0:
            taken += [graph.call_function(operator.getitem, (node, at)) for at in range(draw(st.integers(1, 2)))]
        values += taken[1:] or taken
        free += taken
    graph.output(tuple(values[-2:]))
    matched = []
    kinds = draw(st.lists(st.integers(0, 3), min_size=len(free), max_size=len(free)))
    for node, kind in zip(free, kinds, strict=True):
        if kind == 1 and matched and len(matched[-1]) < 3:
            matched[-1].append(node)
        elif kind:
            matched.append([node])
    return graph, matched


@settings(max_examples=examples(300), deadline=None)
@given(programs())
def test_the_groups_are_executorchs_own(program):
    graph, matched = program
    theirs = executorch_groups(graph, matched)
    assert own_groups(graph, matched) == theirs


def test_a_value_that_leaves_and_comes_back_keeps_groups_apart():
    graph = Graph()
    x = graph.placeholder("x")
    first = graph.call_function(torch.add, (x, x))
    outside = graph.call_function(torch.sin, (first,))
    last = graph.call_function(torch.add, (outside, first))
    graph.output(last)
    assert own_groups(graph, [[first], [last]]) == [(0, {last}), (1, {first})]
    beside = [[node] for node in (first, outside, last)]
    assert own_groups(graph, beside) == [(0, {first, outside, last})]


def test_a_loop_that_was_written_out_is_one_group():
    """A chain of ten thousand operators: a walk through the graph for each pair takes the longer the square of that."""
    graph = Graph()
    value = x = graph.placeholder("x")
    matched = []
    for _ in range(10_000):
        value = graph.call_function(torch.add, (value, x))
        matched.append([value])
    graph.output(value)
    (group,) = merge_groups(graph, matched)
    assert len(group.nodes) == len(matched)


def test_each_third_operator_is_for_nobody():
    graph = Graph()
    value = x = graph.placeholder("x")
    matched = []
    for at in range(300):
        value = graph.call_function(torch.add, (value, x))
        if at % 3:
            matched.append([value])
    graph.output(value)
    assert [len(group.nodes) for group in merge_groups(graph, matched)] == [2] * 100
