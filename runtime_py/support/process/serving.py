"""The child's side of `edgex.runtime.support.process.child`: reads requests, calls what answers, writes answers.

What answers is `MODULE:NAME`: a function `(request, tell) -> answer`, or a class whose object is called so and may
have a `close`.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NoReturn, TextIO

from edgex.errors import EdgexError
from edgex.runtime.support.process.frames import call_with_room
from edgex.runtime.support.process.lifetime import end_with_parent

# Which thread has started the child.
MAIN_THREAD, OTHER_THREAD = "main", "other"

# Says that something happened: a name, and what belongs to it.
Tell = Callable[..., None]
Answerer = Callable[[Mapping[str, Any], Tell], Mapping[str, Any]]


def describe_error(error: EdgexError) -> dict[str, Any]:
    """An error as a message, for the other side to raise again."""
    parts = {"what": error.what, "where": error.where, "fix": error.fix, "why": error.why}
    return {"error": {"class": type(error).__name__, **parts}}


def main(task: str, parent: str, thread: str) -> NoReturn:
    """The child's whole life: answers until its stdin ends.

    Args:
        task: `MODULE:NAME` of what answers.
        parent: The number of the process that started it.
        thread: `MAIN_THREAD` or `OTHER_THREAD`, of the parent.
    """
    end_with_parent(int(parent), of_main_thread=thread == MAIN_THREAD)
    # Ctrl-C goes to all processes of a terminal: the parent decides, and ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Engines may print to stdout; that goes to stderr, and messages alone to where the reader is.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    call_with_room(partial(_serve, task, answers))
    # What is left is to take apart what was imported, module by module: half a second with torch and an engine.
    sys.stderr.flush()
    os._exit(0)


def _serve(task: str, answers: TextIO) -> None:
    """Import what answers, and let it, until stdin ends."""
    module, _, name = task.partition(":")
    found = getattr(importlib.import_module(module), name)
    answer: Answerer = found() if isinstance(found, type) else found
    try:
        for line in sys.stdin:
            _respond(answer, json.loads(line), answers)
    finally:
        close = getattr(answer, "close", None)
        if close is not None:
            close()


def _respond(answer: Answerer, request: Mapping[str, Any], answers: TextIO) -> None:
    def send(message: Mapping[str, Any]) -> None:
        print(json.dumps(message), file=answers, flush=True)

    def tell(event: str, **values: Any) -> None:
        send({"event": event, **values})

    try:
        message = {"answer": dict(answer(request, tell))}
    except EdgexError as error:
        message = describe_error(error)
    send(message)
