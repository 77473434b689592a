"""Keep what native code writes to stderr: the cause of an engine's error, or a banner nobody asked for.

Native libraries write to file descriptor 2. ExecuTorch's binding sends its log to Python's `sys.stderr` instead, which
in a notebook or a test run is not descriptor 2. `NativeStderr` keeps both, `PythonStderr` the second only: so cheaply
that it can stand in the path of every run.
"""

from __future__ import annotations

import ctypes
import io
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from types import TracebackType
from typing import TextIO

# Both belong to the process, so one capture at a time; re-entrant for a load that runs inside a load.
_DESCRIPTOR_LOCK = threading.RLock()

_LAST_LINES = 20
_LAST_BYTES = 64 << 10


class NativeStderr:
    """A reusable capture: `with keeper.capture() as captured: …`, then `captured.tail()` until the next capture.

    Entering and leaving cost five system calls, 1.5 us on a quiet machine: the temporary file is opened once, and
    emptied only when something was written.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        self._descriptor = self._file.fileno()
        raw = io.FileIO(self._descriptor, "w", closefd=False)
        self._writer = io.TextIOWrapper(raw, errors="backslashreplace", write_through=True)
        # One entry for each capture that is open: a copy of descriptor 2, or None where the process has none, and
        # what was sys.stderr.
        self._saved: list[tuple[int | None, TextIO]] = []

    def capture(self) -> NativeStderr:
        """The context manager that sends descriptor 2 to a file for the duration of the block."""
        return self

    def __enter__(self) -> NativeStderr:
        _DESCRIPTOR_LOCK.acquire()
        try:
            if not self._saved and os.lseek(self._descriptor, 0, os.SEEK_CUR):
                os.ftruncate(self._descriptor, 0)
                os.lseek(self._descriptor, 0, os.SEEK_SET)
            try:
                saved = os.dup(2)
            except OSError:  # a daemon that closed descriptor 2: nothing to protect, nowhere to give back
                self._saved.append((None, sys.stderr))
            else:
                os.dup2(self._descriptor, 2)
                self._saved.append((saved, sys.stderr))
            sys.stderr = self._writer
        except BaseException:
            _DESCRIPTOR_LOCK.release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        saved, sys.stderr = self._saved.pop()
        if saved is not None:
            os.dup2(saved, 2)
            os.close(saved)
        _DESCRIPTOR_LOCK.release()

    def tail(self) -> str:
        """The last lines written, without trailing blanks; empty when nothing was written."""
        size = os.lseek(self._descriptor, 0, os.SEEK_CUR)
        start = max(0, size - _LAST_BYTES)
        text = os.pread(self._descriptor, size - start, start).decode(errors="replace")
        return "\n".join(text.rstrip().splitlines()[-_LAST_LINES:])

    def close(self) -> None:
        """Close the temporary file."""
        self._file.close()


class PythonStderr:
    """A reusable capture of what goes through `sys.stderr`, in memory: `begin`, `end`, then `tail`.

    No context manager: that would cost a microsecond more, a tenth of a tiny model's run.
    """

    def __init__(self) -> None:
        self._text = io.StringIO()
        self._shown: TextIO | None = None
        self._acquire, self._release = _DESCRIPTOR_LOCK.acquire, _DESCRIPTOR_LOCK.release

    def begin(self) -> None:
        """Take what goes through `sys.stderr` from now on; other captures wait until `end`."""
        self._acquire()
        if self._text.tell():
            self._text = io.StringIO()
        self._shown = sys.stderr
        sys.stderr = self._text

    def end(self) -> None:
        """Give `sys.stderr` back."""
        sys.stderr = self._shown
        self._release()

    def tail(self) -> str:
        """The last lines written, without trailing blanks; empty when nothing was written."""
        return "\n".join(self._text.getvalue().rstrip().splitlines()[-_LAST_LINES:])


class CapturedText:
    """What a finished capture holds."""

    def __init__(self, keeper: NativeStderr) -> None:
        self._keeper = keeper
        self._text: str | None = None

    def tail(self) -> str:
        """The last lines written, without trailing blanks; empty when nothing was written."""
        return self._keeper.tail() if self._text is None else self._text

    def freeze(self) -> None:
        """Keep the text, because the file is about to be closed."""
        self._text = self._keeper.tail()


@contextmanager
def capture_native_stderr() -> Iterator[CapturedText]:
    """Capture descriptor 2 once, for a load; the text stays readable after the block."""
    keeper = NativeStderr()
    captured = CapturedText(keeper)
    try:
        with keeper.capture():
            try:
                yield captured
            finally:
                captured.freeze()
    finally:
        keeper.close()


class _DivertedStdout:
    """How many blocks send descriptor 1 to descriptor 2, and where it leads when the last of them has ended.

    No lock is held within a block: what runs there may start threads that want to divert it too, and wait for them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._blocks = 0
        self._original = -1

    def begin(self) -> int | None:
        """Send descriptor 1 to where descriptor 2 leads now.

        Returns:
            For `end`: a copy of where it led before, inside of another block; None in the first.

        Raises:
            OSError: The process has no descriptor 1, or no 2.
        """
        with self._lock:
            before = os.dup(1)
            try:
                os.dup2(2, 1)
            except OSError:
                os.close(before)
                raise
            self._blocks += 1
            if self._blocks > 1:
                return before
            self._original = before
            return None

    def end(self, before: int | None) -> None:
        """Give descriptor 1 back; blocks of several threads may end in any order."""
        with self._lock:
            self._blocks -= 1
            if self._blocks == 0:
                os.dup2(self._original, 1)
                os.close(self._original)
            elif before is not None:
                os.dup2(before, 1)
            if before is not None:
                os.close(before)


_DIVERTED = _DivertedStdout()


@contextmanager
def stdout_on_stderr() -> Iterator[None]:
    """Send what is written to descriptor 1 to descriptor 2 for the duration of the block, native code's too.

    PyTorch's linear algebra, for one, says what is wrong with a matrix of NaN on the standard output.
    """
    _flush_stdout()
    try:
        before = _DIVERTED.begin()
    except OSError:  # closed: nothing to protect
        yield
        return
    try:
        yield
    finally:
        _flush_stdout()
        _DIVERTED.end(before)


@contextmanager
def prints_on_stderr() -> Iterator[None]:
    """Send everything that is printed to stderr for the duration of the block: a user's code runs in it.

    `sys.stdout` may be something else than descriptor 1, as in a notebook; what `os.system`, a child or
    `sys.__stdout__` writes goes to the descriptor.
    """
    with stdout_on_stderr(), redirect_stdout(sys.stderr):
        yield


def _flush_stdout() -> None:
    """Empty the buffers of the standard output: Python's, the one that it started with, and C's."""
    for stream in {id(one): one for one in (sys.stdout, sys.__stdout__) if one is not None}.values():
        with suppress(ValueError):  # somebody closed it
            stream.flush()
    ctypes.CDLL(None).fflush(None)
