"""How an error is shown: what / where / why / what to do next, on stderr; as JSON on stdout where that was asked."""

from __future__ import annotations

import errno
import json
from typing import Any

import click

from edgex.cli.board import BOARD
from edgex.cli.layout import echo_labelled
from edgex.errors import EdgexError, RunError
from edgex.runtime.support.printable import CONTROL_BUT_LINES, escape_control


def report_failure(error: EdgexError, *, trace: bool = False) -> None:
    """Print an error on stderr.

    Args:
        error: What happened.
        trace: With the Python traceback (`-v`).
    """
    advise(error)
    if trace:
        import traceback

        click.echo("".join(traceback.format_exception(error)), err=True)
    click.echo(click.style("error: ", fg="red", bold=True) + escape_control(error.what), err=True)
    told: set[tuple[str, str]] = set()
    _print_details(error, told)
    for number, other in enumerate(error.others, 2):
        click.echo(click.style(f"{f'and {number}':>6}: ", fg="red", bold=True) + escape_control(other.what), err=True)
        _print_details(other, told)


def _print_details(error: EdgexError, told: set[tuple[str, str]]) -> None:
    """What stands below an error's first sentence; what was said of an earlier one is not said again."""
    for label, text in error.details():
        if (label, text) in told:
            continue
        told.add((label, text))
        echo_labelled(f"{label:>5}:", text, indent=2, width=7, bold=True, err=True)


# What the system says when stdout leads into a file on a full disk, or to a broken device.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def output_failure(error: OSError) -> RunError | None:
    """The error for a result that could not be printed; None where the failure is another."""
    if error.errno not in _FULL or error.filename is not None:
        return None
    return RunError("the result cannot be written to stdout", why=error.strerror, fix="free some space")


def failure_document(error: EdgexError) -> dict[str, Any]:
    """The `edgex.error/1` document that --json prints instead of a result."""
    advise(error)
    return {"schema": "edgex.error/1", **error.to_json()}


# What an engine's error says where its adapter knows no better; ExecuTorch's codes have such words too.
_ANY_ERROR = (None, "export the model again", "edgex explain with the line above")


def advise(error: EdgexError) -> None:
    """Give errors of engines the advice of `edgex explain`, where it knows a line of them and their own is for any."""
    for one in (error, *error.others):
        if not isinstance(one, RunError) or not one.why:
            continue
        from edgex.explain.dictionary import DICTIONARY
        from edgex.explain.search import find_in_log

        if one.fix not in (*_ANY_ERROR, *(entry.fix for entry in DICTIONARY if entry.general)):
            continue
        for match in find_in_log(one.why.splitlines()):
            # What is said of a bare code, or of any node that failed, is better than nothing only.
            if not match.entry.general or one.fix is None:
                one.fix = match.entry.fix
                break


def print_json(document: dict[str, Any]) -> None:
    """One JSON document on stdout."""
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    # JSON escapes most control characters itself; what it leaves, a terminal would obey.
    print_document(CONTROL_BUT_LINES.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n")


def print_document(text: str) -> None:
    """The one document of --json, as text with its last line's end."""
    BOARD.note_answer()
    click.echo(text, nl=False)
