"""What a command's process has come to, for the one that waits for it and outlives it when it is killed.

A page of memory that both have. Only the child writes, and the parent reads once the child is gone.
"""

from __future__ import annotations

import mmap

_BYTES = mmap.PAGESIZE


class Board:
    """The stage in which the work is, and whether the one document of `--json` was printed."""

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, _BYTES)

    @property
    def answered(self) -> bool:
        """Whether a document was printed."""
        return self._page[0] != 0

    @property
    def stage(self) -> str | None:
        """The last stage that was begun; None before the first."""
        return self._page[1:].split(b"\0", 1)[0].decode(errors="replace") or None

    def clear(self) -> None:
        """Nothing was said yet."""
        self._page[:] = bytes(_BYTES)

    def note_answer(self) -> None:
        """A document is about to be printed."""
        self._page[0] = 1

    def note_stage(self, stage: str) -> None:
        """A stage has begun."""
        text = stage.encode()[: _BYTES - 2] + b"\0"
        self._page[1 : 1 + len(text)] = text


# Shared with every process that is forked from here.
BOARD = Board()
