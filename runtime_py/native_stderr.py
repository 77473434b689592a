"""Keep what native code writes to file descriptor 2: the cause of an engine's error, or a banner nobody asked for."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager

# Descriptor 2 belongs to the process, so one capture at a time; re-entrant for a load that runs inside a load.
_DESCRIPTOR_LOCK = threading.RLock()

_LAST_LINES = 12


class CapturedStderr:
    """What was written while `capture_native_stderr` was active."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._text: str | None = None

    def tail(self) -> str:
        """The last lines written, without trailing blanks; empty when nothing was written."""
        if self._text is not None:
            return self._text
        size = os.lseek(self._descriptor, 0, os.SEEK_CUR)
        start = max(0, size - (64 << 10))
        text = os.pread(self._descriptor, size - start, start).decode(errors="replace")
        return "\n".join(text.rstrip().splitlines()[-_LAST_LINES:])

    def freeze(self) -> None:
        """Keep the text, because the descriptor is about to be closed."""
        self._text = self.tail()


class NativeStderr:
    """A reusable capture: opening its temporary file once makes each capture cost four system calls."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()

    @contextmanager
    def capture(self) -> Iterator[CapturedStderr]:
        """Send descriptor 2 to a file for the duration of the block."""
        descriptor = self._file.fileno()
        with _DESCRIPTOR_LOCK:
            os.ftruncate(descriptor, 0)
            os.lseek(descriptor, 0, os.SEEK_SET)
            saved = os.dup(2)
            os.dup2(descriptor, 2)
            try:
                yield CapturedStderr(descriptor)
            finally:
                os.dup2(saved, 2)
                os.close(saved)

    def close(self) -> None:
        """Close the temporary file."""
        self._file.close()


@contextmanager
def capture_native_stderr() -> Iterator[CapturedStderr]:
    """Capture descriptor 2 once, for a load; the text stays readable after the block."""
    keeper = NativeStderr()
    try:
        with keeper.capture() as captured:
            try:
                yield captured
            finally:
                captured.freeze()
    finally:
        keeper.close()
