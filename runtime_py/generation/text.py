"""Text as it comes: never half a character, and nothing of a text at which generation stops."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

# What decoders give for bytes that are no whole character (yet).
_UNFINISHED = "\ufffd"

# Decoders look at what is before an id: some drop the blank in front of a text's first word. So many ids are enough.
_BEFORE = 6


class Detokenizer:
    """Ids to text, one after the other.

    A character's bytes may come in several ids, and a word's blank belongs to what is before it. So each id is decoded
    together with a few before it, and what that text has more than theirs is new. The end of it waits as long as it
    is no whole character.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str], before: Sequence[int] = ()) -> None:
        """Begin behind some ids.

        Args:
            decode: Ids to text.
            before: Ids of the text so far, which is not given again.
        """
        self._decode = decode
        self._ids = list(before[-_BEFORE:])
        self._start, self._known, self._given = 0, len(self._ids), 0
        # A character that has begun there is new as a whole.
        while self._known and decode(self._ids[: self._known]).endswith(_UNFINISHED):
            self._known -= 1

    def add(self, token: int) -> str:
        """The text that an id adds; empty while a character is unfinished."""
        self._ids.append(token)
        whole = self._decode(self._ids[self._start :])
        old = len(self._decode(self._ids[self._start : self._known]))
        finished = whole.rstrip(_UNFINISHED)
        new = finished[old + self._given :]
        self._given += len(new)
        if len(finished) == len(whole) and len(whole) > old:
            self._start, self._known, self._given = self._known, len(self._ids), 0
        return new


class StopTexts:
    """Lets text through up to the first of some texts.

    Attributes:
        found: The text that ended it; None so far.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        """Which texts; none of them empty."""
        self._texts = tuple(texts)
        self._held = ""
        self.found: str | None = None

    def add(self, text: str) -> str:
        """What can be shown of a further piece: all but an end that may become one of the texts."""
        held = self._held + text
        places = [(at, stop) for stop in self._texts if (at := held.find(stop)) >= 0]
        if places:
            at, self.found = min(places)
            self._held = ""
            return held[:at]
        cut = min((_begins(held, stop) for stop in self._texts), default=len(held))
        self._held = held[cut:]
        return held[:cut]

    def end(self) -> str:
        """What was held back, at the end of the text."""
        held, self._held = self._held, ""
        return held


def _begins(text: str, stop: str) -> int:
    """Where the longest end of a text begins that `stop` begins with; its length where there is none."""
    for at in range(max(0, len(text) - len(stop) + 1), len(text)):
        if stop.startswith(text[at:]):
            return at
    return len(text)


class TextStream:
    """A text that is being generated: iterate over its pieces.

    Attributes:
        ids: New ids so far, also those whose text is not shown yet, or not at all.
        text: The pieces so far.
        seconds: Spent on making text of ids.
    """

    def __init__(self, tokens: Iterator[int], detokenizer: Detokenizer, stops: Sequence[str] = ()) -> None:
        """Begin.

        Args:
            tokens: New ids.
            detokenizer: Knows the text before them.
            stops: Texts at which it ends; they are not part of it.
        """
        self.ids: list[int] = []
        self.text = ""
        self.seconds = 0.0
        self._tokens, self._detokenizer, self._stops = tokens, detokenizer, StopTexts(stops)

    @property
    def stopped_by(self) -> str | None:
        """The stop text that ended it; None where none did."""
        return self._stops.found

    def __iter__(self) -> Iterator[str]:
        """Pieces, none of them empty."""
        for token in self._tokens:
            started = time.perf_counter()
            self.ids.append(token)
            piece = self._stops.add(self._detokenizer.add(token))
            self.seconds += time.perf_counter() - started
            if piece:
                self.text += piece
                yield piece
            if self._stops.found is not None:
                return
        rest = self._stops.end()
        if rest:
            self.text += rest
            yield rest
