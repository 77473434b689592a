"""Tables in the terminal: aligned, cut to its width, uncut where the output goes to a file or a pipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgex.runtime.report.listings import Listing

if TYPE_CHECKING:
    from rich.console import Console

_INDENT = 2
_GAP = 2
_LEAST = 8
_ASCII = str.maketrans({"µ": "u", "·": "-", "…": "~", "×": "x"})


def print_listing(listing: Listing, console: Console) -> None:
    """Print one table; names are cut in the middle where a terminal is too narrow for them."""
    from rich.cells import cell_len
    from rich.text import Text

    def show(text: Text) -> None:
        text.rstrip()
        if console.options.ascii_only:
            text.plain = text.plain.translate(_ASCII)
        console.print(text, soft_wrap=True, highlight=False, markup=False)

    pad = " " * _INDENT
    show(Text.assemble(pad, (_printable(listing.title), "bold")))
    rows = [[_printable(cell) for cell in row] for row in listing.rows]
    head = [column.title for column in listing.columns]
    widths = [max(cell_len(cell) for cell in column) for column in zip(head, *rows, strict=True)]
    if console.is_terminal:
        widths = _fit(widths, [column.numeric for column in listing.columns], console.width - _INDENT)
    for number, row in enumerate([head, *rows] if listing.columns else []):
        cells = []
        for cell, width, column in zip(row, widths, listing.columns, strict=True):
            text = _cut(cell, width)
            blank = " " * (width - cell_len(text))
            cells.append(blank + text if column.numeric else text + blank)
        show(Text(pad + (" " * _GAP).join(cells), style="dim" if number == 0 else ""))
    for note in listing.notes:
        show(Text(pad + note, style="dim"))


def _fit(widths: list[int], numeric: list[bool], room: int) -> list[int]:
    """Narrow the widest columns of text until all fit, none below a readable width."""
    widths = list(widths)
    texts = [at for at, is_number in enumerate(numeric) if not is_number]
    while sum(widths) + _GAP * (len(widths) - 1) > room:
        widest = max(texts, key=lambda at: widths[at], default=None)
        if widest is None or widths[widest] <= _LEAST:
            break
        widths[widest] -= 1
    return widths


def _cut(text: str, width: int) -> str:
    """The text in this many cells, the start and the end kept: both ends of a module path tell where it is."""
    from rich.cells import cell_len, set_cell_size

    if cell_len(text) <= width:
        return text
    head = (width - 1) // 2
    tail = text
    while cell_len(tail) > width - 1 - head:
        tail = tail[1:]
    return set_cell_size(text, head) + "…" + tail


def _printable(text: str) -> str:
    """Names are the user's: control characters would reach the terminal as commands."""
    return "".join(letter if letter.isprintable() else "?" for letter in text.expandtabs(4))
