"""A lock between processes: a file that one holds alone, or several share, until they end in whatever way."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType


class Lock:
    """A context manager that waits for a lock; nothing where the file system has no locks, or refuses the file."""

    def __init__(self, path: Path, *, shared: bool = False) -> None:
        """Nothing is locked yet.

        Args:
            path: The file, made where it is missing.
            shared: Together with others that share it.
        """
        self._path = path
        self._kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        self._descriptor: int | None = None

    def __enter__(self) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(self._descriptor, self._kind)
        except OSError:
            return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
