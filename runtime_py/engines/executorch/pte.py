"""Read from a .pte file what the Python binding does not tell: its backends, operators and planned memory.

A .pte begins with a flatbuffer of the schema `executorch/schema/program.fbs`:

```
bytes 0-3   offset of the root table `Program`       bytes 4-7   the identifier `ET12`
Program        field 1  execution_plan: [ExecutionPlan]
ExecutionPlan  field 0  name: string
               field 6  operators: [Operator]   field 7  delegates: [BackendDelegate]
               field 8  non_const_buffer_sizes: [int64]
Operator       field 0  name: string   field 1  overload: string
BackendDelegate  field 0  id: string
```

ExecuTorch's own reader lives in `executorch.exir`, whose import takes seconds; these few fields need fifty lines.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from edgex.errors import ArtifactError

_IDENTIFIER_PREFIX = b"ET"


@dataclass(frozen=True)
class PteSummary:
    """What a method of a .pte needs.

    Attributes:
        backends: Backend of each delegated region, in the file's order, for example `XnnpackBackend`.
        operators: Kernels that run outside the regions, for example `aten::cumsum.out`, in the file's order.
        planned_arena_bytes: Memory planned for activations and state.
    """

    backends: tuple[str, ...]
    operators: tuple[str, ...]
    planned_arena_bytes: int


def read_pte(path: Path, method: str | None = None) -> PteSummary:
    """Read the summary; only the pages that hold the tables are touched, whatever the file's size.

    Args:
        path: The file.
        method: Which method's; None, or one that the file lacks, is the first's: loading it says what is missing.

    Raises:
        ArtifactError: The file is not a .pte.
    """
    try:
        with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _summarize(data, method)
    except (struct.error, IndexError, ValueError, MemoryError, OverflowError) as error:
        raise ArtifactError(
            f"{path.name} is not an ExecuTorch program", fix="export the model again", why=str(error)
        ) from error


def _summarize(data: mmap.mmap, method: str | None) -> PteSummary:
    if data[4:6] != _IDENTIFIER_PREFIX:
        raise ValueError(f"its identifier is {data[4:8]!r}, not ET12")
    program = _Table(data, _u32(data, 0))
    plans = list(program.tables(1))
    if not plans:
        raise ValueError("it has no method")
    plan = next((plan for plan in plans if plan.text(0) == method), plans[0])
    operators = []
    for operator in plan.tables(6):
        name, overload = operator.text(0), operator.text(1)
        operators.append(f"{name}.{overload}" if overload else name)
    # The first buffer is reserved for constants and always empty.
    arena = sum(plan.int64s(8)[1:])
    return PteSummary(tuple(delegate.text(0) for delegate in plan.tables(7)), tuple(operators), arena)


class _Table:
    """A flatbuffer table: a signed offset back to its vtable, whose entries say where each field lies."""

    def __init__(self, data: mmap.mmap, position: int) -> None:
        self._data = data
        self._position = position
        self._vtable = position - struct.unpack_from("<i", data, position)[0]
        self._vtable_bytes = struct.unpack_from("<H", data, self._vtable)[0]

    def _target(self, field: int) -> int | None:
        """Where the value that a field points to begins; None when the field is absent."""
        entry = 4 + 2 * field
        if entry + 2 > self._vtable_bytes:
            return None
        offset = struct.unpack_from("<H", self._data, self._vtable + entry)[0]
        if offset == 0:
            return None
        at = self._position + int(offset)
        return at + _u32(self._data, at)

    def tables(self, field: int) -> Iterator[_Table]:
        start = self._target(field)
        if start is not None:
            for index in range(_u32(self._data, start)):
                at = start + 4 + 4 * index
                yield _Table(self._data, at + _u32(self._data, at))

    def text(self, field: int) -> str:
        start = self._target(field)
        if start is None:
            return ""
        return self._data[start + 4 : start + 4 + _u32(self._data, start)].decode()

    def int64s(self, field: int) -> tuple[int, ...]:
        start = self._target(field)
        return () if start is None else struct.unpack_from(f"<{_u32(self._data, start)}q", self._data, start + 4)


def _u32(data: mmap.mmap, position: int) -> int:
    return int(struct.unpack_from("<I", data, position)[0])
