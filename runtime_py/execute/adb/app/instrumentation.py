"""`am instrument -w -r`: what it prints while the app works, read line by line.

```
INSTRUMENTATION_STATUS: key=value        belongs to the status whose code follows
INSTRUMENTATION_STATUS_CODE: 1           1: progress; 2: a piece of the answer
INSTRUMENTATION_RESULT: key=value        of the end
INSTRUMENTATION_CODE: -1                 -1: done; 0: refused with `edgex_error`, or crashed with `shortMsg`
INSTRUMENTATION_FAILED: app/class        never began
```

A value may go on over several lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

PROGRESS, PIECE = 1, 2
DONE = -1

_LINE = re.compile(
    r"INSTRUMENTATION_(STATUS|STATUS_CODE|RESULT|CODE|FAILED|ABORTED|ON_ERROR|BLOCKED): ?(.*)", re.DOTALL
)
_NOT_ALLOWED = ("SecurityException", "Permission Denial", "Unable to find instrumentation info")


@dataclass
class Transcript:
    """What one run printed.

    Attributes:
        code: Of the end; None where the end never came.
        result: Values that came with the end.
        pieces: Pieces of the answer by their place.
        announced: How many pieces there are; None before the first.
        refusal: Why it never began, in Android's words; None where it began.
        other: Lines that are not part of the protocol.
    """

    code: int | None = None
    result: dict[str, str] = field(default_factory=dict)
    pieces: dict[int, str] = field(default_factory=dict)
    announced: int | None = None
    refusal: str | None = None
    other: list[str] = field(default_factory=list)

    @property
    def answer(self) -> str | None:
        """The pieces joined; None unless all came."""
        if self.announced is None or sorted(self.pieces) != list(range(self.announced)):
            return None
        return "".join(self.pieces[at] for at in range(self.announced))

    @property
    def crash(self) -> str | None:
        """What Android says of an app that crashed; None where it did not."""
        short = self.result.get("shortMsg")
        if short is None:
            return None
        return short + (f"\n{self.result['longMsg']}" if self.result.get("longMsg") else "")


def read_transcript(lines: Iterable[str], progress: Callable[[str, str], None]) -> Transcript:
    """Read until the lines end.

    Args:
        lines: As they come.
        progress: Told the app's stage, and how far it is in it.
    """
    found = Transcript()
    status: dict[str, str] = {}
    for kind, text in _entries(lines, found.other):
        if kind in ("STATUS", "RESULT"):
            key, _, value = text.partition("=")
            (status if kind == "STATUS" else found.result)[key] = value
        elif kind == "STATUS_CODE":
            _take_status(found, int(text) if re.fullmatch(r"-?\d+", text) else 0, status, progress)
            status = {}
        elif kind == "CODE":
            found.code = int(text) if re.fullmatch(r"-?\d+", text) else None
        else:
            found.refusal = found.refusal or f"INSTRUMENTATION_{kind}: {text}"
    if found.code is None and found.refusal is None:
        said = "\n".join(found.other)
        if any(words in said for words in _NOT_ALLOWED):
            found.refusal = said
    return found


def _take_status(found: Transcript, code: int, status: dict[str, str], progress: Callable[[str, str], None]) -> None:
    if code == PROGRESS and "edgex_stage" in status:
        total = status.get("edgex_total", "0")
        detail = f"{status.get('edgex_done', '0')}/{total}" if total != "0" else ""
        progress(status["edgex_stage"].replace("_", " "), detail)
    elif code == PIECE and status.get("edgex_at", "").isdigit() and status.get("edgex_chunks", "").isdigit():
        found.announced = int(status["edgex_chunks"])
        found.pieces[int(status["edgex_at"])] = status.get("edgex_chunk", "")
    elif code < 0 and "Error" in status:
        found.refusal = status["Error"]


def _entries(lines: Iterable[str], other: list[str]) -> Iterable[tuple[str, str]]:
    """(kind, text) with the lines that a text goes on over."""
    kind, text = "", ""
    for line in lines:
        line = line.rstrip("\r\n")
        match = _LINE.match(line)
        if match is None:
            if kind in ("STATUS", "RESULT"):
                text += f"\n{line}"
            elif line.strip():
                other.append(line)
            continue
        if kind:
            yield kind, text
        kind, text = match[1], match[2]
        if kind.endswith("CODE"):
            # Nothing goes on after a code, and progress is told when it comes.
            yield kind, text
            kind = ""
    if kind:
        yield kind, text
