"""Which groups of operators can be one partition: ExecuTorch's own answer, for graphs of many thousand operators too.

ExecuTorch's partitioner asks for each pair of groups whether a value would leave the two and come back, and walks the
graph for it: 7.6 s for a chain of 2,000 operators of which each ninth is not taken, and 8 times that for twice as many.
Here a set of nodes is a number with a bit for each node, and the question is three operations on such numbers: 0.04 s
(Zen 4).
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass

from torch.fx import Graph, Node


@dataclass
class Group:
    """Nodes that go to a delegate together.

    Attributes:
        number: In the order in which groups are met from the graph's end; merged ones have the first number.
        nodes: As they were given, those of merged groups behind.
        mask: A bit for each node, by its place in the graph.
        users: Likewise, what reads the nodes' values, in the group or not.
        before: Likewise, everything that the nodes depend on.
    """

    number: int
    nodes: list[Node]
    mask: int
    users: int
    before: int

    def can_take(self, other: Group) -> bool:
        """Whether nothing that reads a value of the two, and is in neither, is needed by one of them."""
        outside = (self.users | other.users) & ~(self.mask | other.mask)
        return not outside & (self.before | other.before)

    def take(self, other: Group) -> None:
        """Merge another group into this one."""
        self.nodes += other.nodes
        self.mask |= other.mask
        self.users |= other.users
        self.before |= other.before


def merge_groups(graph: Graph, matched: Sequence[Sequence[Node]]) -> list[Group]:
    """Merge groups from the graph's end on, each with every later one that it can take.

    Args:
        graph: In topological order.
        matched: Groups without a common node.

    Returns:
        The groups that are left, by number. Results that a tuple's operator gives are with the operator.
    """
    left = _number(graph, matched)
    merged: list[Group] = []
    while left:
        first, *others = left
        left = []
        for other in others:
            if first.can_take(other):
                first.take(other)
            else:
                left.append(other)
        merged.append(first)
    _join_items(graph, merged)
    return [group for group in merged if group.nodes]


def _number(graph: Graph, matched: Sequence[Sequence[Node]]) -> list[Group]:
    places = {node: place for place, node in enumerate(graph.nodes)}
    before: list[int] = []
    for node in graph.nodes:
        needed = 0
        for source in node.all_input_nodes:
            needed |= before[places[source]] | 1 << places[source]
        before.append(needed)
    index_of = {node: index for index, nodes in enumerate(matched) for node in nodes}
    groups: dict[int, Group] = {}
    for node in reversed(graph.nodes):
        index = index_of.get(node)
        if index is None or index in groups:
            continue
        group = groups[index] = Group(len(groups), [], 0, 0, 0)
        for member in matched[index]:
            users = sum(1 << places[user] for user in member.users)
            group.take(Group(0, [member], 1 << places[member], users, before[places[member]]))
    return list(groups.values())


def _join_items(graph: Graph, groups: Sequence[Group]) -> None:
    """Move the items of an operator with several results to the operator's group."""
    group_of = {node: group for group in groups for node in group.nodes}
    moved: dict[Node, Group] = {}
    for node in graph.nodes:
        group = group_of.get(node)
        if group is not None and all(user.target is operator.getitem for user in node.users):
            moved.update((user, group) for user in node.users if group_of.get(user, group) is not group)
    for node, group in moved.items():
        group_of[node].nodes.remove(node)
        group.nodes.append(node)
