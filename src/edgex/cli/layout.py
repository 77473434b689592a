"""Text in the width of the terminal: tables whose cells wrap, labels with hanging text, lists with "+7 more"."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Sequence

import click

from edgex.runtime.support.printable import escape_control

# Where nobody says how wide the screen is: in a pipe, a file, a log.
_PIPE_WIDTH = 80
# Longer lines of prose are hard to read, however wide the terminal.
_PROSE_WIDTH = 110
# A command in a sentence; a blank in it that is none to wrap at, which no text has once it is escaped.
_COMMAND = re.compile(r"`edgex [^`]+`")
_KEPT = "\x00"
_GAP = 2
_LEAST_COLUMN = 8


def screen_width() -> int:
    """Columns of the terminal, as `COLUMNS` or the terminal itself says; 80 in a pipe."""
    if not os.environ.get("COLUMNS"):
        for stream in (sys.stdout, sys.stderr):
            try:
                return os.get_terminal_size(stream.fileno()).columns or _PIPE_WIDTH
            except (OSError, ValueError):  # no terminal, or no file at all
                continue
    return shutil.get_terminal_size((_PIPE_WIDTH, 24)).columns


def wrap(text: str, width: int) -> list[str]:
    """Lines of a text, each line of its own wrapped; words and `commands` are whole, so that they can be copied.

    Control characters are escaped: the text may be a stranger's.
    """
    lines = []
    for line in escape_control(text).splitlines() or [""]:
        kept = _COMMAND.sub(lambda found: found[0].replace(" ", _KEPT), line)
        lines += textwrap.wrap(kept, max(20, width), break_long_words=False, break_on_hyphens=False) or [""]
    return [line.replace(_KEPT, " ") for line in lines]


def echo_labelled(
    label: str,
    text: str,
    *,
    indent: int = 2,
    width: int = 12,
    colour: str | None = None,
    bold: bool = False,
    err: bool = False,
) -> None:
    """Print a label, and beside it a text that wraps without coming under the label.

    Args:
        label: Empty to continue what is above.
        text: One or several lines.
        indent: Blanks before the label.
        width: Cells of the label with the blanks behind it.
        colour: Of the label.
        bold: Whether the label is bold.
        err: Print it on stderr.
    """
    room = min(screen_width(), _PROSE_WIDTH) - indent - width
    for number, line in enumerate(wrap(text, room)):
        head = f"{label if number == 0 else '':<{width}}"
        click.echo(f"{' ' * indent}{click.style(head, fg=colour, bold=bold or None)}{line}".rstrip(), err=err)


def list_some(items: Sequence[str], most: int) -> str:
    """`a, b, c +7 more`: the first few of a list, and how many there are besides."""
    left = len(items) - most
    return ", ".join(items) if left <= 0 else f"{', '.join(items[:most])} +{left} more"


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Aligned columns; the first row is the head. Where the screen is too narrow, the widest columns wrap."""
    if not rows:
        return
    rows = [[escape_control(cell) for cell in row] for row in rows]
    widths = _fit([max(map(len, column)) for column in zip(*rows, strict=True)], screen_width())
    for number, row in enumerate(rows):
        cells = [_wrap_cell(cell, width) for cell, width in zip(row, widths, strict=True)]
        for at in range(max(map(len, cells))):
            parts = (cell[at] if at < len(cell) else "" for cell in cells)
            line = (" " * _GAP).join(part.ljust(width) for part, width in zip(parts, widths, strict=True)).rstrip()
            click.echo(click.style(line, bold=True) if number == 0 else line)


def _fit(widths: list[int], room: int) -> list[int]:
    """Narrow the widest columns until all fit, none below a readable width."""
    while sum(widths) + _GAP * (len(widths) - 1) > room:
        widest = max(range(len(widths)), key=lambda at: widths[at])
        if widths[widest] <= _LEAST_COLUMN:
            break
        widths[widest] -= 1
    return widths


def _wrap_cell(text: str, width: int) -> list[str]:
    """A cell's lines; paths of modules and files break behind a dot or a slash before they break anywhere."""
    if len(text) <= width:
        return [text]
    lines: list[str] = []
    for line in textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False):
        while len(line) > width:
            cut = max(line.rfind(mark, 0, width) for mark in "./_-:") + 1 or width
            lines.append(line[:cut])
            line = line[cut:]
        lines.append(line)
    return lines
