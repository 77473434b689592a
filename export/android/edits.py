"""Texts put in the place of others in the sample's files, each of which must be there once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

# File -> text in it -> text in its place.
Edits = Mapping[str, tuple[tuple[str, str], ...]]


def join_edits(*several: Edits) -> Edits:
    """All of them, in their order."""
    names = dict.fromkeys(name for edits in several for name in edits)
    return {name: tuple(pair for edits in several for pair in edits.get(name, ())) for name in names}


def edit_text(name: str, text: str, pairs: Iterable[tuple[str, str]]) -> str:
    """The text with each pair's first replaced by its second.

    Args:
        name: The file, for the error.
        text: Its content.
        pairs: What is there, and what takes its place.

    Raises:
        ValueError: A text is not there, or several times: the sample has changed.
    """
    for old, new in pairs:
        if text.count(old) != 1:
            raise ValueError(f"{name}: {old!r} is there {text.count(old)} times, not once")
        text = text.replace(old, new)
    return text
