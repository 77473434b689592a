"""A fast reader of ETDump, the file in which ExecuTorch's runtime writes the events of traced runs.

The file is a size-prefixed flatbuffer (`executorch/devtools/etdump/etdump_schema_flatcc.fbs`):

```
bytes 0-3   size of the rest      4-7  offset of the root table `ETDump`      8-11  the identifier `ED00`
ETDump        field 1  run_data: [RunData]            one for each call into the runtime
RunData       field 3  events: [Event]
Event         field 0  profile_event: ProfileEvent    the other kinds of event hold no times
ProfileEvent  field 0  name: string                   field 2  instruction_id: int = -1
              field 4  delegate_debug_id_str: string  field 5  delegate_debug_metadata: [ubyte]
              field 6  start_time: ulong              field 7  end_time: ulong, both nanoseconds
```

A few hundred runs of a large model are a million events: their tables are read as whole columns, by NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgex.errors import RunError

_IDENTIFIER = b"ED"
_HEADER_BYTES = 12
_Ints = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class TraceEvent:
    """An event without its time, the same in every run.

    Attributes:
        name: What the runtime calls it, for example `DELEGATE_CALL` or `native_call_add.out`; inside a delegate the
            delegate's own name for it.
        instruction: Number of the program's instruction, -1 outside of any.
        in_delegate: Whether a delegate reported it.
        metadata: What a delegate attached.
    """

    name: str
    instruction: int
    in_delegate: bool
    metadata: bytes


@dataclass(frozen=True)
class TracedRun:
    """One call into the runtime.

    Attributes:
        events: Its events, in the order in which they ended.
        nanoseconds: How long each took, int64 `[len(events)]`.
    """

    events: tuple[TraceEvent, ...]
    nanoseconds: _Ints


def read_etdump(path: Path) -> list[TracedRun]:
    """Read all runs of a file.

    Raises:
        RunError: The file cannot be read, is cut short, damaged or no ETDump.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RunError(f"the trace {path.name} cannot be read", why=error.strerror) from error
    try:
        return _Reader(data).runs()
    except (ValueError, IndexError, OverflowError, UnicodeDecodeError) as error:
        raise RunError(
            f"the trace {path.name} is cut short or damaged", fix="trace it again", why=str(error)
        ) from error


class _Reader:
    """Columns of integers out of the file's bytes; every offset is checked against the file's end."""

    def __init__(self, data: bytes) -> None:
        if len(data) < _HEADER_BYTES:
            raise ValueError(f"it has {len(data)} bytes only")
        size = int.from_bytes(data[:4], "little")
        if size + 4 > len(data):
            raise ValueError(f"it has {len(data)} bytes where its head promises {size + 4}")
        if data[8:10] != _IDENTIFIER:
            raise ValueError(f"its identifier is {data[8:12]!r}, not ED00")
        self._data = data
        self._bytes = np.frombuffer(data, np.uint8)

    def runs(self) -> list[TracedRun]:
        root = self._follow(np.array([4]))
        starts, counts = [], []
        for run in self._vector(int(self._field(root, 1)[0])):
            events = self._vector(int(self._field(np.array([run]), 3)[0]))
            profile = self._field(events, 0)
            starts.append(profile[profile > 0])
            counts.append(len(starts[-1]))
        tables = np.concatenate(starts) if starts else np.empty(0, np.int64)
        happened, spans = self._events(self._follow(tables))
        ends = np.cumsum(counts)
        return [
            TracedRun(tuple(happened[end - count : end]), spans[end - count : end])
            for end, count in zip(ends, counts, strict=True)
            if count
        ]

    def _events(self, tables: _Ints) -> tuple[list[TraceEvent], _Ints]:
        names = self._byte_strings(self._field(tables, 0))
        instructions = self._scalars(tables, 2, "<i4", -1).tolist()
        delegates = self._byte_strings(self._field(tables, 4))
        metadata = self._byte_strings(self._field(tables, 5))
        spans = self._scalars(tables, 7, "<i8", 0) - self._scalars(tables, 6, "<i8", 0)
        known: dict[tuple[bytes | None, int, bytes | None, bytes | None], TraceEvent] = {}
        events = []
        for key in zip(names, instructions, delegates, metadata, strict=True):
            event = known.get(key)
            if event is None:
                name, instruction, inside, attached = key
                shown = (inside or name or b"").decode()
                event = known[key] = TraceEvent(shown, instruction, inside is not None, attached or b"")
            events.append(event)
        return events, spans

    def _byte_strings(self, fields: _Ints) -> list[bytes | None]:
        """Strings and byte vectors; None where the field is absent."""
        there = fields > 0
        starts = np.zeros_like(fields)
        starts[there] = self._follow(fields[there])
        lengths = np.zeros_like(fields)
        lengths[there] = self._integers(starts[there], "<u4")
        ends = starts + 4 + lengths
        if len(ends) and int(ends.max()) > len(self._data):
            raise ValueError("a text reaches past its end")
        data = self._data
        return [
            data[start + 4 : end] if start else None for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
        ]

    def _scalars(self, tables: _Ints, field: int, dtype: str, default: int) -> _Ints:
        places = self._field(tables, field)
        there = places > 0
        values = np.full(len(tables), default, np.int64)
        values[there] = self._integers(places[there], dtype)
        return values

    def _field(self, tables: _Ints, field: int) -> _Ints:
        """Where a field of each table lies; 0 where it is absent."""
        vtables = tables - self._integers(tables, "<i4")
        sizes = self._integers(vtables, "<u2")
        entry = 4 + 2 * field
        offsets = np.zeros(len(tables), np.int64)
        long_enough = sizes >= entry + 2
        offsets[long_enough] = self._integers(vtables[long_enough] + entry, "<u2")
        return np.where(offsets > 0, tables + offsets, 0)

    def _vector(self, place: int) -> _Ints:
        """Tables of the vector to which a field at `place` points; none where the field is absent."""
        if not place:
            return np.empty(0, np.int64)
        start = int(self._follow(np.array([place]))[0])
        count = int(self._integers(np.array([start]), "<u4")[0])
        if start + 4 + 4 * count > len(self._data):
            raise ValueError("a list reaches past its end")
        return self._follow(start + 4 + 4 * np.arange(count, dtype=np.int64))

    def _follow(self, places: _Ints) -> _Ints:
        """What the offsets at these places point to."""
        return places + self._integers(places, "<u4")

    def _integers(self, places: _Ints, dtype: str) -> _Ints:
        """Little-endian integers at any places."""
        if not len(places):
            return np.empty(0, np.int64)
        size = np.dtype(dtype).itemsize
        if int(places.min()) < 0 or int(places.max()) + size > len(self._data):
            raise ValueError("an offset points past its end")
        gathered = self._bytes[places[:, None] + np.arange(size)]
        values: _Ints = gathered.view(dtype)[:, 0].astype(np.int64)
        return values


def same_runs(runs: Sequence[TracedRun]) -> list[TracedRun]:
    """The runs that did what most of them did, in order: those of which medians can be taken."""
    by_events: dict[tuple[int, ...], list[TracedRun]] = {}
    for run in runs:
        # Equal events of one file are one object.
        by_events.setdefault(tuple(map(id, run.events)), []).append(run)
    return max(by_events.values(), key=len, default=[])
