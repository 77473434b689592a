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

# What it calls conversions, of a quantized program: clipping is what is left of a quantize whose readers take floats.
_CONVERSIONS = ("quantize", "dequantize", "clip")


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
    conversions = _Conversions(region)
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
        converted = [key for key in keys if key[0] in _CONVERSIONS]
        # Copies are fused into what they were put in for.
        keys = [key for key in keys if key[0] not in (COPY, *_CONVERSIONS)]
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
        names += conversions.beside(names, converted)
        certain: Confidence = "aligned" if confidence == "aligned" else "exact"
        found.append(Identified() if confidence == "delegate" else Identified(tuple(names), certain, own))
    return found


class _Conversions:
    """The quantize and dequantize operators of a region, which one event does together with what they are for."""

    def __init__(self, region: Sequence[MappedOperator]) -> None:
        self._operators = {item.name: item for item in region}
        self._reported: dict[tuple[str, int], list[str]] = {}
        self._makers: dict[str, str] = {}
        self._readers: dict[str, set[str]] = {}
        for item in region:
            for value in item.inputs:
                self._readers.setdefault(value, set()).add(item.name)
            kind, _, rest = _base(item.op).partition("_per_")
            if not rest or kind not in _CONVERSIONS:
                continue
            self._makers |= dict.fromkeys(item.outputs, item.name)
            if item.handle is not None:
                # Both of a pair may have the handle of what they came from; a clip is what either leaves.
                for reported in (kind, "clip"):
                    self._reported.setdefault((reported, item.handle), []).append(item.name)

    def beside(self, names: Sequence[str], reported: Sequence[tuple[str, int]]) -> list[str]:
        """Those that an event reports by kind and handle, and those of weights by channel, which it does not report.

        A dequantize that others read as well is left out, for each of its readers does it.
        """
        found = [name for key in reported for name in self._reported.get(key, ())]
        if not names:
            return list(dict.fromkeys(found))
        read = [value for name in names for value in self._operators[name].inputs if value in self._makers]
        makers = [self._makers[value] for value in read]
        found += [name for name in makers if _base(self._operators[name].op) == "dequantize_per_channel"]
        own = {*names, *found}
        return [name for name in dict.fromkeys(found) if self._is_written(name) or not self._others(name, own)]

    def _is_written(self, name: str) -> bool:
        return _base(self._operators[name].op).startswith("quantize")

    def _others(self, name: str, own: Set[str]) -> Set[str]:
        """What reads it outside of an event."""
        readers = {reader for value in self._operators[name].outputs for reader in self._readers.get(value, ())}
        return readers - own


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
