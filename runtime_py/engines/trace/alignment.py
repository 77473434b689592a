"""Which event belongs to which node, where both are sequences in the same order and only their kinds are known.

A backend leaves out nodes that it fused, and may report others under another name. The best alignment leaves out as
little as possible; an event for which another alignment, equally good, names another node has no certain answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

_FAR = float("inf")
_CLOSE = 1e-9


@dataclass(frozen=True)
class Match:
    """What was found for one event.

    Attributes:
        node: Index of the node; None where none fits, or no one node does for certain.
        only_choice: No other node would fit this event's kind, and no other event this node's.
    """

    node: int | None
    only_choice: bool = False


def align(
    events: int,
    nodes: int,
    match_cost: Callable[[int, int], float | None],
    leave_node: Sequence[float],
    leave_event: float,
) -> list[Match]:
    """The certain part of the best alignment.

    Args:
        events: How many events there are.
        nodes: How many nodes.
        match_cost: Cost of an event and a node that belong together; None where their kinds do not fit.
        leave_node: Cost of leaving out each node.
        leave_event: Cost of an event without a node.
    """
    costs = [[_as_cost(match_cost(event, node)) for node in range(nodes)] for event in range(events)]
    before = _prefixes(costs, leave_node, leave_event)
    backwards = _prefixes([row[::-1] for row in reversed(costs)], leave_node[::-1], leave_event)
    best = before[events][nodes]

    def after(event: int, node: int) -> float:
        return backwards[events - event][nodes - node]

    found = []
    for event in range(events):
        row = costs[event]
        choices = [
            node
            for node in range(nodes)
            if before[event][node] + row[node] + after(event + 1, node + 1) <= best + _CLOSE
        ]
        alone = min(before[event][at] + leave_event + after(event + 1, at) for at in range(nodes + 1))
        if len(choices) != 1 or alone <= best + _CLOSE:
            found.append(Match(None))
            continue
        (node,) = choices
        fits_nothing_else = sum(cost < _FAR for cost in row) == 1
        fitted_by_nothing_else = sum(costs[other][node] < _FAR for other in range(events)) == 1
        found.append(Match(node, fits_nothing_else and fitted_by_nothing_else))
    return found


def _as_cost(cost: float | None) -> float:
    return _FAR if cost is None else cost


def _prefixes(costs: Sequence[Sequence[float]], leave_node: Sequence[float], leave_event: float) -> list[list[float]]:
    """Cost of the best alignment of the first events and the first nodes, `[events + 1][nodes + 1]`."""
    first = [0.0]
    for cost in leave_node:
        first.append(first[-1] + cost)
    table = [first]
    for row in costs:
        above = table[-1]
        line = [above[0] + leave_event]
        for node, cost in enumerate(row):
            line.append(min(above[node] + cost, above[node + 1] + leave_event, line[node] + leave_node[node]))
        table.append(line)
    return table
