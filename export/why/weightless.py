"""Build the user's model under `torch.device("meta")`, in a child process that a failure leaves no trace of.

A file that is run twice may define an operator twice, and libraries that were imported under another default device
keep the constants that they made there. So the attempt runs in a fork; where it fails the parent starts afresh.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from edgex.errors import EdgexError, RunError

Document = dict[str, Any]

_NOT_ON_META = "under torch.device('meta') the model cannot be made or captured"


class NotOnMeta(Exception):
    """The user's code could not do without values; the text says why."""


@contextmanager
def without_values() -> Iterator[None]:
    """Code of the user's in a situation that it need not expect.

    Raises:
        NotOnMeta: It failed.
    """
    try:
        yield
    except Exception as error:
        raise NotOnMeta(_describe(error)) from error


def _describe(error: Exception) -> str:
    if isinstance(error, EdgexError):
        return "; ".join(part for part in (error.what, error.where, error.why) if part)
    return f"{type(error).__name__}: {error}"


def attempt_on_meta(answer: Callable[[], Document]) -> tuple[Document | None, str | None]:
    """Call `answer` in a child process.

    Args:
        answer: Finds the model under `torch.device("meta")`, and answers with what JSON can hold.

    Returns:
        Its answer and None; or None, and why the model could not be built or captured without values.

    Raises:
        RunError: The child was killed.
    """
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        _live_as_child(answer, write_end)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as stream:
        data = stream.read()
    _, status = os.waitpid(child, 0)
    killed_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    if killed_by in (signal.SIGKILL, signal.SIGINT, signal.SIGTERM):
        raise RunError(
            f"planning was killed by {signal.Signals(killed_by).name}",
            fix="SIGKILL means most often that memory ran out: ask for one target at a time",
        )
    if killed_by is not None:
        return None, f"{_NOT_ON_META}: its process was killed by {signal.Signals(killed_by).name}"
    found, why = json.loads(data) if data else (None, "its process ended early")
    return found, why


def _live_as_child(answer: Callable[[], Document], write_end: int) -> NoReturn:
    """The child's whole life; ends in os._exit so that the parent's stack is never unwound twice."""
    try:
        try:
            result: tuple[Document | None, str | None] = (answer(), None)
        except NotOnMeta as error:
            result = (None, f"{_NOT_ON_META}: {error}")
        except Exception as error:
            result = (None, f"planning without values failed, which is a defect of edgex: {_describe(error)}")
        with os.fdopen(write_end, "w", encoding="utf-8") as stream:
            json.dump(result, stream)
    finally:
        os._exit(0)
