"""The reader of ETDump, on files written by flatbuffers' own builder, whole and damaged."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import flatbuffers
import pytest

from edgex.errors import RunError
from edgex.runtime.engines.executorch.trace.etdump import TraceEvent, read_etdump, same_runs


@dataclass(frozen=True)
class Written:
    """One event as it is written."""

    name: str
    nanoseconds: int
    instruction: int = -1
    inside: str | None = None
    metadata: bytes = b""


def write_etdump(path: Path, runs: Sequence[Sequence[Written]]) -> Path:
    """An ETDump with a run for each sequence of events."""
    builder = flatbuffers.Builder(1024)
    written = [_write_run(builder, events) for events in runs]
    vector = _vector(builder, written)
    builder.StartObject(2)
    builder.PrependUint32Slot(0, 3, 0)
    builder.PrependUOffsetTRelativeSlot(1, vector, 0)
    builder.FinishSizePrefixed(builder.EndObject(), b"ED00")
    path.write_bytes(bytes(builder.Output()))
    return path


def _write_run(builder: flatbuffers.Builder, events: Sequence[Written]) -> int:
    clock, tables = 1_000_000, []
    for event in events:
        name = builder.CreateString(event.name)
        inside = None if event.inside is None else builder.CreateString(event.inside)
        metadata = builder.CreateByteVector(event.metadata) if event.metadata else None
        builder.StartObject(8)
        builder.PrependUOffsetTRelativeSlot(0, name, 0)
        builder.PrependInt32Slot(2, event.instruction, -1)
        if inside is not None:
            builder.PrependUOffsetTRelativeSlot(4, inside, 0)
        if metadata is not None:
            builder.PrependUOffsetTRelativeSlot(5, metadata, 0)
        builder.PrependUint64Slot(6, clock, 0)
        builder.PrependUint64Slot(7, clock + event.nanoseconds, 0)
        profile = builder.EndObject()
        builder.StartObject(3)
        builder.PrependUOffsetTRelativeSlot(0, profile, 0)
        tables.append(builder.EndObject())
        clock += event.nanoseconds
    # An event of another kind has no times: the reader must pass over it.
    builder.StartObject(3)
    tables.append(builder.EndObject())
    vector = _vector(builder, tables)
    name = builder.CreateString("Execute")
    builder.StartObject(4)
    builder.PrependUOffsetTRelativeSlot(0, name, 0)
    builder.PrependUOffsetTRelativeSlot(3, vector, 0)
    return int(builder.EndObject())


def _vector(builder: flatbuffers.Builder, offsets: Sequence[int]) -> int:
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())


RUN = [
    Written("", 4000, 1, inside="Convolution (NHWC, F32) IGEMM #1", metadata=b"3,4\0"),
    Written("DELEGATE_CALL", 5123, 1),
    Written("native_call_cumsum.out", 777, 2),
    Written("Method::execute", 7000),
]


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    slower = [Written(e.name, 2 * e.nanoseconds, e.instruction, e.inside, e.metadata) for e in RUN]
    return write_etdump(tmp_path / "trace.etdp", [[Written("Program::load_method", 9)], RUN, slower])


def test_every_event_of_every_run_is_read(dump):
    load, first, second = read_etdump(dump)
    assert [event.name for event in load.events] == ["Program::load_method"]
    assert first.events == (
        TraceEvent("Convolution (NHWC, F32) IGEMM #1", 1, True, b"3,4\0"),
        TraceEvent("DELEGATE_CALL", 1, False, b""),
        TraceEvent("native_call_cumsum.out", 2, False, b""),
        TraceEvent("Method::execute", -1, False, b""),
    )
    assert first.nanoseconds.tolist() == [4000, 5123, 777, 7000]
    assert second.nanoseconds.tolist() == [8000, 10246, 1554, 14000]
    assert same_runs([load, first, second]) == [first, second]


def test_a_file_without_runs_is_empty(tmp_path):
    assert read_etdump(write_etdump(tmp_path / "a.etdp", [])) == []


@pytest.mark.parametrize("content", [b"", b"\0" * 11, b"\x08\0\0\0\x04\0\0\0ET12", b"x" * 100])
def test_what_is_no_trace_is_refused(tmp_path, content):
    path = tmp_path / "a.etdp"
    path.write_bytes(content)
    with pytest.raises(RunError, match=r"a\.etdp is cut short or damaged"):
        read_etdump(path)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(RunError, match="cannot be read"):
        read_etdump(tmp_path / "none.etdp")


def test_a_file_that_was_cut_short_is_refused_wherever_it_ends(dump):
    whole = dump.read_bytes()
    for size in range(0, len(whole), 7):
        dump.write_bytes(whole[:size])
        with pytest.raises(RunError, match="cut short"):
            read_etdump(dump)


def test_damage_never_gets_past_the_reader(dump):
    """Bytes changed at random: an answer or a RunError, never another exception, and no endless work."""
    whole, generator, refused = dump.read_bytes(), random.Random(0), 0
    for _ in range(400):
        damaged = bytearray(whole)
        for _ in range(generator.randint(1, 6)):
            damaged[generator.randrange(12, len(damaged))] = generator.randrange(256)
        dump.write_bytes(damaged)
        try:
            read_etdump(dump)
        except RunError:
            refused += 1
    assert refused > 100
