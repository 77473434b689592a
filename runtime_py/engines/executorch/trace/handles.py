"""Events that carry debug handles, brought together with the operators of their region.

Operators that come from one source operator share a handle: the steps of a loop that was unrolled, for example. Events
and operators are then counted off in order, handle by handle, where there are as many of one as of the other.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

from edgex.runtime.engines.executorch.trace.etdump import TraceEvent
from edgex.runtime.engines.trace.operators import Confidence
from edgex.runtime.engines.trace.source_map import MappedOperator

# What the oneDNN backend calls a copy into another layout. Its handle is that of the operator that needs it.
COPY = "copy"


@dataclass(frozen=True)
class Identified:
    """What an event inside a delegate did.

    Attributes:
        names: Its operators, main first; empty where they are not known.
        confidence: How they were found.
        own_work: Whether it does all their work, and nothing else does.
        inserted: Whether the delegate put it in beside these operators.
    """

    names: tuple[str, ...] = ()
    confidence: Confidence = "none"
    own_work: bool = True
    inserted: bool = False


def match_handles(events: Sequence[TraceEvent], region: Sequence[MappedOperator]) -> list[Identified]:
    """The operators of each event.

    Args:
        events: Those of one region, named after their operators, `conv+relu`, with the handles attached: `3,4`.
        region: The region's operators, in program order.
    """
    parts = [_parts(event) for event in events]
    operators: dict[tuple[str, int], list[str]] = {}
    for item in region:
        if item.handle is not None:
            operators.setdefault((_base(item.op), item.handle), []).append(item.name)
    reported: dict[tuple[str, int], list[int]] = {}
    for index, keys in enumerate(parts):
        for key in keys:
            reported.setdefault(key, []).append(index)
    by_name = {item.name: item for item in region}
    taken: set[str] = set()
    found = []
    for index, keys in enumerate(parts):
        if {name for name, _ in keys} == {COPY}:
            found.append(_identify_copy({handle for _, handle in keys}, region))
            continue
        keys = [key for key in keys if key[0] != COPY]  # fused into what it was put in for
        names: list[str] = []
        confidence, own = "exact", True
        for key in dict.fromkeys(keys):
            mine, level = _share(index, operators.get(key, []), reported[key])
            if level == "delegate" and len({(by_name[n].module, by_name[n].source) for n in mine}) == 1:
                level = "exact"  # which of them does not matter: all come from the same line of the same module
            confidence = level if level != "exact" and confidence != "delegate" else confidence
            own = own and len(mine) == keys.count(key) and not taken.intersection(mine)
            names += mine
            taken.update(mine)
        certain: Confidence = "aligned" if confidence == "aligned" else "exact"
        found.append(Identified() if confidence == "delegate" else Identified(tuple(names), certain, own))
    return found


def _identify_copy(handles: Set[int], region: Sequence[MappedOperator]) -> Identified:
    """A copy that was put in for an operator: it is that operator's cost, and none of its work."""
    served = [item for item in region if item.handle in handles]
    if len({(item.module, item.source) for item in served}) != 1:
        return Identified(inserted=True)
    return Identified(tuple(item.name for item in served), "exact", own_work=False, inserted=True)


def _share(event: int, operators: list[str], reported: list[int]) -> tuple[list[str], str]:
    """Which of the operators of one key an event does, and how certain that is."""
    if len(operators) <= 1:
        return operators, "exact"
    if len(reported) == len(operators):
        return [name for name, at in zip(operators, reported, strict=True) if at == event], "aligned"
    events = list(dict.fromkeys(reported))
    if len(events) == len(operators):
        return [operators[events.index(event)]], "aligned"
    return operators, "delegate"


def _parts(event: TraceEvent) -> list[tuple[str, int]]:
    """(operator, handle) of each part of an event."""
    text = event.metadata.rstrip(b"\0").decode("ascii", errors="replace")
    handles = [int(part) for part in text.split(",") if part.isdigit()]
    names = event.name.split("+")
    return list(zip(names, handles, strict=True)) if len(names) == len(handles) else []


def _base(operator: str) -> str:
    parts = operator.split(".")
    return parts[1] if len(parts) > 1 else parts[0]
