"""Find what a log or a code speaks of."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from edgex.explain.dictionary import DICTIONARY
from edgex.explain.entry import Entry


@dataclass(frozen=True)
class Match:
    """One entry that fits.

    Attributes:
        entry: What it means.
        text: The line in which it was found first, shortened; None where a code was asked for.
        line: That line's number, from 1; None for a code.
        count: In how many lines it was found.
    """

    entry: Entry
    text: str | None = None
    line: int | None = None
    count: int = 1

    def to_json(self) -> dict[str, Any]:
        """One entry of `matches` of `edgex.explain/1`."""
        return {**self.entry.to_json(), "text": self.text, "line": self.line, "count": self.count}


_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_SHOWN = 200
# A line of a log is no longer than this; what follows is a dump of something.
_LINE_LIMIT = 4000


def find_code(code: str) -> list[Match]:
    """The entries of a code: an entry's own, or a number of ExecuTorch in hexadecimal or decimal.

    Android prints ExecuTorch's codes in decimal, so that `20` is 0x14 there, and 0x20 for who leaves the 0x out: both
    are given, the decimal reading first.
    """
    wanted = code.strip().lower()
    readings = [wanted]
    if re.fullmatch(r"(?:0x)?:?[0-9a-f]{1,2}", wanted):
        digits = wanted.removeprefix("0x").lstrip(":")
        decimal = [int(digits)] if digits.isdigit() and not wanted.startswith("0x") else []
        readings = [f"0x{number:02x}" for number in (*decimal, int(digits, 16))]
    known = {entry.code: entry for entry in DICTIONARY}
    return [Match(known[reading]) for reading in dict.fromkeys(readings) if reading in known]


def find_in_log(lines: Iterable[str]) -> list[Match]:
    """The entries whose message stands in a log, the most telling first.

    What says little by itself (a bare code, the frame around another error) comes last; among the others the longer
    match first, then the one that comes first in the log.
    """
    found: dict[str, tuple[Match, int]] = {}
    for number, raw in enumerate(lines, 1):
        line = _COLOUR.sub("", raw[:_LINE_LIMIT]).strip()
        for entry in DICTIONARY:
            hit = re.search(entry.pattern, line)
            if hit is None:
                continue
            before = found.get(entry.code)
            if before is None:
                found[entry.code] = (Match(entry, line[:_SHOWN], number), len(hit[0]))
            else:
                first = before[0]
                found[entry.code] = (Match(entry, first.text, first.line, first.count + 1), before[1])
    ranked = sorted(found.values(), key=lambda one: (one[0].entry.general, -one[1], one[0].line or 0))
    return [match for match, _ in ranked]
