"""Every error a user of edgex can meet, with the exit code of the command line.

```
EdgexError                 1  only its subclasses are raised
├── UsageError             2  a flag, a model or a path that is not as it must be
├── CaptureError           3  torch.export could not capture the model
├── VerificationError      4  the artifact ran and its numbers are not eager's; also delegation and regression gates
├── LoweringError          5  a delegate could not turn the program into its format
│   └── QuantizationError  5
├── ArtifactError          6  an artifact is damaged, of another format, or cannot be made for want of disk or memory
├── RunError               6  an engine refused to load or run, or the inputs are wrong
├── TargetUnavailable      7  something is not installed
├── DeviceError            8  a phone or box cannot be reached
├── TimeoutExpired       124  --timeout ran out
├── Interrupted          130  Ctrl-C
└── Terminated           143  SIGTERM
```

An error says what happened, where (the user's file and line), why, and what to do next. Whatever is not an
`EdgexError` is a defect of edgex and keeps its traceback.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import takewhile
from typing import Any, TypeVar

_Error = TypeVar("_Error", bound="EdgexError")


class EdgexError(Exception):
    """A failure that the user can understand and act on.

    Args:
        what: One sentence: what happened.
        where: The user's `file:line`, or the path of the artifact.
        why: The cause, in one or a few lines.
        fix: What to do next, a command where there is one.
    """

    exit_code = 1

    def __init__(self, what: str, where: str | None = None, fix: str | None = None, *, why: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.why = why
        self.fix = fix
        self.stage: str | None = None  # the export stage in which it arose, set by the pipeline
        # What else is in the way of the same step; it would only show after this one is mended.
        self.others: tuple[EdgexError, ...] = ()
        # The `edgex.bisect/1` document, where a proof failed and the operators at fault were looked for.
        self.bisect: dict[str, Any] | None = None

    def __str__(self) -> str:
        lines = [self.what]
        lines += [f"  {label}: {text}" for label, text in self.details()]
        for number, other in enumerate(self.others, 2):
            lines.append(f"{number}. {other.what}")
            lines += [f"  {label}: {text}" for label, text in other.details()]
        return "\n".join(lines)

    def with_others(self: _Error, others: Iterable[EdgexError]) -> _Error:
        """The same error, which tells of others too."""
        self.others = (*self.others, *others)
        return self

    def details(self) -> list[tuple[str, str]]:
        """The parts after the first sentence, in the order in which they are printed."""
        parts = (("where", self.where), ("why", self.why), ("fix", self.fix))
        return [(label, text) for label, text in parts if text]

    def to_json(self) -> dict[str, Any]:
        """The keys that an error has in every document; `blockers` is null where it is the only one."""
        blockers = [error._words() for error in (self, *self.others)]
        return {**self._words(), "exit_code": self.exit_code, "blockers": blockers if self.others else None}

    def _words(self) -> dict[str, str | None]:
        return {"what": self.what, "where": self.where, "why": self.why, "fix": self.fix}


class UsageError(EdgexError):
    """A flag, a model, or a path is not as it must be."""

    exit_code = 2


class CaptureError(EdgexError):
    """`torch.export` could not capture the model, or what it captured cannot be exported."""

    exit_code = 3


class VerificationError(EdgexError):
    """The artifact's outputs are not those of eager PyTorch, or a gate did not hold."""

    exit_code = 4


class LoweringError(EdgexError):
    """A delegate could not lower the program."""

    exit_code = 5


class QuantizationError(LoweringError):
    """A quantization recipe could not be applied."""


class ArtifactError(EdgexError):
    """An artifact is damaged, of an unknown format, or cannot be written, for want of disk or memory among others."""

    exit_code = 6


class RunError(EdgexError):
    """An engine could not load or run an artifact, or the given inputs do not fit it."""

    exit_code = 6


class TargetUnavailable(EdgexError):
    """A target or an engine cannot work here because something is missing."""

    exit_code = 7


class DeviceError(EdgexError):
    """A device cannot be reached, or the run on it failed."""

    exit_code = 8


class TimeoutExpired(EdgexError):
    """The time that `--timeout` allows ran out."""

    exit_code = 124


class Interrupted(EdgexError):
    """The user ended the command with Ctrl-C."""

    exit_code = 130


class Terminated(EdgexError):
    """A system or a script ended the command with SIGTERM."""

    exit_code = 143


# More than this many names that are equally near are no hint any more.
_MOST_HINTS = 3
# A name inside another one says something from this many letters on.
_LEAST_SHARED = 3
# Words that begin alike and end otherwise: `tracing` and `trace`.
_LEAST_STEM = 4


def nearest_name(name: str, known: Iterable[str]) -> str:
    """Words for an unknown name: what it may stand for if anything is near, and what exists.

    Returns:
        For example `did you mean 'xnnpack'? known: onnx-cpu, reference, xnnpack`.
    """
    names = sorted(known)
    meant = " or ".join(map(repr, nearest_names(name, names)))
    return f"{f'did you mean {meant}? ' if meant else ''}known: {', '.join(names) or 'none'}"


def nearest_names(name: str, known: Iterable[str]) -> list[str]:
    """What a name was probably meant to be, sorted: those that are equally near.

    Returns:
        At most three names; none where nothing is near enough, or too many are.
    """
    misses = {other: miss for other in sorted(known) if (miss := _miss(name.casefold(), other.casefold()))}
    least = min(misses.values(), default=None)
    nearest = [other for other, miss in misses.items() if miss == least]
    return nearest if len(nearest) <= _MOST_HINTS else []


def _miss(name: str, known: str) -> tuple[int, int] | None:
    """How far a name is from a known one, or from one of its parts (`onnx` in `onnx-cpu`); None where it is too far.

    About a quarter of the letters may be wrong: one of three to six, and none of one or two.
    """
    found = []
    for rank, part in enumerate((known, *re.split(r"[\W_]+", known))):
        wrong = _count_typos(name, part)
        if part and wrong <= (max(len(name), len(part)) + 1) // 4:
            found.append((wrong, min(rank, 1)))
    if min(len(name), len(known)) >= _LEAST_SHARED and (known in name or known.startswith(name)):
        found.append((1, 1))
    stem = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(name, known, strict=False)))
    if stem >= _LEAST_STEM and 4 * stem >= 3 * min(len(name), len(known)):
        found.append((2, 1))
    return min(found, default=None)


def _count_typos(a: str, b: str) -> int:
    """Letters that are wrong, missing, too many, or exchanged with their neighbour (optimal string alignment)."""
    before, row = [0] * (len(b) + 1), list(range(len(b) + 1))
    for i, letter in enumerate(a, 1):
        earlier, before, row = before, row, [i]
        for j, other in enumerate(b, 1):
            best = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == b[j - 2] and a[i - 2] == other:
                best = min(best, earlier[j - 2] + 1)
            row.append(best)
    return row[-1]
