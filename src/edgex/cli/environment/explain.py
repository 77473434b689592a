"""`edgex explain CODE|LOG`: what an engine's message means and what to do, from an offline dictionary."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgex.cli.failure import print_json
from edgex.cli.layout import echo_labelled, print_table
from edgex.cli.options.command import make_command, option
from edgex.cli.options.shared import accepted_quiet_option, json_option
from edgex.errors import UsageError, nearest_names

if TYPE_CHECKING:
    from edgex.explain.search import Match

# The end of a log holds the error; more than this is not read.
_LOG_BYTES = 16 << 20


@make_command("explain")
@click.argument("query", required=False)
@option("--list", "list_codes", is_flag=True, group="General", help="List every code of the dictionary.")
@json_option
@accepted_quiet_option
def command(query: str | None, list_codes: bool, as_json: bool) -> None:
    """Explain QUERY: a code (0x14, missing-out-variants), a message in quotes, a log file, or - for stdin."""
    document = _list() if list_codes else _explain(query)
    print_json(document) if as_json else _print(document)


def _list() -> dict[str, Any]:
    from edgex.explain.dictionary import DICTIONARY
    from edgex.explain.search import Match

    return _document("--list", [Match(entry) for entry in DICTIONARY])


def _explain(query: str | None) -> dict[str, Any]:
    from edgex.explain.search import find_in_log

    if query is None or query == "-":
        if query is None and sys.stdin.isatty():
            raise UsageError("nothing to explain", fix="give a code, a log file, or pipe a log into edgex explain -")
        lines = _last_lines(sys.stdin.buffer.read())
        said = [line.strip() for line in lines if line.strip()]
        # One line is no log but what would else be the argument: a code, or a message.
        return _document("-", _find(said[0]) if len(said) == 1 else find_in_log(lines))
    path = Path(query)
    if _is_there(path):
        return _document(query, find_in_log(_last_lines(_read(path))))
    return _document(query, _find(query))


def _find(query: str) -> Sequence[Match]:
    """The entries for a code or a message.

    Raises:
        UsageError: Nothing is known about it.
    """
    from edgex.explain.search import find_code, find_in_log

    matches = find_code(query) or find_in_log(query.splitlines())
    if not matches:
        raise _unknown(query)
    return matches


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a message in quotes may be longer than a file name, or lie in a folder that is closed to us
        return False


def _read(path: Path) -> bytes:
    if path.is_dir():
        raise UsageError(f"{path} is a folder", fix="give the log file itself")
    try:
        with path.open("rb") as stream:
            size = stream.seek(0, 2)
            stream.seek(max(0, size - _LOG_BYTES))
            return stream.read()
    except OSError as error:
        raise UsageError(f"cannot read {path}", why=error.strerror or str(error)) from error


def _last_lines(data: bytes) -> list[str]:
    return data[-_LOG_BYTES:].decode("utf-8", "replace").splitlines()


def _unknown(query: str) -> UsageError:
    from edgex.explain.dictionary import DICTIONARY

    if len(query.split()) > 1:  # a message, which may well name a file or a C++ source
        return UsageError(
            f"no entry matches {query[:100]!r}",
            why="nor is there a file of this name",
            fix="save all that the engine printed and run edgex explain LOG: the lines around it may be known; "
            "edgex explain --list shows every code",
        )
    if "/" in query or query.endswith((".log", ".txt")):
        return UsageError(f"no such file: {query}", fix="edgex explain CODE, or edgex explain LOG")
    meant = nearest_names(query, {entry.code for entry in DICTIONARY})
    return UsageError(
        f"nothing is known about {query[:100]!r}",
        why=f"did you mean {' or '.join(map(repr, meant))}?" if meant else None,
        fix="edgex explain --list shows every code",
    )


def _document(query: str, matches: Sequence[Match]) -> dict[str, Any]:
    return {"schema": "edgex.explain/1", "query": query, "matches": [match.to_json() for match in matches]}


def _print(document: dict[str, Any]) -> None:
    if document["query"] == "--list":
        head = ("code", "engine", "meaning")
        print_table([head, *((m["code"], m["engine"], m["cause"].partition(". ")[0]) for m in document["matches"])])
        return
    if not document["matches"]:
        click.echo("no line of it is a message that edgex knows")
    for match in document["matches"]:
        times = f" ({match['count']} lines)" if match["count"] > 1 else ""
        click.echo(f"{click.style(match['code'], bold=True)}  {match['engine']}{times}")
        if match["text"]:
            echo_labelled(f"line {match['line']}", match["text"])
        echo_labelled("cause", match["cause"])
        echo_labelled("fix", match["fix"])
        for issue in match["issues"]:
            echo_labelled("see", issue)
