"""A process that is left when a command is killed: it ends what the command had started, and removes what that leaves.

`kill -9` gives a process no last word, and Ctrl-C's way to its child, through it, is gone. The guardian waits at the
end of a pipe, does nothing else, and hears that the other end is closed, whatever closed it.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

# How long a killed child may take to be gone before what it left is removed.
_GONE_SECONDS = 5.0
_POLL_SECONDS = 0.01

_DONE = b"."


@contextmanager
def guarded(child: int, clean_up: Callable[[int], None]) -> Iterator[None]:
    """Should this process not live to the end of the block, `child` and all that it started are killed.

    Args:
        child: Leads a process group of its own.
        clean_up: Called with the child's number when it is gone.
    """
    hears, tells = os.pipe()
    guardian = os.fork()
    if guardian == 0:
        os.close(tells)
        _guard(hears, child, clean_up)
    os.close(hears)
    try:
        yield
    finally:
        with suppress(BrokenPipeError):  # the guardian was killed; the block has come to its end without it
            os.write(tells, _DONE)
        os.close(tells)
        os.waitpid(guardian, 0)


def _guard(hears: int, child: int, clean_up: Callable[[int], None]) -> NoReturn:
    """The guardian's whole life; ends in os._exit so that the command's stack is never unwound twice."""
    try:
        # Signals to the command's group or terminal are the command's, and nobody must wait for this end of its output.
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        if os.read(hears, 1) != _DONE:
            _kill_group(child)
            clean_up(child)
    finally:
        os._exit(0)


def _kill_group(leader: int) -> None:
    deadline = time.monotonic() + _GONE_SECONDS
    while time.monotonic() < deadline:
        try:
            os.killpg(leader, signal.SIGKILL)
        except ProcessLookupError:
            return
        except PermissionError:  # macOS says so of a group in which all have ended
            return
        time.sleep(_POLL_SECONDS)
