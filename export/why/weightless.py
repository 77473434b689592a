"""Build the user's model under `torch.device("meta")`, in a child process that a failure leaves no trace of.

A file that is run twice may define an operator twice, and libraries that were imported under another default device
keep the constants that they made there. So the attempt runs in a fork; where it fails the parent starts afresh.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from edgex.errors import EdgexError, RunError
from edgex.runtime.support.process.child import ChildEnded
from edgex.runtime.support.process.forked import ask_copy

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
    except NotOnMeta:
        raise
    except Exception as error:
        raise NotOnMeta(_describe(error)) from error


def _describe(error: Exception) -> str:
    if isinstance(error, EdgexError):
        return "; ".join(part for part in (error.what, error.where, error.why) if part)
    # torch adds pages of stack to some; the rest is for whoever runs it with -v.
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"


def attempt_on_meta(answer: Callable[[], Document]) -> tuple[Document | None, str | None]:
    """Call `answer` in a child process.

    Args:
        answer: Finds the model under `torch.device("meta")`, and answers with what JSON can hold.

    Returns:
        Its answer and None; or None, and why the model could not be built or captured without values.

    Raises:
        RunError: The child was killed.
    """

    def attempt() -> Document:
        try:
            return {"found": answer(), "why": None}
        except NotOnMeta as error:
            return {"found": None, "why": f"{_NOT_ON_META}: {error}"}
        except Exception as error:
            text = f"planning without values failed, which is a defect of edgex: {_describe(error)}"
            return {"found": None, "why": text}

    try:
        said = ask_copy(attempt, "planning without values")
    except ChildEnded as error:
        if error.signal in ("SIGKILL", "SIGINT", "SIGTERM"):
            raise RunError(
                f"planning was killed by {error.signal}",
                fix="SIGKILL means most often that memory ran out: ask for one target at a time",
            ) from error
        return None, f"{_NOT_ON_META}: {error.what}"
    return said["found"], said["why"]
