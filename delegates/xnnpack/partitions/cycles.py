"""Take apart the partitions that wait for each other.

```
before:  conv_a (tag 1) -> flip -> conv_b (tag 2);  conv_c (tag 2) -> relu -> conv_d (tag 1)
         # 1 needs what 2 gives, and 2 what 1 gives
after:   conv_a (tag 1) -> flip -> conv_b (tag 2);  conv_c (tag 2) -> relu -> conv_d (tag 1_1)
```

ExecuTorch 1.5 sees that no path leaves a partition and comes back, but a path through another partition is one only
when that one has become a single call: "Invalid partition, found dependency cycles". A network that is run twice with
the same weights (a pose network on the image and its mirror image) makes such partitions.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from itertools import count

from torch.fx import Graph, Node

TAG = "delegation_tag"


def separate_cycles(graph: Graph) -> Mapping[str, str]:
    """Give the nodes of partitions that wait for each other new tags, in place.

    Args:
        graph: An edge graph; `delegation_tag` in a node's meta names its partition.

    Returns:
        The tag that each new tag was a part of; empty where nothing had to be taken apart.
    """
    nodes = [node for node in graph.nodes if node.op not in ("placeholder", "output")]
    tags = {node: node.meta[TAG] for node in nodes if TAG in node.meta}
    if not _wait_for_each_other(nodes, tags):
        return {}
    groups = _Groups()
    parts: dict[str, list[str]] = {}
    for node in nodes:
        tag = tags.get(node)
        if tag is None:
            groups.add(node, node)
            continue
        known = parts.setdefault(tag, [tag])
        fitting = next((part for part in known if groups.may_join(part, node)), None)
        if fitting is None:
            taken = set(tags.values()) | {name for names in parts.values() for name in names}
            fitting = next(name for number in count(1) if (name := f"{tag}_{number}") not in taken)
            known.append(fitting)
        groups.add(fitting, node)
        node.meta[TAG] = fitting
    return {part: tag for tag, names in parts.items() for part in names[1:]}


def _wait_for_each_other(nodes: list[Node], tags: Mapping[Node, str]) -> bool:
    """Whether the graph of partitions has a cycle: what nothing precedes is taken away until nothing is left."""
    group = {node: tags.get(node, node) for node in nodes}
    after: dict[Hashable, set[Hashable]] = {own: set() for own in group.values()}
    for node in nodes:
        for source in node.all_input_nodes:
            if source in group and group[source] != group[node]:
                after[group[source]].add(group[node])
    waiting = dict.fromkeys(after, 0)
    for followers in after.values():
        for follower in followers:
            waiting[follower] += 1
    free = [own for own, number in waiting.items() if number == 0]
    done = 0
    while free:
        done += 1
        for follower in after[free.pop()]:
            waiting[follower] -= 1
            if waiting[follower] == 0:
                free.append(follower)
    return done < len(after)


class _Groups:
    """Groups of nodes without a cycle, built in the graph's order."""

    def __init__(self) -> None:
        self._of: dict[Node, Hashable] = {}
        self._before: dict[Hashable, set[Hashable]] = {}

    def add(self, group: Hashable, node: Node) -> None:
        """Put a node into a group, which is a new one where it has none."""
        self._of[node] = group
        before = self._before.setdefault(group, set())
        before.update(self._sources(node) - {group})

    def may_join(self, group: Hashable, node: Node) -> bool:
        """Whether nothing that the node needs from outside of a group needs the group."""
        waiting = list(self._sources(node) - {group})
        seen = set(waiting)
        while waiting:
            for earlier in self._before[waiting.pop()]:
                if earlier == group:
                    return False
                if earlier not in seen:
                    seen.add(earlier)
                    waiting.append(earlier)
        return True

    def _sources(self, node: Node) -> set[Hashable]:
        return {self._of[source] for source in node.all_input_nodes if source in self._of}
