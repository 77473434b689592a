"""Partitions that wait for each other are taken apart, and no others."""

from __future__ import annotations

import operator

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.fx import Graph, Node

from edgex.delegates.xnnpack.partitions.cycles import TAG, _wait_for_each_other, separate_cycles


def graph_of(edges: list[tuple[int, ...]], tags: list[str | None]) -> tuple[Graph, list[Node]]:
    """A node for each entry, which reads the entries before it that it names."""
    graph = Graph()
    x = graph.placeholder("x")
    nodes: list[Node] = []
    for sources, tag in zip(edges, tags, strict=True):
        node = graph.call_function(torch.add if sources else operator.neg, tuple(nodes[at] for at in sources) or (x,))
        if tag is not None:
            node.meta[TAG] = tag
        nodes.append(node)
    graph.output(tuple(nodes))
    return graph, nodes


def tags_of(nodes: list[Node]) -> list[str | None]:
    return [node.meta.get(TAG) for node in nodes]


def test_two_that_wait_for_each_other_through_two_operators():
    # a (1) -> flip -> b (2);  c (2) -> relu -> d (1)
    graph, nodes = graph_of([(), (0,), (1,), (), (3,), (4,)], ["1", None, "2", "2", None, "1"])
    assert separate_cycles(graph) == {"1_1": "1"}
    assert tags_of(nodes) == ["1", None, "2", "2", None, "1_1"]


def test_what_may_stay_together_stays():
    graph, nodes = graph_of([(), (0,), (1,), (1, 2)], ["1", "1", None, "2"])
    assert separate_cycles(graph) == {}
    assert tags_of(nodes) == ["1", "1", None, "2"]


GRAPHS = st.integers(2, 14).flatmap(
    lambda size: st.tuples(
        st.tuples(*(st.lists(st.integers(0, max(at - 1, 0)), max_size=2 if at else 0) for at in range(size))),
        st.lists(st.sampled_from(["1", "2", "3", None]), min_size=size, max_size=size),
    )
)


@given(GRAPHS)
def test_afterwards_none_waits_for_another(drawn):
    edges, tags = drawn
    graph, nodes = graph_of([tuple(sources) for sources in edges], tags)
    parts = separate_cycles(graph)
    after = {node: node.meta[TAG] for node in nodes if TAG in node.meta}
    assert not _wait_for_each_other(nodes, after)
    for before, node in zip(tags, nodes, strict=True):
        assert parts.get(node.meta.get(TAG), node.meta.get(TAG)) == before
