"""A copy of this process that does one thing, answers and ends: for what a failure must leave no trace of here.

Unlike a child that is started afresh it knows all that this process knows, and costs a millisecond. It must not be
used where other threads run.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from edgex.runtime.support.process.child import ChildEnded
from edgex.runtime.support.process.lifetime import end_with_parent


def ask_copy(answer: Callable[[], Mapping[str, Any]], label: str) -> dict[str, Any]:
    """Call a function in a copy of this process.

    Args:
        answer: What it returns can be held by JSON.
        label: What the copy is, for errors.

    Raises:
        ChildEnded: The copy ended before it answered.
    """
    read_end, write_end = os.pipe()
    parent = os.getpid()
    of_main_thread = threading.current_thread() is threading.main_thread()
    child = os.fork()
    if child == 0:
        end_with_parent(parent, of_main_thread=of_main_thread)
        os.close(read_end)
        _live_as_child(answer, write_end)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as stream:
        data = stream.read()
    _, status = os.waitpid(child, 0)
    if data:
        found: dict[str, Any] = json.loads(data)
        return found
    name = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else None
    error = ChildEnded(f"{label} ended: {f'killed by {name}' if name else 'early'}")
    error.signal = name
    raise error


def _live_as_child(answer: Callable[[], Mapping[str, Any]], write_end: int) -> NoReturn:
    """The copy's whole life; ends in os._exit so that the stack of the original is never unwound twice."""
    try:
        text = json.dumps(answer())
        with os.fdopen(write_end, "w", encoding="utf-8") as stream:
            stream.write(text)
    finally:
        os._exit(0)
