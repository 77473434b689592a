"""Which operators of a region each node of the backend's own graph does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgex.delegates.graph.provenance import is_conversion
from edgex.delegates.graph.values import GraphValues

if TYPE_CHECKING:
    from edgex.delegates.executorch.partition import EdgeOperator


# Of the operators of one handle, so many are compared: orders differ locally, and a GRU over 1,000 steps has thousands.
_NEAR = 16


@dataclass(frozen=True)
class InnerNode:
    """A node of a backend's graph.

    Attributes:
        kind: Its kind, without the backend's prefix, for example `Conv2d`.
        handle: Debug handle of the operator that it comes from; None for what the backend inserted itself.
        reads: Numbers of the values that it reads.
        writes: Numbers of those that it makes.
        converts: Whether it converts between dtypes: it belongs to a quantize or dequantize operator of its handle.
        operators: Names of operators that it implements, for example `linear`, for handles that several share.
    """

    kind: str
    handle: int | None
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    converts: bool = False
    operators: tuple[str, ...] = ()


def assign_operators(
    operators: Sequence[EdgeOperator], nodes: Sequence[InnerNode], flow: GraphValues
) -> list[dict[str, Any]]:
    """The `nodes` of a source map's delegate.

    A node's main operator is the one of its handle that fits its kind. Operators without a node of their own were
    fused: a dequantization goes to the node that reads what it makes, so that a node's inputs are what lies in memory;
    others go to the node that makes what they read, else to its reader.

    Args:
        operators: Those of the region, in program order.
        nodes: The backend's, in its order.
        flow: Tells which operator reads what.
    """
    makers = {value: index for index, node in enumerate(nodes) for value in node.writes}
    after = [sorted({makers[value] for value in node.reads if value in makers} - {i}) for i, node in enumerate(nodes)]
    owner: dict[str, int] = {}
    groups: list[list[str]] = [[] for _ in nodes]
    made_by = {
        value: item.node for item in operators if item.node in flow.nodes for value in flow.nodes[item.node].outputs
    }
    for index, node in enumerate(nodes):
        sources = _sources_of_node(index, after, groups)
        main = None if node.handle is None else _main_operator(node, operators, owner, sources, flow, made_by)
        if main is not None:
            groups[index].append(main)
            owner.setdefault(main, index)
    _assign_fused(operators, flow, owner, groups, made_by)
    served = [
        _served(index, groups, after) if node.handle is None else groups[index] for index, node in enumerate(nodes)
    ]
    return [
        {"kind": node.kind, "ops": ops, "after": before, "inserted": node.handle is None}
        for node, ops, before in zip(nodes, served, after, strict=True)
    ]


def _main_operator(
    node: InnerNode,
    operators: Sequence[EdgeOperator],
    owner: Mapping[str, int],
    sources: set[str],
    flow: GraphValues,
    made_by: Mapping[str, str],
) -> str | None:
    """The operator of the node's handle that fits its kind; of several, the first that reads from the same ones.

    An operator that PyTorch takes apart (a GRU) leaves one handle to all its parts, whose order in the backend's graph
    is another than in the program.
    """
    mine = [item for item in operators if item.handle == node.handle and is_conversion(item.op) == node.converts]
    named = [item for item in mine if item.op.split(".")[1] in node.operators]
    free = [item for item in named or mine if item.node not in owner]
    # Several nodes of one operator, in a backend that takes it apart, share it.
    near = free[:_NEAR] or (named or mine)[-1:]
    if len(near) > 1:
        near = sorted(near, key=lambda item: len(sources ^ _sources_of(item.node, owner, flow, made_by)))
    return near[0].node if near else None


def _sources_of(name: str, owner: Mapping[str, int], flow: GraphValues, made_by: Mapping[str, str]) -> set[str]:
    """The nearest operators with a node of their own from which an operator reads, through those without."""
    found: set[str] = set()
    seen, queue = {name}, [name]
    while queue:
        place = flow.nodes.get(queue.pop())
        for maker in {made_by[value] for value in (() if place is None else place.inputs) if value in made_by} - seen:
            seen.add(maker)
            if maker in owner:
                found.add(maker)
            else:
                queue.append(maker)
    return found


def _sources_of_node(index: int, after: Sequence[Sequence[int]], groups: Sequence[Sequence[str]]) -> set[str]:
    """The main operators of the nodes from which a node reads, through those that the backend inserted."""
    found: set[str] = set()
    queue = list(after[index])
    while queue:
        before = queue.pop()
        if groups[before]:
            found.add(groups[before][0])
        else:
            queue += after[before]
    return found


def _assign_fused(
    operators: Sequence[EdgeOperator],
    flow: GraphValues,
    owner: dict[str, int],
    groups: list[list[str]],
    made_by: Mapping[str, str],
) -> None:
    read_by: dict[str, list[str]] = {}
    for item in operators:
        for value in flow.nodes[item.node].inputs if item.node in flow.nodes else ():
            read_by.setdefault(value, []).append(item.node)

    def take(name: str, found: Iterable[str | None]) -> None:
        index = next((owner[other] for other in found if other in owner), None)
        if index is not None and name not in owner:
            owner[name] = index
            groups[index].append(name)

    known = [item for item in operators if item.node in flow.nodes]
    for item in reversed(known):
        if is_conversion(item.op) and ".dequantize" in item.op:
            take(item.node, (reader for value in flow.nodes[item.node].outputs for reader in read_by.get(value, ())))
    for item in known:
        take(item.node, (made_by.get(value) for value in flow.nodes[item.node].inputs))
    for item in reversed(known):
        take(item.node, (reader for value in flow.nodes[item.node].outputs for reader in read_by.get(value, ())))


def _served(index: int, groups: Sequence[list[str]], after: Sequence[list[int]]) -> list[str]:
    """The main operator next to an inserted node: the one that reads from it, else the one that it reads from."""
    readers = [reader for reader, before in enumerate(after) if index in before]
    return next((groups[near][:1] for near in (*readers, *after[index]) if groups[near]), [])
